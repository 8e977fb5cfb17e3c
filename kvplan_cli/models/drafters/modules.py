"""Modules of a checkpoint that predict further tokens (MTP), by the target they belong to.

Source: vLLM 0.33.0 ``vllm/config/speculative.py:hf_config_override`` and the draft models'
files. A new family is a row here, its layers a rule in ``own_modules``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from kvplan_cli.errors import EngineRefusalError, MissingFieldError, Problem, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.bailing import BAILING_2_5, BAILING_3
from kvplan_cli.models.drafters import own_modules as own
from kvplan_cli.models.drafters.draft import BESIDE, ModuleRule, attention, one_more
from kvplan_cli.models.glm5_next import GLM5_NEXT
from kvplan_cli.models.language import Language
from kvplan_cli.models.library import LIBRARY_TEXT, library_module
from kvplan_cli.models.llama_like import GROUPED, QWEN2
from kvplan_cli.models.qwen4_exp import QWEN4_EXP
from kvplan_cli.models.shape import CacheLayer
from kvplan_cli.models.text import text_config
from kvplan_cli.values import dataclass

NEXTN: Final = "num_nextn_predict_layers"
_QWEN3_5: Final = "mtp_num_hidden_layers"
_MTP_LAYERS: Final = "num_mtp_layers"
_MINIMAX: Final = "num_mtp_modules"

# A count of modules by the whole config; None where it does not say.
CountRule = Callable[[HfConfig], int | None]


def stated(key: str, default: int | None = None) -> CountRule:
    """The count under ``key`` of the whole config."""

    def rule(config: HfConfig) -> int | None:
        count = config.optional_integer(key, minimum=0)
        return default if count is None else count

    return rule


def stated_in_text(key: str, default: int | None = None) -> CountRule:
    """The same of the language part."""
    return lambda config: stated(key, default)(text_config(config))


def one(config: HfConfig) -> int | None:
    return 1


def _qwen3_5_predicted(config: HfConfig) -> int | None:
    count = config.optional_integer(_QWEN3_5, minimum=0)
    return stated_in_text(_QWEN3_5)(config) if count is None else count


def _qwen4_built(config: HfConfig) -> int | None:
    count = stated_in_text(_QWEN3_5)(config)
    return stated_in_text(NEXTN)(config) if count is None else count


def _inkling_predicted(config: HfConfig) -> int | None:
    section = config.optional_section("mtp_config")
    depths = section.optional_integer(NEXTN, minimum=0) if section is not None else None
    if not depths:
        raise EngineRefusalError(
            stage="config_error",
            error_type="ValidationError",
            message="The Inkling checkpoint does not contain MTP weights",
        )
    return depths


def _with_mtp_config(config: HfConfig) -> HfConfig:
    text = text_config(config)
    values = {**text.values, "mtp_config": config.raw("mtp_config")}
    return HfConfig(values, text.origin, text.path)


def _exaone4_5_built(config: HfConfig) -> int | None:
    """The modules count their words by the whole config, whose class has no number of its own."""
    if not config.has("vocab_size"):
        raise EngineRefusalError(
            stage="model_error",
            error_type="AttributeError",
            message="'Exaone4_5_Config' object has no attribute 'vocab_size'",
            way_out="add vocab_size beside text_config",
        )
    return stated(NEXTN, 1)(config)


def _hy_v4_built(config: HfConfig) -> int | None:
    return max(config.optional_integer(NEXTN, minimum=0) or 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Modules:
    """What the engine makes of a checkpoint's own modules.

    architecture: the draft model's class. layers: those of one module, by its number.
    built: modules that are built. predicted: ``n_predict`` of the draft's config: draft tokens
    come in multiples of it. chained: its ``num_nextn_predict_layers``: of several modules, each
    reads a token further ahead. promotes_text: the engine makes the draft's config of the
    language part alone. needs_modules: without any, the engine sees no drafter.
    one_a_token: no more are built than tokens are drafted. part: what the layers read.
    """

    architecture: str
    layers: ModuleRule
    built: CountRule = field(default_factory=lambda: stated(NEXTN))
    predicted: CountRule = field(default_factory=lambda: stated(NEXTN))
    chained: CountRule = field(default_factory=lambda: stated(NEXTN, 1))
    promotes_text: bool = False
    needs_modules: bool = False
    one_a_token: bool = False
    part: Callable[[HfConfig], HfConfig] = text_config

    def all_layers(self, config: HfConfig, num_speculative_tokens: int) -> Sequence[CacheLayer]:
        """The layers of all modules of the target's ``config``, unsharded, in order."""
        count = self.built(config)
        if count is None:
            raise MissingFieldError(config.where(NEXTN), config.origin)
        if self.one_a_token:
            count = min(count, num_speculative_tokens)
        language = Language.of(self.part(config))
        return [layer for module in range(count) for layer in self.layers(language, module)]


_DEEPSEEK_V32: Final = Modules(architecture="DeepseekV32MTPModel", layers=own.indexed)
_MIMO_V2: Final = Modules(
    architecture="MiMoV2MTPModel", layers=own.mimo_v2, built=one, predicted=one, chained=one
)
_NEMOTRON_H: Final = Modules(
    architecture="NemotronHMTPModel", layers=own.nemotron_h, needs_modules=True
)
_QWEN3_5_MODULES: Final = Modules(
    architecture="Qwen3_5MTP",
    layers=attention(GROUPED, BESIDE),
    built=stated_in_text(_QWEN3_5, 1),
    predicted=_qwen3_5_predicted,
)
_INTERN_S2: Final = replace(_QWEN3_5_MODULES, predicted=stated_in_text(_QWEN3_5), part=text_config)
_QWEN4_MODULES: Final = Modules(
    architecture="Qwen4ExpMTP",
    layers=one_more(QWEN4_EXP.attention, "mtp."),
    built=_qwen4_built,
    predicted=_qwen4_built,
)
_INKLING: Final = Modules(
    architecture="InklingMTPModel",
    layers=own.inkling,
    built=_inkling_predicted,
    predicted=_inkling_predicted,
    chained=_inkling_predicted,
    promotes_text=True,
    one_a_token=True,
    part=_with_mtp_config,
)
# A model of its own: its layers are those of a head.
_GEMMA4: Final = Modules(
    architecture="Gemma4MTPModel", layers=own.none, built=one, predicted=one, chained=one
)
_IN_TEXT: Final = replace(
    _NEMOTRON_H,
    built=stated_in_text(NEXTN),
    predicted=stated_in_text(NEXTN),
    chained=stated_in_text(NEXTN, 1),
    promotes_text=True,
)
_STEP: Final = Modules(
    architecture="Step3p5MTP",
    layers=own.step,
    built=stated_in_text(NEXTN),
    predicted=stated_in_text(NEXTN, 1),
    chained=stated_in_text(NEXTN, 1),
    promotes_text=True,
)
_STEP5: Final = replace(_STEP, architecture="Step5MTP", layers=own.step5)

_BAILING_3: Final = Modules(
    architecture="BailingMoeV3MTPModel", layers=one_more(BAILING_3.attention)
)
_EXAONE4_5: Final = Modules(
    architecture="Exaone4_5_MTP", layers=own.exaone4_5, built=_exaone4_5_built
)
_PARSE: Final = Modules(
    architecture="ParseAuxMTPModel", layers=own.none, built=one, predicted=one, chained=one
)

_BY_ARCHITECTURE: Final[Mapping[str, Modules]] = {
    "BailingMoeV2_5ForCausalLM": Modules(
        architecture="BailingMoeV25MTPModel", layers=one_more(BAILING_2_5.attention)
    ),
    "BailingMoeV3ForCausalLM": _BAILING_3,
    "BailingMoeV3VLForConditionalGeneration": replace(
        _BAILING_3,
        built=stated_in_text(NEXTN),
        predicted=stated_in_text(NEXTN),
        chained=stated_in_text(NEXTN, 1),
        promotes_text=True,
    ),
    "NemotronH_Omni_Reasoning_V3": _IN_TEXT,
    "NemotronH_Super_Omni_Reasoning_V3": _IN_TEXT,
    "Glm4MoeForCausalLM": Modules(architecture="Glm4MoeMTPModel", layers=attention(GROUPED)),
    "Glm4MoeLiteForCausalLM": Modules(architecture="Glm4MoeLiteMTPModel", layers=own.indexed),
    "GlmOcrForConditionalGeneration": Modules(
        architecture="GlmOcrMTPModel", layers=attention(GROUPED), built=stated_in_text(NEXTN)
    ),
    "MiMoForCausalLM": Modules(architecture="MiMoMTPModel", layers=attention(QWEN2)),
    "MiMoV2FlashForCausalLM": _MIMO_V2,
    "MiMoV2ForCausalLM": _MIMO_V2,
    "MiMoV2OmniForCausalLM": replace(_MIMO_V2, architecture="MiMoV2OmniMTPModel"),
    "MiniMaxM3SparseForConditionalGeneration": Modules(
        architecture="MiniMaxM3MTP",
        layers=own.minimax_m3,
        built=stated_in_text(_MINIMAX),
        predicted=stated_in_text(_MINIMAX, 1),
        chained=stated_in_text(NEXTN, 1),
        promotes_text=True,
    ),
    "Step3p5ForCausalLM": _STEP,
    "Step3p7ForConditionalGeneration": _STEP,
    "Step5ForCausalLM": _STEP5,
    "Step5ForConditionalGeneration": _STEP5,
}
_BY_TYPE: Final[Mapping[str, Modules]] = {
    "deepseek_v3": Modules(architecture="DeepSeekMTPModel", layers=own.indexed),
    "deepseek_v32": _DEEPSEEK_V32,
    "glm_moe_dsa": _DEEPSEEK_V32,
    "deepseek_v4": Modules(architecture="DeepSeekV4MTPModel", layers=own.uncompressed),
    "dots3_note": Modules(
        architecture="Dots3NoteMTPModel", layers=own.dots3_note, predicted=stated(NEXTN, 1)
    ),
    "ernie4_5_moe": Modules(architecture="ErnieMTPModel", layers=attention(GROUPED)),
    "exaone4_5": _EXAONE4_5,
    "exaone_moe": Modules(
        architecture="ExaoneMoeMTP", layers=own.exaone_moe, built=stated(NEXTN, 1)
    ),
    "gemma4_assistant": _GEMMA4,
    "gemma4_unified_assistant": _GEMMA4,
    "glm5_next": Modules(
        architecture="Glm5NextMTPModel",
        layers=one_more(GLM5_NEXT.attention),
        built=stated_in_text(NEXTN),
        predicted=stated_in_text(NEXTN),
    ),
    "hy_v3": Modules(architecture="HYV3MTPModel", layers=attention(GROUPED)),
    "hy_v4": Modules(architecture="HYV4MTPModel", layers=own.indexed_with_sink, built=_hy_v4_built),
    "inkling_mm_model": _INKLING,
    "inkling_model": _INKLING,
    "intern_s2_preview": _INTERN_S2,
    "interns2_mobius": replace(_INTERN_S2, architecture="InternS2MobiusMTP"),
    "kimi_k3": Modules(
        architecture="KimiK3MTPModel",
        layers=own.kimi_k3,
        built=stated_in_text(NEXTN),
        predicted=stated_in_text(NEXTN),
    ),
    "longcat_flash": Modules(
        architecture="LongCatFlashMTPModel",
        layers=own.latent_after_pairs,
        built=one,
        predicted=stated(NEXTN, 1),
    ),
    "nemotron_h": _NEMOTRON_H,
    "nemotron_h_puzzle": _NEMOTRON_H,
    "pangu_ultra_moe": Modules(architecture="OpenPanguMTPModel", layers=own.latent),
    "qwen3_next": Modules(
        architecture="Qwen3NextMTP", layers=attention(GROUPED, BESIDE), built=stated(NEXTN, 1)
    ),
    "qwen4_exp": _QWEN4_MODULES,
    "qwen4_exp_text": _QWEN4_MODULES,
    "qwen3_5": _QWEN3_5_MODULES,
    "qwen3_5_text": _QWEN3_5_MODULES,
    "qwen3_5_moe": replace(_QWEN3_5_MODULES, architecture="Qwen3_5MoeMTP"),
    "qwen3_5_moe_text": replace(_QWEN3_5_MODULES, architecture="Qwen3_5MoeMTP"),
    "step3p5": _STEP,
    "step3p7": _STEP,
    "step5": _STEP5,
    "step5_vl": _STEP5,
}
_LIBRARY_EXPERTS: Final = frozenset(
    {
        "FlexOlmoForCausalLM",
        "HunYuanMoEV1ForCausalLM",
        "Kolibri1ForCausalLM",
        "MellumForCausalLM",
        "TransformersMoEForCausalLM",
    }
)
# The library's own standard, which needs no class of the engine's.
_LIBRARY: Final = Modules(
    architecture="TransformersForMTP",
    layers=library_module,
    built=stated(_MTP_LAYERS),
    predicted=stated(_MTP_LAYERS),
)
# Types and architectures whose modules the engine serves and kvplan has no row for.
_OTHERS: Final = frozenset(
    {
        "bailing_hybrid",
        "minimax_m3_mtp",
    }
)


def own_modules(config: HfConfig) -> Modules | None:
    """What the engine finds of drafting modules in a checkpoint; None for none.

    Raises UnplannableError for modules that kvplan has no row for.
    """
    names = config.optional_list("architectures") or ()
    model_type = config.optional_text("model_type") or ""
    if names and names[0] in LIBRARY_TEXT and config.has(_MTP_LAYERS):
        moe = "MoE" * (names[0] in _LIBRARY_EXPERTS)
        return replace(_LIBRARY, architecture=f"Transformers{moe}ForMTP")
    found = _BY_ARCHITECTURE.get(str(names[0])) if names else None
    found = found or _BY_TYPE.get(model_type)
    if names[:1] == ["RadioMBartPrefixForCausalLM"]:
        decoder = config.optional_section("decoder")
        causal = decoder is not None and decoder.optional_boolean("causal_vision_prefix")
        found = _PARSE if causal else found
    if found is None and "exaone4_5" in model_type:
        found = _EXAONE4_5
    if found is None and model_type in _OTHERS:
        raise unplannable(config, model_type)
    if found is not None and found.needs_modules and not found.predicted(config):
        return None
    return found


def module_architectures() -> frozenset[str]:
    """The draft models' classes that have a row."""
    rows = (*_BY_ARCHITECTURE.values(), *_BY_TYPE.values(), _PARSE)
    library = (_LIBRARY.architecture, _LIBRARY.architecture.replace("For", "MoEFor"))
    return frozenset((*library, *(modules.architecture for modules in rows)))


def unplannable(config: HfConfig, what: str) -> UnplannableError:
    """The error for modules without a row."""
    return UnplannableError(
        Problem(
            where=f"{config.origin}: {config.where('architectures')}",
            reason=f"kvplan does not plan the drafting modules of {what} yet",
            way_out="leave --speculative-config out to plan the model alone",
        )
    )
