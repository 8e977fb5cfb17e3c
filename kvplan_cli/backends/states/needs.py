"""What a model's recurrent states ask of the blocks that they share with attention.

Source: vLLM 0.33.0 ``vllm/platforms/interface.py:_align_hybrid_block_size``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from kvplan_cli.backends.block_size import StateNeeds
from kvplan_cli.backends.scope import BuildScope
from kvplan_cli.backends.states.checkpoints import PrefillKernel, stage_alignment
from kvplan_cli.backends.states.rows import model_dtypes
from kvplan_cli.backends.states.shapes import rank_shapes
from kvplan_cli.models.recurrent import RecurrentState, ShortConvState
from kvplan_cli.models.shape import CacheLayer, StateLayer


def state_needs(scope: BuildScope, layers: Iterable[CacheLayer]) -> StateNeeds | None:
    """The needs of a stage that holds ``layers``; None in a model without states."""
    settings = scope.settings
    if settings.mamba_block_size is None:
        return None
    states = [layer.state for layer in layers if isinstance(layer, StateLayer)]
    kernel = PrefillKernel.of(scope.facts, settings.dtype)
    aligned = settings.mamba_cache_mode == "align"
    pages = [_page(scope, state) for state in scope.shape.block_states]
    return StateNeeds(
        page_size_bytes=max(pages, default=0) if settings.is_hybrid else 0,
        block_size=settings.mamba_block_size,
        aligned=aligned,
        checkpoint_alignment=stage_alignment(states, kernel, aligned=aligned),
    )


def _page(scope: BuildScope, state: RecurrentState) -> int:
    """Bytes of the state as the model class sizes it: LFM2's windows without drafts."""
    settings = scope.settings
    undrafted = isinstance(state, ShortConvState) and not state.embeds
    drafts = 0 if undrafted else settings.num_speculative_tokens
    shapes = rank_shapes(state, settings.tensor_parallel_size, drafts)
    dtypes = model_dtypes(state, settings)
    return sum(
        math.prod(shape) * dtype.itemsize for shape, dtype in zip(shapes, dtypes, strict=True)
    )
