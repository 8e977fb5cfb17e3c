"""The drafter of speculative decoding, as the engine resolves ``--speculative-config``.

Source: vLLM 0.33.0 ``vllm/config/speculative.py:SpeculativeConfig``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.values import dataclass

if TYPE_CHECKING:
    # Most plans have no drafter.
    from kvplan_cli.models.drafters.modules import Modules

# They draft from the target's hidden states.
_EAGLE_METHODS: Final = frozenset({"eagle", "eagle3", "mtp", "dflash", "dspark"})
_BLOCK_METHODS: Final = frozenset({"dflash", "dspark"})
# No drafting at all: the target's own states are kept.
EXTRACTION: Final = "extract_hidden_states"
# They read the text alone and cache nothing.
_NGRAM: Final = frozenset({"ngram", "ngram_gpu"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafter:
    """A drafter as far as settings and layers depend on it.

    config: its own config; the target's for modules of the same checkpoint, None for methods
    without a model. architectures: the engine's classes for it. modules: of the checkpoint,
    with MTP. num_modules: its ``num_nextn_predict_layers``, 1 where it has none.
    max_model_len: tokens that it serves. shares_positions: its positions are stretched to the
    target's. attention_backend, kv_cache_dtype, quantization: of its own, None where it has
    the target's. is_quantized: its checkpoint has KV scales by a scheme.
    fills_in: a bonus token takes a slot beside the drafted ones. num_hidden_states: layers whose
    states are kept to be handed out.
    """

    method: str
    num_speculative_tokens: int
    config: HfConfig | None = None
    architectures: tuple[str, ...] = ()
    modules: Modules | None = None
    num_modules: int = 1
    max_model_len: int | None = None
    shares_positions: bool = False
    attention_backend: str | None = None
    kv_cache_dtype: str | None = None
    quantization: str | None = None
    has_kv_cache_scheme: bool = False
    parallel_drafting: bool = False
    use_heterogeneous_vocab: bool = False
    disable_eagle_block_drop: bool = False
    disable_padded_drafter_batch: bool = False
    fills_in: bool = False
    num_hidden_states: int = 0

    @property
    def use_eagle(self) -> bool:
        """Whether it reads the target's hidden states."""
        return self.method in _EAGLE_METHODS

    @property
    def drafts_blocks(self) -> bool:
        """Whether it predicts a block of tokens in one pass."""
        return self.method in _BLOCK_METHODS

    @property
    def caches(self) -> bool:
        """Whether it has layers with a cache of their own."""
        return self.use_eagle or self.method in ("draft_model", EXTRACTION)

    @property
    def reads_text_alone(self) -> bool:
        return self.method in _NGRAM

    def keeping_model_dtype(self) -> Drafter:
        """Where the engine itself turned to FP8: a model of its own was never tried with that.

        Source: vLLM 0.33.0 ``models/config.py:GlmMoeDsaForCausalLM``.
        """
        own = self.method != "mtp" and self.kv_cache_dtype is None
        return replace(self, kv_cache_dtype="auto") if own else self

    @property
    def num_prefill_lookahead_tokens(self) -> int:
        """Prompt tokens past the computed range that it reads.

        Source: vLLM 0.33.0 ``vllm/config/vllm.py:num_prefill_lookahead_tokens``.
        """
        if not self.use_eagle:
            return 0
        several = min(self.num_modules, self.num_speculative_tokens) > 1
        return self.num_speculative_tokens if self.method == "mtp" and several else 1

    @property
    def num_lookahead_tokens(self) -> int:
        """Slots past the target's own that a step reserves for each request.

        Source: vLLM 0.33.0 ``vllm/config/vllm.py:num_lookahead_tokens``.
        """
        if self.method == "dflash" or self.fills_in:
            return self.num_speculative_tokens + 1
        drafts = self.caches and self.method != EXTRACTION
        return self.num_speculative_tokens if drafts else 0
