"""Drafters of speculative decoding: the layers that they keep beside the target's."""
