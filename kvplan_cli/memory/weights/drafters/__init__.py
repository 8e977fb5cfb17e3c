"""Weights of drafters of speculative decoding, beside those of their targets."""
