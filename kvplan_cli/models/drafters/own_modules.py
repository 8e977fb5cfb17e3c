"""Modules whose layers follow rules of their own family.

Each rule takes the target's language config and a module's number. Source: vLLM 0.33.0
``model_executor/models/{exaone_moe,mimo_v2,nemotron_h,step3p5,longcat_flash}_mtp.py`` and
``vllm/models/{deepseek_v32,deepseek_v4,inkling,minimax_m3}/nvidia/mtp.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.errors import EngineRefusalError, InputError, Problem
from kvplan_cli.models.deepseek_v4 import uncompressed_layers
from kvplan_cli.models.dots3_note import module_layers as note_layers
from kvplan_cli.models.drafters.draft import BEHIND, BESIDE, layer_like
from kvplan_cli.models.inkling import block_layers
from kvplan_cli.models.language import Language
from kvplan_cli.models.latent import latent_layer
from kvplan_cli.models.layer_types import SLIDING
from kvplan_cli.models.llama_like import GROUPED
from kvplan_cli.models.minimax_m3 import sparse_attention
from kvplan_cli.models.mla import has_learned_sink, index_keys
from kvplan_cli.models.reach import FULL_REACH, window_reach
from kvplan_cli.models.shape import AttentionKind, AttentionLayer, CacheLayer, MLALayer
from kvplan_cli.models.step5 import numbered_layer
from kvplan_cli.models.windowed import STEP

_STEP_NAME: Final = "model.layers.{}.mtp_block.self_attn.attn"


def none(language: Language, module: int) -> Sequence[CacheLayer]:
    """No layers in the checkpoint itself."""
    return []


def latent(language: Language, module: int) -> Sequence[CacheLayer]:
    """DeepSeek V3: a dense layer of latent attention behind the model's."""
    return [latent_layer(language, 0, BEHIND.format(language.num_hidden_layers + module))]


def indexed(language: Language, module: int) -> Sequence[CacheLayer]:
    """DeepSeek V3.2 and kin: each module brings an indexer of its own."""
    topk = language.config.optional_integer("index_topk", minimum=1)
    if topk is None:
        return latent(language, module)
    name = f"model.layers.{language.num_hidden_layers + module}.self_attn"
    layer = replace(
        latent_layer(language, 0, f"{name}.attn", index_topk=topk),
        is_sparse=True,
        is_index_group_leader=True,
    )
    return [index_keys(language, 0, f"{name}.indexer.k_cache"), layer]


def indexed_with_sink(language: Language, module: int) -> Sequence[CacheLayer]:
    """HY V4: the same with the model's learned sinks."""
    return [
        replace(layer, has_sink=has_learned_sink(language))
        if isinstance(layer, MLALayer)
        else layer
        for layer in indexed(language, module)
    ]


def kimi_k3(language: Language, module: int) -> Sequence[CacheLayer]:
    """Kimi K3: latent attention without a name of its own."""
    number = language.num_hidden_layers + module
    return [latent_layer(language, 0, f"model.layers.{number}.self_attn")]


def inkling(language: Language, module: int) -> Sequence[CacheLayer]:
    """Inkling: whole blocks, local where ``mtp_config.local_layer_ids`` lists them."""
    listed = language.config.section("mtp_config").optional_list("local_layer_ids") or ()
    name = f"model.layers.{module}.transformer_block"
    return block_layers(language, name, local=module in listed)


def dots3_note(language: Language, module: int) -> Sequence[CacheLayer]:
    """Dots3 NOTE: sliding layers unless ``mtp_layer_types`` says otherwise."""
    kinds = language.config.optional_list("mtp_layer_types")
    kind = SLIDING if kinds is None else str(kinds[module])
    if kind != SLIDING and language.config.has("index_topk"):
        raise EngineRefusalError(
            stage="model_error",
            error_type="AssertionError",
            message="Indexer or topk_indices_buffer required for sparse MLA",
        )
    return note_layers(language, language.num_hidden_layers + module, kind)


def latent_after_pairs(language: Language, module: int) -> Sequence[CacheLayer]:
    """LongCat: its decoder layers attend twice, and are counted twice."""
    number = 2 * language.config.positive("num_layers") + module
    return [latent_layer(language, 0, BEHIND.format(number))]


def uncompressed(language: Language, module: int) -> Sequence[CacheLayer]:
    """DeepSeek V4: a window alone."""
    return uncompressed_layers(language, language.num_hidden_layers + module)


def exaone_moe(language: Language, module: int) -> Sequence[CacheLayer]:
    """EXAONE MoE: kinds by the module's own number, built without the cache's settings."""
    config = language.config
    kinds = config.optional_list("mtp_layer_types") or language.required_layer_types
    listed = config.optional_list("mtp_sliding_windows") or config.optional_list("sliding_windows")
    window = None
    if kinds[module] == SLIDING:
        window = listed[module] if listed else language.sliding_window
    layer = layer_like(GROUPED, language, BESIDE.format(module), window_reach(window))
    return [replace(layer, ignores_cache_config=True)]


def exaone4_5(language: Language, module: int) -> Sequence[CacheLayer]:
    """EXAONE 4.5: the model's layers from its first one on."""
    kinds, window = language.layer_types, None
    if kinds is not None and kinds[module] == SLIDING:
        window = language.sliding_window
    reach = window_reach(language.model_window if window is None else window)
    return [layer_like(GROUPED, language, BESIDE.format(module), reach)]


def mimo_v2(language: Language, module: int) -> Sequence[CacheLayer]:
    """MiMo-V2: a sliding layer with the heads of sliding layers."""
    config = language.config
    window = config.optional_integer("sliding_window_size", minimum=-1)
    slides = window is not None and window >= 0
    head_size = config.positive("swa_head_dim")
    layer = AttentionLayer(
        name=f"model.mtp.layers.{module}.self_attn.attn",
        decoder_layer=0,
        kind=AttentionKind.SLIDING if slides else AttentionKind.FULL,
        num_attention_heads=config.positive("swa_num_attention_heads"),
        num_kv_heads=config.positive("swa_num_key_value_heads"),
        head_size=head_size,
        head_size_v=config.optional_integer("swa_v_head_dim", minimum=1) or head_size,
        sliding_window=window if slides else None,
        has_sink=bool(config.optional_boolean("add_swa_attention_sink_bias")),
    )
    return [layer]


def nemotron_h(language: Language, module: int) -> Sequence[CacheLayer]:
    """Nemotron-H: the attention layers of ``mtp_hybrid_override_pattern``."""
    if module > 0:
        raise EngineRefusalError(
            stage="model_error",
            error_type="AssertionError",
            message="Only one MTP layer is supported for NemotronH-MTP",
        )
    pattern = language.config.text("mtp_hybrid_override_pattern")
    unknown = next((letter for letter in pattern if letter not in "*E"), None)
    if unknown is not None:
        raise EngineRefusalError(
            stage="model_error",
            error_type="NotImplementedError",
            message=f"Pattern char '{unknown}' in {pattern} not implemented",
        )
    reach = window_reach(language.model_window)
    return [
        layer_like(GROUPED, language, f"mtp.layers.{number}.mixer.attn", reach)
        for number, letter in enumerate(pattern)
        if letter == "*"
    ]


def step(language: Language, module: int) -> Sequence[CacheLayer]:
    """Step 3.5: kinds go on behind the model's, with the heads of their kind."""
    config, number = language.config, language.num_hidden_layers + module
    kinds = [*language.config.list("layer_types"), *(config.optional_list("mtp_layer_types") or ())]
    if number >= len(kinds):
        where = f"{config.origin}: {config.where('layer_types')}"
        reason = f"{len(kinds)} entries, and module {module} needs number {number}"
        raise InputError(Problem(where=where, reason=reason, way_out="add mtp_layer_types"))
    reach = window_reach(language.sliding_window) if kinds[number] == SLIDING else FULL_REACH
    heads = STEP.heads(language, 0, reach)
    layer = layer_like(GROUPED, language, _STEP_NAME.format(number), reach)
    return [
        replace(
            layer, num_attention_heads=heads.num_attention_heads, num_kv_heads=heads.num_kv_heads
        )
    ]


def step5(language: Language, module: int) -> Sequence[CacheLayer]:
    """Step 5: layers like the model's, with what they keep beside attention."""
    return numbered_layer(language, language.num_hidden_layers + module, _STEP_NAME)


def minimax_m3(language: Language, module: int) -> Sequence[CacheLayer]:
    """MiniMax M3: a block-sparse layer, numbered by itself."""
    return sparse_attention(language, module)
