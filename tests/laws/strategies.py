"""Random models, memories and settings for the laws."""

from __future__ import annotations

from hypothesis import strategies as st

from kvplan_cli.dtypes import DType
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.specs import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaCacheMode,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
)

Layers = dict[str, KVCacheSpec]
GIB = 1 << 30


@st.composite
def models(draw: st.DrawFn) -> Layers:
    """Layers of one model: a dense, windowed, chunked, latent or state model, or a mixture."""
    heads = draw(st.sampled_from([1, 2, 4, 8]))
    head_size = draw(st.sampled_from([64, 96, 128, 256]))
    dtype = draw(st.sampled_from([DType.BFLOAT16, DType.FLOAT32, DType.UINT8]))
    block = draw(st.sampled_from([16, 32, 64]))
    full = FullAttentionSpec(block_size=block, num_kv_heads=heads, head_size=head_size, dtype=dtype)
    window = SlidingWindowSpec(
        block_size=block,
        num_kv_heads=heads,
        head_size=head_size,
        dtype=dtype,
        sliding_window=draw(st.sampled_from([128, 1024, 4096])),
    )
    chunk = ChunkedLocalAttentionSpec(
        block_size=block,
        num_kv_heads=heads,
        head_size=head_size,
        dtype=dtype,
        attention_chunk_size=2048,
    )
    state = MambaSpec(
        block_size=block,
        shapes=((3, 1024), (draw(st.sampled_from([4, 16])), 64, 64)),
        dtypes=(DType.BFLOAT16, DType.FLOAT32),
        mamba_cache_mode=MambaCacheMode.ALIGN,
    )
    latent = MLAAttentionSpec(block_size=block, num_kv_heads=1, head_size=576, dtype=DType.BFLOAT16)
    kinds: list[list[KVCacheSpec]] = [
        [full],
        [window],
        [latent],
        [full, window],
        [full, chunk],
        [full, state],
        [full, window, chunk],
    ]
    chosen = draw(st.sampled_from(kinds))
    count = draw(st.integers(len(chosen), 40))
    pattern = [draw(st.sampled_from(chosen)) for _ in range(count - len(chosen))]
    return {f"model.layers.{i}.attn": spec for i, spec in enumerate([*chosen, *pattern])}


@st.composite
def settings(draw: st.DrawFn) -> PlannerSettings:
    """Settings of a server."""
    layouts = draw(
        st.sampled_from([tuple(KVCacheLayout), (KVCacheLayout.BLHNC,), (KVCacheLayout.LBNHC,)])
    )
    return PlannerSettings(
        max_model_len=draw(st.integers(1, 300_000)),
        max_num_batched_tokens=draw(st.sampled_from([512, 2048, 8192])),
        max_concurrent_batches=draw(st.sampled_from([1, 2, 3])),
        mamba_cache_mode=MambaCacheMode.ALIGN,
        supported_layouts=layouts,
    )


memories = st.integers(1, 120 * GIB)
