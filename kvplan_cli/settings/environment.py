"""The engine's environment variables that its settings depend on."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan_cli.errors import InputError, Problem

# Source: vLLM 0.33.0 ``vllm/envs.py``.
ALLOW_LONG_MAX_MODEL_LEN = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
ALLOW_CHUNKED_WITH_HYBRID = "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE"
MLA_DISABLE = "VLLM_MLA_DISABLE"
PP_LAYER_PARTITION = "VLLM_PP_LAYER_PARTITION"
USE_V2_MODEL_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"


def word_flag(env: Mapping[str, str], name: str) -> bool:
    """A switch that is on for ``1`` and ``true`` and off for everything else."""
    return env.get(name, "0").strip().lower() in ("1", "true")


def number_flag(env: Mapping[str, str], name: str) -> bool | None:
    """A switch that is a number, on unless it is zero; None where it is not set.

    Raises InputError where it is no number: the engine fails there too.
    """
    value = env.get(name)
    if value is None:
        return None
    try:
        return bool(int(value))
    except ValueError:
        raise InputError(
            Problem(where=f"environment: {name}", reason=f"expected 0 or 1, got {value!r}")
        ) from None
