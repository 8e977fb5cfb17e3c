"""Mistral's own ``params.json``, as the config that the engine makes of it.

Source: vLLM 0.33.0 ``transformers_utils/configs/mistral.py:adapt_config_dict`` and
``transformers_utils/config.py:MistralConfigParser``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kvplan_cli.errors import MissingFieldError
from kvplan_cli.hf_config import HfConfig

PARAMS_NAME: Final = "params.json"
# What the engine takes where neither file states a length.
_LENGTH: Final = 128_000
_RENAMED: Final = {
    "dim": "hidden_size",
    "norm_eps": "rms_norm_eps",
    "n_kv_heads": "num_key_value_heads",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "hidden_dim": "intermediate_size",
    "activation": "hidden_act",
    "tied_embeddings": "tie_word_embeddings",
}
_EXPERTS: Final = {
    "route_every_n": "moe_layer_freq",
    "first_k_dense_replace": "first_k_dense_replace",
    "num_experts_per_tok": "num_experts_per_tok",
    "num_experts": "n_routed_experts",
    "expert_hidden_dim": "moe_intermediate_size",
    "routed_scale": "routed_scaling_factor",
    "num_shared_experts": "n_shared_experts",
    "num_expert_groups": "n_group",
    "num_expert_groups_per_tok": "topk_group",
}
_ROPE: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "factor": ("factor", float),
    "original_max_position_embeddings": ("original_max_position_embeddings", int),
    "beta": ("beta_fast", float),
    "alpha": ("beta_slow", float),
}


def adapted(
    params: Mapping[str, Any], origin: str, hub_config: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The config that the engine makes of the file's content.

    origin: how errors name the file. hub_config: the config.json beside it, where there is one;
    the engine takes from it what the other file lacks.
    Raises InputError and MissingFieldError with the key's place.
    """
    given = HfConfig(params, origin)
    text = _text(given, hub_config or {})
    whole = _whole(given, text)
    return {**(hub_config or {}), **whole}


def _text(given: HfConfig, hub_config: Mapping[str, Any]) -> dict[str, Any]:
    """The language part: general names, windows, quantization, experts, scaling."""
    values = {_RENAMED.get(key, key): value for key, value in given.values.items()}
    length = given.optional_integer("max_position_embeddings", minimum=1)
    if length is None:
        length = _hub_length(hub_config)
    model_type = given.optional_text("model_type") or "transformer"
    values |= {"max_position_embeddings": length, "model_type": model_type}
    values.setdefault("max_seq_len", length)
    values |= _window(given, values)
    values |= _quantization(given)
    values |= _experts(given, values)
    values |= _scaling(given)
    return values


def _hub_length(hub_config: Mapping[str, Any]) -> int:
    part = HfConfig(hub_config)
    text = part.optional_section("text_config") or part
    return text.optional_integer("max_position_embeddings", minimum=1) or _LENGTH


def _window(given: HfConfig, values: Mapping[str, Any]) -> dict[str, Any]:
    """One window for all layers, or a list that starts over, with nulls for full attention."""
    window = given.raw("sliding_window")
    if not window:
        return {}
    layers = HfConfig(values, given.origin).positive("num_hidden_layers")
    if isinstance(window, int):
        return {"layer_types": values.get("layer_types") or ["sliding_attention"] * layers}
    sizes = {size for size in window if size is not None} if isinstance(window, list) else set()
    if not isinstance(window, list) or not all(isinstance(s, int) for s in sizes) or len(sizes) > 1:
        raise given.wrong("sliding_window", "a window in tokens, or a list of one window and nulls")
    pattern = ["full_attention" if s is None else "sliding_attention" for s in window]
    return {
        "layer_types": pattern * (layers // len(window)),
        "sliding_window": next(iter(sizes), None),
    }


def _quantization(given: HfConfig) -> dict[str, Any]:
    part = given.optional_section("quantization")
    if part is None or not part.values:
        return {}
    if part.raw("qformat_weight") == "fp8_e4m3":
        dynamic = part.raw("qscheme_act") == "NO_SCALES"
        scheme = "dynamic" if dynamic else "static"
        return {"quantization_config": {"quant_method": "fp8", "activation_scheme": scheme}}
    if str(part.raw("quant_method") or "").lower().replace("_", "-") == "compressed-tensors":
        return {"quantization_config": {**part.values, "quant_method": "compressed-tensors"}}
    raise given.wrong("quantization", "fp8_e4m3 weights or compressed-tensors")


def _experts(given: HfConfig, values: Mapping[str, Any]) -> dict[str, Any]:
    """The architecture, by the experts; latent caches without experts have one everywhere."""
    if values["model_type"] == "mamba":
        return {"architectures": ["Mamba2ForCausalLM"]}
    moe = given.optional_section("moe")
    if given.raw("qk_nope_head_dim") and (moe is None or not moe.values):
        one = {
            "num_experts": 1,
            "first_k_dense_replace": values.get("num_hidden_layers"),
            "route_every_n": 1,
            "num_shared_experts": 1,
            "expert_hidden_dim": values.get("intermediate_size"),
            "num_experts_per_tok": 1,
            "routed_scale": 1.0,
            "num_expert_groups": 1,
            "num_expert_groups_per_tok": 1,
        }
        moe = HfConfig(one, given.origin, "moe")
    if moe is None or not moe.values:
        return {"architectures": ["MistralForCausalLM"]}
    if not moe.optional_integer("num_shared_experts"):
        return {"architectures": ["MixtralForCausalLM"]}
    if not given.has("llama_4_scaling"):
        raise MissingFieldError("llama_4_scaling", given.origin)
    named = {name: moe.values[key] for key, name in _EXPERTS.items() if key in moe.values}
    return {**named, "model_type": "deepseek_v3", "architectures": ["MistralLarge3ForCausalLM"]}


def _scaling(given: HfConfig) -> dict[str, Any]:
    yarn = given.optional_section("yarn")
    if yarn is None or not yarn.values:
        return {}
    rope: dict[str, Any] = {"rope_type": "yarn", "mscale_all_dim": 1}
    if given.has("rope_theta"):
        rope["rope_theta"] = given.raw("rope_theta")
    for key, (name, kind) in _ROPE.items():
        number = yarn.optional_number(key)
        if number is not None:
            rope[name] = kind(number)
    return {"rope_parameters": rope}


def _whole(given: HfConfig, text: dict[str, Any]) -> dict[str, Any]:
    """The language part itself, or with the encoder that the file describes around it."""
    multimodal = given.optional_section("multimodal")
    sees = multimodal is not None and multimodal.has("vision_encoder_args")
    if sees or given.has("vision_encoder"):
        key = "multimodal" if given.has("multimodal") else "vision_encoder"
        vision = text.pop(key)
        return _around(text, "pixtral", "PixtralForConditionalGeneration", vision_config=vision)
    whisper = None if multimodal is None else multimodal.optional_section("whisper_model_args")
    if whisper is None or not whisper.has("encoder_args"):
        return text
    encoder = whisper.section("encoder_args")
    causal = bool(encoder.optional_boolean("causal"))
    name = "VoxtralRealtimeGeneration" if causal else "VoxtralForConditionalGeneration"
    factor = whisper.section("downsample_args").positive("downsample_factor")
    audio = _audio(encoder, factor if causal else 1, text["max_position_embeddings"])
    audio["downsample_factor"] = factor
    return _around(text, "voxtral", name, audio_config=audio)


def _around(text: dict[str, Any], model_type: str, name: str, **parts: Any) -> dict[str, Any]:
    whole = {"model_type": model_type, "architectures": [name], "text_config": text, **parts}
    if text.get("quantization_config"):
        whole["quantization_config"] = text["quantization_config"]
    return whole


def _audio(encoder: HfConfig, block_pool_size: int, length: int) -> dict[str, Any]:
    """The encoder. block_pool_size: its states for each token of the language part."""
    return {
        "model_type": "whisper",
        "num_mel_bins": encoder.section("audio_encoding_args").raw("num_mel_bins"),
        "window_size": encoder.section("audio_encoding_args").raw("window_size"),
        "d_model": encoder.positive("dim"),
        "encoder_layers": encoder.positive("n_layers"),
        "encoder_ffn_dim": encoder.positive("hidden_dim"),
        "encoder_attention_heads": encoder.positive("n_heads"),
        "encoder_head_dim": encoder.positive("head_dim"),
        "vocab_size": encoder.positive("vocab_size"),
        "max_source_positions": encoder.optional_integer("max_source_positions"),
        "is_encoder_decoder": False,
        "is_causal": block_pool_size > 1,
        "sliding_window": encoder.optional_integer("sliding_window", minimum=0),
        "block_pool_size": block_pool_size,
        "max_position_embeddings": block_pool_size * length,
    }
