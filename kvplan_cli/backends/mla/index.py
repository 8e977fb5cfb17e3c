"""What an indexer's keys store.

Source: vLLM 0.33.0 ``vllm/model_executor/models/deepseek_v2.py:DeepseekV32IndexerCache`` and
its kin in ``vllm/models``.
"""

from __future__ import annotations

from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.block_size import StageBlocks
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.layer_spec import packed
from kvplan_cli.backends.selection import backend_named
from kvplan_cli.models.shape import IndexLayer
from kvplan_cli.specs import AttentionSpec, MLAAttentionSpec, SparseCacheRole
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexStorage:
    """The keys of one layer; every rank keeps all of them."""

    layer: IndexLayer
    backend: Backend

    def spec(self, blocks: StageBlocks, facts: Facts) -> AttentionSpec:
        """One key a token or a few, without a value."""
        layer = self.layer
        plain = MLAAttentionSpec(
            block_size=blocks.block_size,
            num_kv_heads=1,
            max_tp_shards=layer.max_tp_shards,
            head_size=layer.head_size,
            dtype=layer.dtype,
            tokens_per_state=layer.tokens_per_state,
            cache_role=SparseCacheRole.INDEXER if layer.marked else SparseCacheRole.SPARSE,
        )
        return packed(plain, self.backend, facts)


def index_storage(layer: IndexLayer) -> IndexStorage:
    """What the layer stores."""
    return IndexStorage(layer=layer, backend=backend_named(layer.backend))
