"""A layer with a recurrent state: its backend, and its spec once block sizes are known.

Source: vLLM 0.33.0 ``vllm/model_executor/layers/mamba/abstract.py:MambaBase``.
"""

from __future__ import annotations

import math

from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.block_size import StageBlocks
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.backends.scope import BuildScope
from kvplan_cli.backends.states.checkpoints import PrefillKernel, layer_checkpoints
from kvplan_cli.backends.states.rows import layer_dtypes, state_backend
from kvplan_cli.backends.states.shapes import Shapes, rank_shapes
from kvplan_cli.dtypes import DType
from kvplan_cli.models.recurrent import GatedDeltaState, RecurrentState, ShortConvState
from kvplan_cli.models.shape import StateLayer
from kvplan_cli.specs import MambaCacheMode, MambaSpec
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StateStorage:
    """What a layer keeps of a sequence on this rank."""

    state: RecurrentState
    shapes: Shapes
    dtypes: tuple[DType, ...]
    kernel: PrefillKernel
    mamba_cache_mode: str
    num_speculative_tokens: int

    @property
    def backend(self) -> Backend:
        """What runs the recurrence."""
        return state_backend(self.state).backend

    def spec(self, blocks: StageBlocks, facts: Facts) -> MambaSpec:
        """The layer's spec. facts: without the engine's config."""
        assert blocks.mamba_block_size is not None, "the engine sets it for every such model"
        checkpoints = layer_checkpoints(
            self.state,
            self.kernel,
            on_stage=blocks.checkpoint_alignment,
            mamba_block_size=blocks.mamba_block_size,
        )
        self._check_page(blocks.mamba_page_size_padded)
        return MambaSpec(
            shapes=self.shapes,
            dtypes=self.dtypes,
            block_size=blocks.mamba_block_size,
            page_size_padded=blocks.mamba_page_size_padded,
            mamba_type=state_backend(self.state).mamba_type,
            mamba_cache_mode=MambaCacheMode(self.mamba_cache_mode),
            num_speculative_blocks=self.num_speculative_tokens,
            num_prefill_checkpoint_blocks=checkpoints.num_blocks,
            prefill_checkpoint_alignment=checkpoints.alignment,
            tp_replicated=isinstance(self.state, ShortConvState) and self.state.embeds,
        )

    def _check_page(self, padded: int | None) -> None:
        """Blocks are sized by what the model class says of its states, not by the layers.

        Source: vLLM 0.33.0 ``kv_cache_interface.py:MambaSpec.page_size_bytes``.
        """
        content = sum(
            math.prod(shape) * dtype.itemsize
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        )
        if padded is not None and padded < content:
            raise model_refusal(
                "AssertionError",
                "",
                f"its layers keep states of {content} bytes whatever --mamba-ssm-cache-dtype "
                f"says, more than the {padded} that blocks are sized by: drop the flag",
            )


def state_storage(scope: BuildScope, layer: StateLayer) -> StateStorage:
    """What the layer stores. Raises: EngineRefusalError."""
    settings = scope.settings
    storage = StateStorage(
        state=layer.state,
        shapes=rank_shapes(
            layer.state, settings.tensor_parallel_size, settings.num_speculative_tokens
        ),
        dtypes=layer_dtypes(layer.state, settings),
        kernel=PrefillKernel.of(scope.facts, settings.dtype),
        mamba_cache_mode=settings.mamba_cache_mode,
        num_speculative_tokens=settings.num_speculative_tokens,
    )
    if isinstance(layer.state, GatedDeltaState):
        _check_gdn_backend(scope.facts.gdn_prefill_backend)
    if scope.facts.batch_invariant:
        raise model_refusal(
            "RuntimeError",
            f"VLLM batch_invariant mode is not supported for {storage.backend.name}.",
        )
    return storage


def _check_gdn_backend(asked: str) -> None:
    """Kernels of other makers' cards.

    Source: vLLM 0.33.0 ``layers/mamba/gdn/qwen_gdn_linear_attn.py:_resolve_gdn_prefill_backend``.
    """
    if asked == "sycl":
        raise model_refusal("ValueError", "GDN prefill backend 'sycl' is only supported on XPU.")
    if asked == "aiter_flydsl":
        raise model_refusal(
            "RuntimeError",
            "GDN prefill backend 'aiter_flydsl' was requested but it is a ROCm AITER backend and "
            "the current platform is cuda.",
        )
