"""Recurrent states on a rank: shapes, element types, and the blocks that hold them."""
