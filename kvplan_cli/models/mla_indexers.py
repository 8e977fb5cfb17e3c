"""Which layers of a sparse model choose tokens themselves; the others use an earlier choice.

Source: vLLM 0.33.0 ``vllm/models/deepseek_v32/attention.py`` and
``vllm/models/hy_v4/nvidia/attention.py:compute_skip_topk_layers``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.models.language import Language

# Models that are sparse by their type; others are where the file states a choice.
_SPARSE_TYPES: Final = ("deepseek_v32", "glm_moe_dsa")
_SPARSE_KINDS: Final = frozenset(
    {"sparse_attention", "sparse", "indexed_attention", "deepseek_sparse_attention"}
)


def by_schedule(language: Language) -> Sequence[bool] | None:
    """A pattern of letters, or every ``index_topk_freq`` layers; None without ``index_topk``."""
    config = language.config
    if config.optional_text("model_type") in _SPARSE_TYPES:
        config.positive("index_topk")
    elif "index_topk" not in config.values:
        return None
    return scheduled(language)


def scheduled(language: Language) -> Sequence[bool]:
    """The same in a model that is sparse anyhow."""
    config, layers = language.config, language.num_hidden_layers
    pattern = config.raw("index_topk_pattern")
    if pattern is not None:
        if not isinstance(pattern, str | list | tuple):
            raise config.wrong("index_topk_pattern", "a letter for each layer")
        return [index >= len(pattern) or pattern[index] != "S" for index in range(layers)]
    every = config.optional_integer("index_topk_freq", minimum=1) or 1
    offset = config.optional_integer("index_skip_topk_offset")
    start = (2 if offset is None else offset) - 1
    return [max(index - start, 0) % every == 0 for index in range(layers)]


def by_types(language: Language) -> Sequence[bool] | None:
    """HY V4: ``indexer_types`` says it, in a model whose ``layer_types`` are sparse.

    Raises EngineRefusalError for a list of another length or other words.
    """
    config, layers = language.config, language.num_hidden_layers
    kinds = config.list("layer_types")
    sparse = [index < len(kinds) and kinds[index] in _SPARSE_KINDS for index in range(layers)]
    if not any(sparse):
        return None
    if not all(sparse):
        raise config.wrong("layer_types", "one kind of attention for all layers")
    types = config.list("indexer_types")
    if len(types) != layers:
        raise _refusal(
            "indexer_types must contain one entry per hidden layer: "
            f"expected {layers}, got {len(types)}."
        )
    unknown = sorted(set(types) - {"full", "shared"})
    if unknown:
        raise _refusal(f"indexer_types only supports 'full' and 'shared', got {unknown}.")
    return [kind == "full" for kind in types]


def _refusal(message: str) -> EngineRefusalError:
    return EngineRefusalError(stage="model_error", error_type="ValueError", message=message)
