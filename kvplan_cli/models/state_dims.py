"""The recurrent state that each family's config declares.

Source: vLLM 0.33.0 ``get_mamba_state_shape_from_config`` and the mixers' arguments in
``vllm/model_executor/models/{mamba,mamba2,jamba,zamba2,falcon_h1,granitemoehybrid,nemotron_h,
lfm2,lfm2_moe,qwen3_next,qwen3_5,olmo_hybrid,alice_ai}.py``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.language import Language
from kvplan_cli.models.recurrent import (
    DeltaAttentionState,
    GatedDeltaState,
    Mamba1State,
    Mamba2State,
    ShortConvState,
)

_KEY_DIM: Final = "linear_key_head_dim"


def mamba1(language: Language) -> Mamba1State:
    """Mamba and Falcon Mamba."""
    config = language.config
    return Mamba1State(
        intermediate_size=_inner_size(language),
        state_size=config.positive("state_size"),
        conv_kernel=config.positive("conv_kernel"),
    )


def mamba2(language: Language) -> Mamba2State:
    """Mamba 2."""
    config = language.config
    return Mamba2State(
        intermediate_size=_inner_size(language),
        n_groups=config.positive("n_groups"),
        num_heads=config.positive("num_heads"),
        head_dim=config.positive("head_dim"),
        state_size=config.positive("state_size"),
        conv_kernel=config.positive("conv_kernel"),
    )


def _inner_size(language: Language) -> int:
    """``intermediate_size``, else the hidden size expanded."""
    given = language.config.optional_integer("intermediate_size", minimum=1)
    return language.config.positive("expand") * language.hidden_size if given is None else given


def jamba(language: Language) -> Mamba1State:
    """Jamba."""
    config = language.config
    return Mamba1State(
        intermediate_size=_expanded(language),
        state_size=config.positive("mamba_d_state"),
        conv_kernel=config.positive("mamba_d_conv"),
    )


def zamba2(language: Language) -> Mamba2State:
    """Zamba 2."""
    config, inner = language.config, _expanded(language)
    heads = config.positive("n_mamba_heads")
    return Mamba2State(
        intermediate_size=inner,
        n_groups=config.positive("mamba_ngroups"),
        num_heads=heads,
        head_dim=inner // heads,
        state_size=config.positive("mamba_d_state"),
        conv_kernel=config.positive("mamba_d_conv"),
    )


def granite(language: Language) -> Mamba2State:
    """Granite 4."""
    return _d_named(language.config, _expanded(language))


def falcon_h1(language: Language) -> Mamba2State:
    """Falcon-H1: ``mamba_d_ssm`` channels, or the hidden size expanded where it is null."""
    inner = language.config.nullable_integer("mamba_d_ssm", minimum=1)
    return _d_named(language.config, _expanded(language) if inner is None else inner)


def _expanded(language: Language) -> int:
    return language.config.positive("mamba_expand") * language.hidden_size


def _d_named(config: HfConfig, inner: int) -> Mamba2State:
    heads = config.positive("mamba_n_heads")
    shared_out = config.raw("mamba_d_head") == "auto"
    return Mamba2State(
        intermediate_size=inner,
        n_groups=config.positive("mamba_n_groups"),
        num_heads=heads,
        head_dim=inner // heads if shared_out else config.positive("mamba_d_head"),
        state_size=config.positive("mamba_d_state"),
        conv_kernel=config.positive("mamba_d_conv"),
    )


def nemotron_h(language: Language) -> Mamba2State:
    """Nemotron-H; two of its keys have older names, which win."""
    config = language.config
    heads, head_dim = config.positive("mamba_num_heads"), config.positive("mamba_head_dim")
    return Mamba2State(
        intermediate_size=heads * head_dim,
        n_groups=config.positive(language.key("n_groups")),
        num_heads=heads,
        head_dim=head_dim,
        state_size=config.positive("ssm_state_size"),
        conv_kernel=config.positive(language.key("conv_kernel")),
    )


def lfm2(language: Language) -> ShortConvState:
    """LFM2: ``conv_dim`` channels."""
    config = language.config
    return ShortConvState(
        dim=config.positive("conv_dim"), conv_kernel=config.positive("conv_L_cache")
    )


def lfm2_moe(language: Language) -> ShortConvState:
    """LFM2-MoE: the hidden size's channels."""
    return ShortConvState(
        dim=language.hidden_size, conv_kernel=language.config.positive("conv_L_cache")
    )


def gated_delta(language: Language) -> GatedDeltaState:
    """Qwen3-Next and Qwen3.5."""
    config = language.config
    return GatedDeltaState(
        num_k_heads=config.positive("linear_num_key_heads"),
        num_v_heads=config.positive("linear_num_value_heads"),
        head_k_dim=config.positive(_KEY_DIM),
        head_v_dim=config.positive("linear_value_head_dim"),
        conv_kernel=config.positive("linear_conv_kernel_dim"),
    )


def alice_ai(language: Language) -> DeltaAttentionState:
    """AliceAI: delta attention of Kimi's first class, with the keys of Qwen3-Next.

    Source: vLLM 0.33.0 ``models/alice_ai.py:_make_kimi_kda_config``.
    """
    config = language.config
    heads, head_dim = config.positive("linear_num_key_heads"), config.positive(_KEY_DIM)
    if heads != config.positive("linear_num_value_heads") or head_dim != config.positive(
        "linear_value_head_dim"
    ):
        raise EngineRefusalError(
            stage="model_error",
            error_type="ValueError",
            message="AliceAI KDA requires matching key/value head counts and dimensions",
        )
    return DeltaAttentionState(
        num_heads=heads,
        head_dim=head_dim,
        conv_kernel=config.positive("linear_conv_kernel_dim"),
        layer_reads_dtype=False,
        model_reads_dtype=False,
    )


def olmo_hybrid(language: Language) -> GatedDeltaState:
    """OLMo hybrid: heads and sizes are derived where the file has none."""
    own = language.config.optional_integer
    k_heads = own("linear_num_key_heads", minimum=1) or language.num_attention_heads
    k_dim = own(_KEY_DIM, minimum=1)
    if k_dim is None:
        k_dim = int(0.75 * language.hidden_size / k_heads)
    return GatedDeltaState(
        num_k_heads=k_heads,
        num_v_heads=own("linear_num_value_heads", minimum=1) or language.num_attention_heads,
        head_k_dim=k_dim,
        head_v_dim=own("linear_value_head_dim", minimum=1) or 2 * k_dim,
        conv_kernel=language.config.positive("linear_conv_kernel_dim"),
        exports_checkpoints=False,
    )
