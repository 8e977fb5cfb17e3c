"""What the engine's attention rules read beside a layer: the card and the engine's config.

The engine asks some questions without its config in scope (when it collects the layers'
specs), and then answers them by the card alone; ``Facts.without_config`` is that view.
Source: vLLM 0.33.0 ``vllm/config/vllm.py:get_current_vllm_config_or_none``.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan_cli.engine_rules import NEWEST_RULES, EngineRules
from kvplan_cli.values import dataclass

Capability = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentDims:
    """Sizes of latent attention as the language config states them.

    index_topk: tokens that sparse layers attend to, None in a dense model.
    """

    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    index_topk: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentConfig:
    """The engine's config as attention backends read it.

    head_size, num_attention_heads, num_kv_heads: of the whole model, heads of one rank.
    cache_dtype: the KV dtype of the run. flash_attn_version: a forced FlashAttention version.
    logits_soft_cap: the text config caps attention logits. mm_prefix_lm: multimodal tokens
    attend both ways in this deployment. latent: None without latent attention. index_pool:
    tokens of one key of the model's indexer.
    """

    head_size: int
    num_attention_heads: int
    num_kv_heads: int
    cache_dtype: str
    flash_attn_version: int | None = None
    is_diffusion: bool = False
    logits_soft_cap: bool = False
    mm_prefix_lm: bool = False
    rswa: bool = False
    decode_context_parallel_size: int = 1
    prefill_context_parallel_size: int = 1
    latent: LatentDims | None = None
    index_pool: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The card, and the config where the engine has it in scope.

    device_name: as the driver names the card. batch_invariant: VLLM_BATCH_INVARIANT is on.
    rules: the release's. prefix_match_unit, gdn_prefill_backend: as given.
    """

    capability: Capability
    device_name: str
    batch_invariant: bool = False
    config: CurrentConfig | None = None
    rules: EngineRules = NEWEST_RULES
    prefix_match_unit: int | None = None
    gdn_prefill_backend: str = "auto"

    @property
    def major(self) -> int:
        return self.capability[0]

    def without_config(self) -> Facts:
        """What the engine knows when its config is not in scope."""
        return replace(self, config=None)
