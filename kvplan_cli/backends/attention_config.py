"""The engine's attention settings that flags, architecture and card decide together.

Source: vLLM 0.33.0 ``vllm/model_executor/models/config.py`` (Gemma4Config,
EmbeddingGemma2ModelConfig, DiffusionGemmaModelForBlockDiffusionConfig) and
``vllm/config/model.py:_supports_multimodal_for_mm_prefix``.
"""

from __future__ import annotations

from dataclasses import replace

from kvplan_cli.backends import flash_attention as flash
from kvplan_cli.backends.facts import CurrentConfig, Facts, LatentDims
from kvplan_cli.backends.quant_modes import packs_keys_with_values
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.engine_rules import EngineRules
from kvplan_cli.gpus import Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.shape import IndexLayer, ModelShape, WholeModelDims
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.environment import number_flag
from kvplan_cli.settings.mm_items import is_limited_to_text
from kvplan_cli.settings.model_hooks import GEMMA4_KIN, LONGEST_FLASH_HEAD, UNLIMITED_OCR
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.values import dataclass

_BATCH_INVARIANT = "VLLM_BATCH_INVARIANT"
_ENUM_PREFIX = "AttentionBackendEnum."


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionConfig:
    """What the engine's attention config says after the architecture's hook.

    backend: the engine's name, None for a selection by priority.
    """

    backend: str | None = None
    flash_attn_version: int | None = None
    use_non_causal: bool = False


def resolve_attention_config(
    shape: ModelShape, settings: ResolvedSettings, facts: Facts
) -> AttentionConfig:
    """Backend, FlashAttention version and direction for the whole model."""
    backend = settings.attention_backend
    config = AttentionConfig(
        backend=backend.removeprefix(_ENUM_PREFIX) if backend is not None else None,
        # Packed caches work with version 2 only. Source: ``arg_utils.py:create_engine_config``.
        flash_attn_version=2 if packs_keys_with_values(settings.cache_dtype) else None,
    )
    if shape.architecture == UNLIMITED_OCR and config.backend == "FLASH_ATTN":
        # Only version 4 masks by reference windows.
        return replace(config, flash_attn_version=4)
    if shape.architecture not in GEMMA4_KIN:
        return config
    config = _for_mixed_head_sizes(shape, settings, facts, config)
    if config.backend is None and shape.architecture == "DiffusionGemmaForBlockDiffusion":
        return replace(config, use_non_causal=True)
    return config


def _for_mixed_head_sizes(
    shape: ModelShape, settings: ResolvedSettings, facts: Facts, config: AttentionConfig
) -> AttentionConfig:
    """Gemma 4: one FlashAttention version for all layers, where 4 can run."""
    head_sizes = {layer.head_size for layer in shape.attention_layers}
    if len(head_sizes) <= 1:
        return config
    if flash.is_version_supported(4, facts) and max(head_sizes) <= LONGEST_FLASH_HEAD:
        # FP8 on Hopper keeps version 3 where it can; longer heads are upgraded by layer.
        by_layer = facts.major == 9 and settings.cache_dtype.startswith("fp8")
        free = config.flash_attn_version is None and config.backend in (None, "FLASH_ATTN")
        return replace(config, flash_attn_version=4) if free and not by_layer else config
    return config


def engine_facts(
    shape: ModelShape,
    settings: ResolvedSettings,
    args: EngineArgs,
    gpu: Gpu,
    config: HfConfig,
    rules: EngineRules,
) -> tuple[Facts, AttentionConfig]:
    """The card and the engine's config as backends read it, and the attention config."""
    card = Facts(
        capability=gpu.capability,
        device_name=gpu.name,
        batch_invariant=bool(number_flag(args.env, _BATCH_INVARIANT)),
        rules=rules,
        prefix_match_unit=args.prefix_match_unit,
        gdn_prefill_backend=args.gdn_prefill_backend or "auto",
    )
    attention = resolve_attention_config(shape, settings, card)
    dims = _whole_model(shape)
    tensor_parallel_size = settings.tensor_parallel_size
    current = CurrentConfig(
        head_size=dims.head_size,
        num_attention_heads=dims.num_attention_heads // tensor_parallel_size,
        num_kv_heads=max(1, dims.num_kv_heads // tensor_parallel_size),
        cache_dtype=settings.cache_dtype,
        flash_attn_version=attention.flash_attn_version,
        is_diffusion=config.has("canvas_length"),
        logits_soft_cap=bool(text_config(config).optional_number("attn_logit_softcapping")),
        mm_prefix_lm=serves_mm_prefix(shape, args),
        rswa=config.has("rswa_window") or shape.architecture == UNLIMITED_OCR,
        decode_context_parallel_size=settings.decode_context_parallel_size,
        prefill_context_parallel_size=settings.prefill_context_parallel_size,
        latent=_latent_dims(shape),
        index_pool=next(
            (layer.tokens_per_state for layer in shape.layers if isinstance(layer, IndexLayer)), 1
        ),
    )
    return replace(card, config=current), attention


def _whole_model(shape: ModelShape) -> WholeModelDims:
    if shape.whole_model is not None:
        return shape.whole_model
    latent = shape.latent_layers
    if latent:
        return WholeModelDims(
            num_attention_heads=latent[0].num_attention_heads,
            num_kv_heads=1,
            head_size=latent[0].head_size,
        )
    attention = shape.attention_layers
    layers = [layer for layer in attention if layer.own_cache is None] or attention
    return WholeModelDims(
        num_attention_heads=max((layer.num_attention_heads for layer in layers), default=0),
        num_kv_heads=max((layer.num_kv_heads for layer in layers), default=0),
        head_size=max((layer.head_size for layer in layers), default=0),
    )


def _latent_dims(shape: ModelShape) -> LatentDims | None:
    for layer in shape.latent_layers:
        if layer.sliding_window is not None:
            # The config states the sizes of such layers apart.
            continue
        return LatentDims(
            kv_lora_rank=layer.kv_lora_rank,
            qk_nope_head_dim=layer.qk_nope_head_dim,
            qk_rope_head_dim=layer.qk_rope_head_dim,
            v_head_dim=layer.v_head_dim,
            index_topk=layer.index_topk,
        )
    return None


def serves_mm_prefix(shape: ModelShape, args: EngineArgs) -> bool:
    """Whether multimodal tokens attend both ways: not in a deployment limited to text."""
    mm_prefix = any(layer.mm_prefix for layer in shape.attention_layers)
    return mm_prefix and not is_limited_to_text(shape.modalities, args)
