"""Which steps the engine captures as CUDA graphs.

Source: vLLM 0.33.0 ``vllm/config/compilation.py:CUDAGraphMode``, ``vllm/config/vllm.py``
(``OPTIMIZATION_LEVEL_TO_CONFIG``, ``__post_init__``).
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.models.shape import RunnerType

_WHERE: Final = "--compilation-config"


class GraphMode(Enum):
    """The engine's modes. FULL ones capture attention as well."""

    NONE = "NONE"
    PIECEWISE = "PIECEWISE"
    FULL = "FULL"
    FULL_DECODE_ONLY = "FULL_DECODE_ONLY"
    FULL_AND_PIECEWISE = "FULL_AND_PIECEWISE"

    @property
    def has_full(self) -> bool:
        """Whether whole decoding steps are captured."""
        return self not in (GraphMode.NONE, GraphMode.PIECEWISE)

    @property
    def uncompiled(self) -> GraphMode:
        """What is left without a model that is compiled piece by piece."""
        return _UNCOMPILED.get(self, self)


_UNCOMPILED: Final = {
    GraphMode.PIECEWISE: GraphMode.NONE,
    GraphMode.FULL_AND_PIECEWISE: GraphMode.FULL_DECODE_ONLY,
}
_OF_LEVEL: Final = (
    GraphMode.NONE,
    GraphMode.PIECEWISE,
    GraphMode.FULL_AND_PIECEWISE,
    GraphMode.FULL_AND_PIECEWISE,
)
_COMPILATION_MODES: Final = ("NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE")
_VLLM_COMPILE: Final = 3


def is_compiled(args: EngineArgs) -> bool:
    """Whether the engine compiles the model piece by piece, as it does by default.

    Raises: InputError for a mode that is none.
    """
    given = _given(args, "mode")
    if args.enforce_eager:
        return False
    if given is None:
        return args.optimization_level > 0
    if given in range(len(_COMPILATION_MODES)) and not isinstance(given, bool):
        return bool(given == _VLLM_COMPILE)
    if isinstance(given, str) and given.upper() in _COMPILATION_MODES:
        return _COMPILATION_MODES.index(given.upper()) == _VLLM_COMPILE
    raise _no_mode("mode", given, _COMPILATION_MODES)


def graph_mode(
    args: EngineArgs,
    *,
    runner: RunnerType = RunnerType.GENERATE,
    is_encoder_decoder: bool = False,
) -> GraphMode:
    """What is captured, before an attention backend that cannot be captured has a word.

    Raises: InputError for a mode that is none.
    """
    mode = _asked(args)
    if args.enforce_eager:
        return GraphMode.NONE
    if not is_compiled(args):
        mode = mode.uncompiled
    if runner is RunnerType.POOLING and mode.has_full:
        return GraphMode.PIECEWISE
    if is_encoder_decoder and mode is not GraphMode.NONE:
        return GraphMode.FULL_DECODE_ONLY
    return mode


def captures(args: EngineArgs) -> bool:
    """Whether anything is captured, of whatever model."""
    return graph_mode(args) is not GraphMode.NONE


def _asked(args: EngineArgs) -> GraphMode:
    given = _given(args, "cudagraph_mode")
    if given is None:
        return _OF_LEVEL[args.optimization_level]
    if isinstance(given, str) and given.upper() in GraphMode.__members__:
        return GraphMode[given.upper()]
    raise _no_mode("cudagraph_mode", given, tuple(GraphMode.__members__))


def _given(args: EngineArgs, key: str) -> Any:
    return (args.compilation_config or {}).get(key)


def _no_mode(key: str, given: Any, legal: tuple[str, ...]) -> InputError:
    return InputError(
        Problem(
            where=f"{_WHERE}: {key}",
            reason=f"{given!r} is not a legal value",
            way_out=f"legal: {', '.join(legal)}",
        )
    )
