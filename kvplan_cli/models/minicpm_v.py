"""MiniCPM-V and -O: the version says which language model is inside.

Source: vLLM 0.33.0 ``models/minicpmv.py:MiniCPMV``, ``models/minicpmo.py:MiniCPMO``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.architecture import Architecture, Wrapped, multimodal

_FIRST: Final = "2.0"
_V: Final[Mapping[str, str]] = {
    _FIRST: "MiniCPMForCausalLM",
    "2.5": "LlamaForCausalLM",
    "2.6": "Qwen2ForCausalLM",
    "4.0": "LlamaForCausalLM",
    "4.5": "Qwen3ForCausalLM",
}
_MAPPING: Final = "packed_modules_mapping"
_O: Final[Mapping[str, str]] = {"2.6": "Qwen2ForCausalLM", "4.5": "Qwen3ForCausalLM"}


def _version(config: HfConfig) -> str:
    version = config.raw("version")
    if version is not None:
        return str(version)
    first = config.raw("hidden_size") == 2304 and config.raw("query_num") == 64
    return _FIRST if first else "2.5"


def _inner_of_v(config: HfConfig) -> str:
    """MiniCPM-V's language model. The engine's class for the first version cannot be built."""
    version = _version(config)
    if version == _FIRST:
        reason = f"type object 'MiniCPMV2_0' has no attribute '{_MAPPING}'"
        raise _refused("AttributeError", reason, "this release serves later versions only")
    return _by_version(_V, "MiniCPMV", version)


def _inner_of_o(config: HfConfig) -> str:
    """MiniCPM-O's. The engine looks at two parts of a version; the class that it takes asks for
    exactly those, and without any it takes 2.6's.
    """
    version = config.raw("version")
    parts = [] if version is None else str(version).split(".")
    inner = _by_version(_O, "MiniCPMO", ".".join(parts[:2])) if parts else None
    if inner is None or len(parts) > 2:
        raise _refused("AssertionError", "", f"give version as {' or '.join(_O)}")
    return inner


def _by_version(inner: Mapping[str, str], model: str, version: str) -> str:
    if version in inner:
        return inner[version]
    parts = tuple(int(part) for part in version.split(".") if part.isdigit())
    known = ", ".join(sorted(inner))
    raise _refused(
        "ValueError",
        f"Currently, {model} only supports versions {known}. Got version: {parts}",
        f"give version as one of {known}",
    )


def _refused(error_type: str, message: str, way_out: str) -> EngineRefusalError:
    return EngineRefusalError(
        stage="model_error", error_type=error_type, message=message, way_out=way_out
    )


ROWS: Final[Sequence[Architecture]] = (
    *multimodal(Wrapped(choose=_inner_of_v, prefix="llm."), "MiniCPMV"),
    *multimodal(Wrapped(choose=_inner_of_o, prefix="llm."), "MiniCPMO"),
)
