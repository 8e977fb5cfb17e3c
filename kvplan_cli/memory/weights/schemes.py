"""From a checkpoint's quantization config to the scheme that its tensors follow.

Source: vLLM 0.33.0 ``model_executor/layers/quantization/*.py:from_config``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from kvplan_cli.errors import Problem, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.ignored import Ignored, Matching
from kvplan_cli.memory.weights.mixed import Formats, Mixed, MxFp8, SplitScheme
from kvplan_cli.memory.weights.packed_ints import PackedInt
from kvplan_cli.memory.weights.quantization import (
    Fp8,
    MxFp4Experts,
    Nf4,
    NvFp4,
    RowScaledBytes,
    Scheme,
)
from kvplan_cli.memory.weights.tensors import BYTE

ExtraFiles = Mapping[str, Mapping[str, Any]]
HOPPER: Final = 9
_MODELOPT_FILE: Final = "hf_quant_config.json"


def unknown(what: str, where: str) -> UnplannableError:
    """Weights that cannot be counted: what is not known, and the way out."""
    return UnplannableError(
        Problem(
            where=where,
            reason=f"kvplan cannot count the weights: {what}",
            way_out="give the rank's weights with --weights, or the whole budget with --kv-mem",
        )
    )


def scheme_of(
    config: HfConfig,
    text: HfConfig,
    quantization: str | None,
    extra_files: ExtraFiles,
    capability: tuple[int, int],
) -> Scheme:
    """The scheme of the resolved ``quantization``; UnplannableError for one not known."""
    if quantization is None:
        return Scheme()
    if quantization == "gpt_oss_mxfp4":
        return _gpt_oss(capability)
    if quantization == "deepseek_v4_fp8":
        return _deepseek_v4(text, _section(config, text, extra_files))
    names = config.optional_list("architectures") or ()
    if quantization == "fp8" and not _LING_3.isdisjoint(map(str, names)):
        return _ling_3(_section(config, text, extra_files))
    reader = _READERS.get(quantization)
    if reader is None:
        known = ", ".join(sorted(_READERS))
        raise unknown(
            f"quantization {quantization!r} is not described (known: {known})",
            f"{config.origin}: quantization_config",
        )
    scheme = reader(_section(config, text, extra_files))
    if isinstance(scheme, PackedInt) and capability == _MACHETE_CARD:
        return replace(scheme, machete=True)
    return scheme


# Source: vLLM 0.33.0 ``kernels/linear/mixed_precision/machete.py:can_implement``.
_MACHETE_CARD: Final = (9, 0)


def _section(config: HfConfig, text: HfConfig, extra_files: ExtraFiles) -> HfConfig:
    for part in (config, text):
        section = part.optional_section("quantization_config")
        if section is not None:
            return section
    values = extra_files.get(_MODELOPT_FILE)
    if values is not None:
        return HfConfig(values, _MODELOPT_FILE)
    return HfConfig({}, config.origin, "quantization_config")


def _names(section: HfConfig, *keys: str) -> tuple[str, ...]:
    for key in keys:
        listed = section.optional_list(key)
        if listed is not None:
            return tuple(str(name) for name in listed)
    return ()


def _fp8(section: HfConfig) -> Scheme:
    block = section.optional_list("weight_block_size")
    names = _names(section, "ignored_layers", "modules_to_not_convert")
    return Fp8(
        ignored=Ignored(names=names),
        block=None if block is None else (int(block[0]), int(block[1])),
        static_inputs=section.optional_text("activation_scheme") == "static",
        online=not section.values,
    )


_LING_3: Final = frozenset({"BailingMoeV3ForCausalLM", "BailingMoeV3VLForConditionalGeneration"})


def _ling_3(section: HfConfig) -> Scheme:
    """Blocks whose exceptions are told by the ends of names, some with a byte for a scale.

    Source: vLLM 0.33.0 ``models/bailing_moe_v3.py:_configure_ling_fp8_quant_config``.
    """
    linear = _fp8(section)
    assert isinstance(linear, Fp8)
    if linear.block is None:
        return linear
    names = tuple(_of_ling(name) for name in linear.ignored.names)
    ignored = Ignored(names=names, matching=Matching.SUFFIX)
    byte = section.optional_text("scale_fmt") == "ue8m0"
    itemsize = BYTE if byte else linear.scale_itemsize
    linear = replace(linear, ignored=ignored, scale_itemsize=itemsize)
    routed = section.optional_text("routed_experts_quant_method")
    if routed is None:
        return linear
    if routed != "mxfp4":
        raise section.wrong("routed_experts_quant_method", "mxfp4")
    return SplitScheme(ignored=ignored, linears=linear, routed=_mxfp4(section))


def _of_ling(name: str) -> str:
    """A module's name as the engine has it."""
    name = name.replace(".attention.", ".self_attn.")
    inside = name.removeprefix("attention.")
    return name if inside == name else f"self_attn.{inside}"


def _modelopt_ignored(section: HfConfig) -> Ignored:
    inner = section.optional_section("quantization")
    names = _names(section, "ignore", "exclude_modules")
    if inner is not None:
        names = names or _names(inner, "exclude_modules", "ignore")
    return Ignored(names=names, matching=Matching.WILDCARD)


def _modelopt_fp8(section: HfConfig) -> Scheme:
    return Fp8(ignored=_modelopt_ignored(section), static_inputs=True, scales_latent=True)


def _modelopt_fp4(section: HfConfig) -> Scheme:
    return NvFp4(ignored=_modelopt_ignored(section), scales_latent=True)


def _gpt_oss(capability: tuple[int, int]) -> Scheme:
    """Triton's kernel on Hopper rounds less than Marlin and TensorRT elsewhere.

    Source: vLLM 0.33.0 ``fused_moe/oracle/mxfp4.py``.
    """
    if capability[0] != HOPPER:
        return MxFp4Experts(intermediate_multiple=128, hidden_multiple=256)
    return MxFp4Experts()


_SMALL_BLOCK: Final = (32, 32)


def _deepseek_v4(text: HfConfig, section: HfConfig) -> Scheme:
    """Linear layers in fp8 blocks; experts as the config says.

    V4.1's small blocks have a scale for each row of theirs. Source: vLLM 0.33.0
    ``vllm/models/{deepseek_v4,deepseek_v41}/quant_config.py``.
    """
    linear = _fp8(section)
    assert isinstance(linear, Fp8)
    experts_in = text.optional_text("expert_dtype") or section.optional_text("expert_dtype")
    if (experts_in or "fp4") != "fp4":
        return linear
    if linear.block == _SMALL_BLOCK:
        linear = replace(linear, block=(1, _SMALL_BLOCK[1]))
    nv = (section.optional_text("moe_quant_algo") or "").upper() == "NVFP4"
    experts: Scheme = NvFp4() if nv else _mxfp4(section)
    return SplitScheme(
        ignored=linear.ignored, linears=replace(linear, scale_itemsize=BYTE), routed=experts
    )


def _mxfp4(section: HfConfig) -> Scheme:
    # The Marlin kernel serves other MXFP4 experts on this card.
    return MxFp4Experts(intermediate_multiple=128, hidden_multiple=256)


def _modelopt_mixed(section: HfConfig) -> Scheme:
    """Each layer's format is listed by its name.

    Source: vLLM 0.33.0 ``quantization/modelopt.py:ModelOptMixedPrecisionConfig``.
    """
    inner = section.optional_section("quantization") or section
    listed = inner.section("quantized_layers")
    formats = {name: listed.section(name).text("quant_algo").upper() for name in listed.values}
    unknown_formats = set(formats.values()) - set(_MIXED_FORMATS)
    if unknown_formats:
        raise unknown(f"format {min(unknown_formats)}", listed.where("*"))
    cache = inner.has("kv_cache_quant_algo") or inner.has("kv_cache_scheme")
    return Mixed(
        ignored=_modelopt_ignored(section),
        formats=Formats.of(formats),
        schemes=tuple(_MIXED_FORMATS.items()),
        caches=cache,
    )


_MIXED_FORMATS: Final[Mapping[str, Scheme]] = {
    "FP8": Fp8(static_inputs=True),
    "NVFP4": NvFp4(),
    "W4A16_NVFP4": NvFp4(weights_only=True),
    "MXFP8": MxFp8(),
}


def _gptq(section: HfConfig) -> Scheme:
    group = section.integer("group_size", minimum=-1)
    return PackedInt(
        ignored=Ignored(names=_names(section, "modules_to_not_convert")),
        bits=section.positive("bits"),
        group=None if group < 1 else group,
        zero_points=True,
    )


def _awq(section: HfConfig) -> Scheme:
    bits = section.optional_integer("w_bit", minimum=1) or section.positive("bits")
    group = section.optional_integer("q_group_size", minimum=-1)
    if group is None:
        group = section.integer("group_size", minimum=-1)
    return PackedInt(
        ignored=Ignored(
            names=_names(section, "modules_to_not_convert"), matching=Matching.SUBSTRING
        ),
        bits=bits,
        group=None if group < 1 else group,
        zero_points=True,
        subtracts=True,
    )


def _compressed_tensors(section: HfConfig) -> Scheme:
    """Source: vLLM 0.33.0 ``compressed_tensors.py:CompressedTensorsKVCacheMethod`` for caches."""
    return replace(_compressed(section), zero_points_of_caches=True)


def _compressed(section: HfConfig) -> Scheme:
    groups = section.section("config_groups")
    if len(groups.values) != 1:
        raise unknown("several quantization groups", groups.where("*"))
    group = groups.section(next(iter(groups.values)))
    weights = group.section("weights")
    ignored = Ignored(names=_names(section, "ignore"), matching=Matching.EXPRESSION)
    bits = weights.positive("num_bits")
    kind = weights.text("type")
    size = weights.optional_integer("group_size", minimum=-1)
    if bits == 4 and kind == "int":
        symmetric = weights.optional_boolean("symmetric") is not False
        columns = None if size is None or size < 1 else size
        return PackedInt(
            ignored=ignored,
            bits=bits,
            group=columns,
            zero_points=not symmetric,
            subtracts=not symmetric,
            shapes=True,
        )
    if bits == 4 and kind == "float" and size == 16:
        return NvFp4(ignored=ignored)
    if bits == 8:
        return _eight_bits(weights, ignored)
    raise unknown(f"{bits}-bit {kind} weights", weights.where("num_bits"))


def _eight_bits(weights: HfConfig, ignored: Ignored) -> Scheme:
    strategy = weights.optional_text("strategy")
    if strategy == "channel":
        return RowScaledBytes(ignored=ignored)
    if strategy == "block":
        block = weights.list("block_structure")
        return Fp8(ignored=ignored, block=(int(block[0]), int(block[1])))
    if strategy == "tensor":
        return Fp8(ignored=ignored)
    raise unknown(f"8-bit weights scaled by {strategy}", weights.where("strategy"))


def _bitsandbytes(section: HfConfig) -> Scheme:
    skipped = _names(section, "llm_int8_skip_modules")
    ignored = Ignored(names=skipped, matching=Matching.SUBSTRING)
    if section.optional_boolean("load_in_8bit"):
        return RowScaledBytes(ignored=ignored)
    return Nf4(ignored=ignored)


_READERS: Final[Mapping[str, Callable[[HfConfig], Scheme]]] = {
    "fp8": _fp8,
    "modelopt": _modelopt_fp8,
    "modelopt_fp4": _modelopt_fp4,
    "modelopt_mixed": _modelopt_mixed,
    "mxfp4": _mxfp4,
    "gptq": _gptq,
    "gptq_marlin": _gptq,
    "auto_gptq": _gptq,
    "awq": _awq,
    "awq_marlin": _awq,
    "auto_awq": _awq,
    "compressed-tensors": _compressed_tensors,
    "bitsandbytes": _bitsandbytes,
}
