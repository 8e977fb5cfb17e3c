"""Tables of embeddings in the Transformers library's classes.

Source: vLLM 0.33.0 ``models/transformers/base.py:Base._vocab_embeddings``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import Tensors


def library_table(site: Site, config: HfConfig, name: str, rows: int, columns: int) -> Tensors:
    """A table, shared out where it has as many rows as any vocabulary of the config or its parts:
    the engine takes it for a vocabulary's then."""
    if rows in _vocabularies(config.values):
        return site.embedding(name, rows, columns)
    return site.vector(f"{name}.weight", rows * columns)


def _vocabularies(values: Mapping[str, Any]) -> Iterator[Any]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _vocabularies(value)
        elif "vocab_size" in str(key):
            yield value
