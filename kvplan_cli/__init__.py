"""kvplan: what vLLM will plan for a model's KV cache, before any GPU is rented."""

__version__ = "0.1.0"
