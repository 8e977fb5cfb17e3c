"""What the planner asks of the engine's settings; numbers only, no config object."""

from __future__ import annotations

from kvplan_cli.engine_rules import NEWEST_RULES, EngineRules
from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.specs import MambaCacheMode, RequestLimits
from kvplan_cli.values import dataclass

EAGLE_METHODS = frozenset({"eagle", "eagle3", "mtp", "dflash", "dspark"})
# Their draft cache depends on the target's hidden state alone: no trailing block is dropped.
METHODS_WITHOUT_BLOCK_DROP = frozenset({"dflash", "dspark"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeculativeSettings:
    """Speculative decoding as far as the cache feels it.

    num_draft_modules: modules of an MTP drafter (``num_nextn_predict_layers``), None where
    the drafter does not say. trailing_draft_layers: the drafter's layers register last and
    carry no mark (MTP; every method on DeepSeek V4).
    """

    method: str
    num_speculative_tokens: int
    num_draft_modules: int | None = None
    trailing_draft_layers: bool = False
    disable_eagle_block_drop: bool = False

    @property
    def use_eagle(self) -> bool:
        """Whether the drafter reads the target's hidden states.

        Source: vLLM 0.33.0 ``config/speculative.py:use_eagle``.
        """
        return self.method in EAGLE_METHODS

    @property
    def use_eagle_block_drop(self) -> bool:
        """Whether prefix caching drops a draft group's last block."""
        drops = self.use_eagle and self.method not in METHODS_WITHOUT_BLOCK_DROP
        return drops and not self.disable_eagle_block_drop

    @property
    def num_prefill_lookahead_tokens(self) -> int:
        """Prompt tokens past the computed range that the drafter reads.

        Source: vLLM 0.33.0 ``config/vllm.py:num_prefill_lookahead_tokens``.
        """
        if not self.use_eagle:
            return 0
        modules = 1 if self.num_draft_modules is None else self.num_draft_modules
        if self.method == "mtp" and min(modules, self.num_speculative_tokens) > 1:
            return self.num_speculative_tokens
        return 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HiSparseSettings:
    """Host-backed sparse MLA.

    host_pool_bytes: bytes of pinned host memory. top_k: the model's sparse top-k.
    device_buffer_size: hot rows a request, None for the engine's default.
    shared_host_pool: tensor parallel ranks of one node share the pool.
    """

    host_pool_bytes: int
    top_k: int
    device_buffer_size: int | None = None
    shared_host_pool: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerSettings:
    """The engine's resolved settings, as far as the planner reads them.

    auto_fit: find the longest length up to max_model_len. block_size: tokens, the engine's
    global value. supported_layouts: what every backend takes, best first. requested_layout:
    ``VLLM_KV_CACHE_LAYOUT``. max_concurrent_batches: batches in flight. prefix_match_unit: tokens
    of a prefix hit's step, as given. cp_kv_cache_interleave_size: tokens in a row on one rank of a
    context. disable_chunked_mm_input: multimodal items are never split. rules: the release's.
    """

    max_model_len: int
    max_num_batched_tokens: int
    max_concurrent_batches: int
    auto_fit: bool = False
    block_size: int = 16
    tensor_parallel_size: int = 1
    decode_context_parallel_size: int = 1
    max_num_encoder_input_tokens: int = 0
    num_gpu_blocks_override: int | None = None
    disable_hybrid_kv_cache_manager: bool = False
    supported_layouts: tuple[KVCacheLayout, ...] = tuple(KVCacheLayout)
    requested_layout: str | None = None
    enable_prefix_caching: bool = True
    mamba_cache_mode: MambaCacheMode = MambaCacheMode.NONE
    speculative: SpeculativeSettings | None = None
    hisparse: HiSparseSettings | None = None
    prefix_match_unit: int | None = None
    cp_kv_cache_interleave_size: int = 1
    disable_chunked_mm_input: bool = False
    rules: EngineRules = NEWEST_RULES

    @property
    def max_in_flight_tokens(self) -> int:
        """Tokens scheduled but not settled, over all batches that the release counts."""
        batches = 1 if self.rules.single_batch_in_flight else self.max_concurrent_batches
        return batches * self.max_num_batched_tokens

    @property
    def num_prefill_lookahead_tokens(self) -> int:
        """Prompt tokens past the computed range that a drafter reads; 0 without one."""
        return 0 if self.speculative is None else self.speculative.num_prefill_lookahead_tokens

    @property
    def request_limits(self) -> RequestLimits:
        """What bounds one request besides its length."""
        return RequestLimits(
            max_in_flight_tokens=self.max_in_flight_tokens,
            decode_context_parallel_size=self.decode_context_parallel_size,
            max_num_encoder_input_tokens=self.max_num_encoder_input_tokens,
            mamba_cache_mode=self.mamba_cache_mode,
        )


def max_concurrent_batches(
    *, pipeline_parallel_size: int, async_scheduling: bool, use_v2_model_runner: bool = True
) -> int:
    """Batches in flight at a time.

    Source: vLLM 0.33.0 ``config/vllm.py:max_concurrent_batches``.
    """
    if not async_scheduling:
        return pipeline_parallel_size
    if use_v2_model_runner:
        return pipeline_parallel_size + 1
    return 2 if pipeline_parallel_size <= 1 else pipeline_parallel_size
