"""Hidden states that are kept to be handed out: a cache that nothing attends to.

Source: vLLM 0.33.0 ``model_executor/models/extract_hidden_states.py``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.block_size import StageBlocks
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.layer_spec import packed
from kvplan_cli.backends.scope import BuildScope
from kvplan_cli.dtypes import DType
from kvplan_cli.models.shape import HiddenStateLayer
from kvplan_cli.specs import AttentionSpec, HiddenStateCacheSpec
from kvplan_cli.values import dataclass

_CACHE_ONLY: Final = Backend(
    name="CACHE_ONLY_ATTN",
    dtypes=frozenset({DType.FLOAT16, DType.BFLOAT16, DType.FLOAT32}),
    kv_cache_dtype=lambda name, facts: name in ("auto", "bfloat16"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenStateStorage:
    """The states of one step's chosen layers, whole on every rank."""

    layer: HiddenStateLayer
    backend: Backend
    dtype: DType

    def spec(self, blocks: StageBlocks, facts: Facts) -> AttentionSpec:
        """A vector for each chosen layer and token, in the model's type."""
        plain = HiddenStateCacheSpec(
            block_size=blocks.block_size,
            num_kv_heads=self.layer.num_hidden_states,
            head_size=self.layer.hidden_size,
            dtype=self.dtype,
        )
        return packed(plain, self.backend, facts)


def hidden_state_storage(scope: BuildScope, layer: HiddenStateLayer) -> HiddenStateStorage:
    """What the layer stores; the cache's own quantization does not touch it."""
    return HiddenStateStorage(layer=layer, backend=_CACHE_ONLY, dtype=scope.settings.dtype)
