"""Small configs and one call, so that a test states only what it is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.gpus import H100_80GB, Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.shape import ArchitectureTraits, RunnerType
from kvplan_cli.settings.resolve import resolve_settings
from kvplan_cli.settings.resolved import ResolvedSettings

# Cards as the engine's oracle poses them.
A100: Final = Gpu(
    name="NVIDIA A100-SXM4-80GB", capability=(8, 0), total_memory_bytes=85_899_345_920
)
B200: Final = Gpu(name="NVIDIA B200", capability=(10, 0), total_memory_bytes=191_503_138_816)
L4: Final = Gpu(name="NVIDIA L4", capability=(8, 9), total_memory_bytes=24_152_899_584)
GB10: Final = Gpu(name="NVIDIA GB10", capability=(12, 1), total_memory_bytes=128_457_359_360)
T4: Final = Gpu(name="Tesla T4", capability=(7, 5), total_memory_bytes=15_843_721_216)

LLAMA: Final[Mapping[str, Any]] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "dtype": "bfloat16",
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "hidden_size": 8192,
    "max_position_embeddings": 131072,
}
GENERATES: Final = ArchitectureTraits(architecture="LlamaForCausalLM")
POOLS: Final = ArchitectureTraits(architecture="Embedder", runner_type=RunnerType.POOLING)


def llama(**changes: Any) -> HfConfig:
    """A Llama config with ``changes``; a change to ``...`` takes the key away."""
    merged = {**LLAMA, **changes}
    return HfConfig({key: value for key, value in merged.items() if value is not ...})


def resolved(
    config: HfConfig | None = None,
    *,
    traits: ArchitectureTraits = GENERATES,
    gpu: Gpu = H100_80GB,
    extra_files: Mapping[str, Any] | None = None,
    **flags: Any,
) -> ResolvedSettings:
    return resolve_settings(
        llama() if config is None else config, traits, EngineArgs(**flags), gpu, extra_files or {}
    )


def refusal(config: HfConfig | None = None, **more: Any) -> EngineRefusalError:
    """The engine's refusal of the same call; the test fails where there is none."""
    with pytest.raises(EngineRefusalError) as caught:
        resolved(config, **more)
    assert caught.value.stage == "config_error"
    return caught.value


def refused_in(config: HfConfig | None = None, **more: Any) -> str:
    """The engine's words, where its exception is pydantic's ValidationError."""
    error = refusal(config, **more)
    assert error.error_type == "ValidationError"
    return error.message
