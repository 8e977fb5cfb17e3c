"""MiniCPM-V and -O: the version says which language model is inside.

Source: vLLM 0.33.0 ``models/minicpmv.py:MiniCPMV``, ``models/minicpmo.py:MiniCPMO``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.architecture import Architecture, Wrapped, multimodal

_V: Final[Mapping[str, str]] = {
    "2.0": "MiniCPMForCausalLM",
    "2.5": "LlamaForCausalLM",
    "2.6": "Qwen2ForCausalLM",
    "4.0": "LlamaForCausalLM",
    "4.5": "Qwen3ForCausalLM",
}
_O: Final[Mapping[str, str]] = {"2.6": "Qwen2ForCausalLM", "4.5": "Qwen3ForCausalLM"}


def _version(config: HfConfig) -> str:
    version = config.raw("version")
    if version is not None:
        return str(version)
    first = config.raw("hidden_size") == 2304 and config.raw("query_num") == 64
    return "2.0" if first else "2.5"


def _by_version(inner: Mapping[str, str], model: str) -> Callable[[HfConfig], str]:
    def choose(config: HfConfig) -> str:
        version = _version(config)
        if version in inner:
            return inner[version]
        parts = tuple(int(part) for part in version.split(".") if part.isdigit())
        raise EngineRefusalError(
            stage="model_error",
            error_type="ValueError",
            message=f"Currently, {model} only supports versions {', '.join(sorted(inner))}. "
            f"Got version: {parts}",
        )

    return choose


ROWS: Final[Sequence[Architecture]] = (
    *multimodal(Wrapped(choose=_by_version(_V, "MiniCPMV"), prefix="llm."), "MiniCPMV"),
    *multimodal(Wrapped(choose=_by_version(_O, "MiniCPMO"), prefix="llm."), "MiniCPMO"),
)
