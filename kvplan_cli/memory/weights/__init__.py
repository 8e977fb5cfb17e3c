"""Weights counted from a config, tensor by tensor."""
