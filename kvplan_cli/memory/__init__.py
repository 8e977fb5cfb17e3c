"""From a card's memory and a model's weights to the bytes left for the KV cache.

Its parts are imported by name: the families' weights cost time that a plan on known memory
need not pay.
"""
