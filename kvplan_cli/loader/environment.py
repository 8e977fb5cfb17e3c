"""The engine's environment variables that a plan feels, checked as the engine checks them.

Source: vLLM 0.33.0 ``vllm/envs.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Final

from kvplan_cli.loader.problems import Problems, printable, shown
from kvplan_cli.values import dataclass

PROCESS: Final = "environment"
PREFIX: Final = "VLLM_"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenEnvironment:
    """Variables that somebody set.

    values: those that a plan feels. origins: where each was set. unread: names that look like
    the engine's and are none of its release.
    """

    values: Mapping[str, str]
    origins: Mapping[str, str]
    unread: tuple[str, ...] = ()


def read_environment(env: Mapping[str, str], where: str) -> GivenEnvironment:
    """Check variables. InputError names all wrong values at once, as the engine would end."""
    problems = Problems()
    felt = {name: value for name, value in env.items() if name in ENGINE_ENVIRONMENT}
    for name, value in felt.items():
        legal = ENGINE_ENVIRONMENT[name](value)
        if legal is not None:
            problems.add(f"{where}: {name}", f"{shown(value)} is not a legal value", legal)
    problems.finish()
    return GivenEnvironment(
        values=felt, origins=dict.fromkeys(felt, where), unread=_unread(env, where)
    )


def process_environment() -> dict[str, str]:
    """What this process has set of the engine's variables."""
    return {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}


def merged(base: GivenEnvironment, over: GivenEnvironment) -> GivenEnvironment:
    """Both together; where both set a variable, ``over`` wins."""
    return GivenEnvironment(
        values={**base.values, **over.values},
        origins={**base.origins, **over.origins},
        unread=base.unread + over.unread,
    )


def _unread(env: Mapping[str, str], where: str) -> tuple[str, ...]:
    strange = [name for name in env if name.startswith(PREFIX) and name not in ENGINE_ENVIRONMENT]
    if not strange:
        return ()
    # Only a variable that kvplan does not feel needs the list of all.
    from kvplan_cli.loader.engine_flags import engine_variables, table_release

    return tuple(
        f"{where}: vLLM {table_release()} reads no variable {printable(name, 60)}."
        for name in strange
        if name not in engine_variables()
    )


def _choice(*legal: str) -> Callable[[str], str | None]:
    return lambda value: None if value in legal else f"legal: {', '.join(legal)}"


def _number(value: str) -> str | None:
    """A switch that the engine reads with ``int``."""
    try:
        int(value)
    except ValueError:
        return "0 or 1"
    return None


def _anything(value: str) -> str | None:
    return None


# Each with what is legal, where a value is not.
ENGINE_ENVIRONMENT: Final[Mapping[str, Callable[[str], str | None]]] = {
    "VLLM_KV_CACHE_LAYOUT": _choice(
        "LBNHC", "LBHNC", "LHBNC", "NHD", "HND", "BLHNC", "BLNHC", "BHLNC"
    ),
    # Its sum is checked against the layers, once they are known.
    "VLLM_PP_LAYER_PARTITION": _anything,
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN": _anything,
    "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE": _number,
    "VLLM_BATCH_INVARIANT": _number,
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": _number,
    "VLLM_MLA_DISABLE": _number,
    "VLLM_SSM_CONV_STATE_LAYOUT": _choice("SD", "DS"),
    "VLLM_USE_V2_MODEL_RUNNER": _number,
}
