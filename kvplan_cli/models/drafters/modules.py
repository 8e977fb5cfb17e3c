"""Modules of a checkpoint that predict further tokens (MTP), by the target they belong to.

Source: vLLM 0.33.0 ``vllm/config/speculative.py:hf_config_override`` and the draft models'
files. A new family is a row here, its layers a rule in ``own_modules``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Final

from kvplan_cli.errors import MissingFieldError, Problem, UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.drafters import own_modules as own
from kvplan_cli.models.drafters.draft import BESIDE, ModuleRule, attention
from kvplan_cli.models.language import Language
from kvplan_cli.models.llama_like import GROUPED, QWEN2
from kvplan_cli.models.shape import CacheLayer
from kvplan_cli.models.text import text_config
from kvplan_cli.values import dataclass

NEXTN: Final = "num_nextn_predict_layers"
_QWEN3_5: Final = "mtp_num_hidden_layers"
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
    """

    architecture: str
    layers: ModuleRule
    built: CountRule = field(default_factory=lambda: stated(NEXTN))
    predicted: CountRule = field(default_factory=lambda: stated(NEXTN))
    chained: CountRule = field(default_factory=lambda: stated(NEXTN, 1))
    promotes_text: bool = False
    needs_modules: bool = False

    def all_layers(self, config: HfConfig) -> Sequence[CacheLayer]:
        """The layers of all modules of the target's ``config``, unsharded, in order."""
        count = self.built(config)
        if count is None:
            raise MissingFieldError(config.where(NEXTN), config.origin)
        language = Language.of(text_config(config))
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
_STEP: Final = Modules(
    architecture="Step3p5MTP",
    layers=own.step,
    built=stated_in_text(NEXTN),
    predicted=stated_in_text(NEXTN, 1),
    chained=stated_in_text(NEXTN, 1),
    promotes_text=True,
)

_BY_ARCHITECTURE: Final[Mapping[str, Modules]] = {
    "Glm4MoeForCausalLM": Modules(architecture="Glm4MoeMTPModel", layers=attention(GROUPED)),
    "Glm4MoeLiteForCausalLM": Modules(architecture="Glm4MoeLiteMTPModel", layers=own.indexed),
    "GlmOcrForConditionalGeneration": Modules(
        architecture="GlmOcrMTPModel", layers=attention(GROUPED), built=stated_in_text(NEXTN)
    ),
    "MiMoForCausalLM": Modules(architecture="MiMoMTPModel", layers=attention(QWEN2)),
    "MiMoV2FlashForCausalLM": _MIMO_V2,
    "MiMoV2ForCausalLM": _MIMO_V2,
    "MiMoV2OmniForCausalLM": _MIMO_V2,
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
}
_BY_TYPE: Final[Mapping[str, Modules]] = {
    "deepseek_v3": Modules(architecture="DeepSeekMTPModel", layers=own.indexed),
    "deepseek_v32": _DEEPSEEK_V32,
    "glm_moe_dsa": _DEEPSEEK_V32,
    "deepseek_v4": Modules(architecture="DeepSeekV4MTPModel", layers=own.uncompressed),
    "ernie4_5_moe": Modules(architecture="ErnieMTPModel", layers=attention(GROUPED)),
    "exaone_moe": Modules(
        architecture="ExaoneMoeMTP", layers=own.exaone_moe, built=stated(NEXTN, 1)
    ),
    "hy_v4": Modules(architecture="HYV4MTPModel", layers=own.indexed_with_sink, built=_hy_v4_built),
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
    "qwen3_5": _QWEN3_5_MODULES,
    "qwen3_5_text": _QWEN3_5_MODULES,
    "qwen3_5_moe": _QWEN3_5_MODULES,
    "qwen3_5_moe_text": _QWEN3_5_MODULES,
    "step3p5": _STEP,
    "step3p7": _STEP,
}
# Types and architectures whose modules the engine serves and kvplan has no row for.
_OTHERS: Final = frozenset(
    {
        "bailing_hybrid",
        "deepseek_v41",
        "dots3_note",
        "gemma4_assistant",
        "gemma4_unified_assistant",
        "glm5_next",
        "hy_v3",
        "inkling_mm_model",
        "inkling_model",
        "intern_s2_preview",
        "interns2_mobius",
        "minimax_m3_mtp",
        "qwen4_exp",
        "qwen4_exp_text",
        "step5",
        "step5_vl",
    }
)


def own_modules(config: HfConfig) -> Modules | None:
    """What the engine finds of drafting modules in a checkpoint; None for none.

    Raises UnplannableError for modules that kvplan has no row for.
    """
    names = config.optional_list("architectures") or ()
    model_type = config.optional_text("model_type") or ""
    found = _BY_ARCHITECTURE.get(str(names[0])) if names else None
    found = found or _BY_TYPE.get(model_type)
    if found is None and (model_type in _OTHERS or "exaone4_5" in model_type):
        raise unplannable(config, model_type)
    if found is not None and found.needs_modules and not found.predicted(config):
        return None
    return found


def unplannable(config: HfConfig, what: str) -> UnplannableError:
    """The error for modules without a row."""
    return UnplannableError(
        Problem(
            where=f"{config.origin}: {config.where('architectures')}",
            reason=f"kvplan does not plan the drafting modules of {what} yet",
            way_out="leave --speculative-config out to plan the model alone",
        )
    )
