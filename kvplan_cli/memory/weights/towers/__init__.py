"""Encoders of other modalities and the projectors that lead to the language model."""
