"""Which architectures take LoRA adapters, as the engine's classes say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.settings.lora import WITHOUT_LORA, check_slots_on_host, check_takes_adapters

_REGISTRY: Final = Path(__file__).parent.parent / "data" / "vectors" / "engine_registry.json"
_ADAPTERS: Final = EngineArgs(enable_lora=True)


def test_classes_without_adapters_are_the_engines() -> None:
    registry = json.loads(_REGISTRY.read_text(encoding="utf-8"))
    assert set(registry["without_lora"]) == WITHOUT_LORA


@pytest.mark.parametrize("architecture", ["FalconForCausalLM", "GPT2LMHeadModel"])
def test_a_class_without_adapters_refuses_them(architecture: str) -> None:
    with pytest.raises(EngineRefusalError, match=f"LoRA is not supported for {architecture}"):
        check_takes_adapters(_ADAPTERS, architecture)
    check_takes_adapters(EngineArgs(), architecture)


def test_a_class_with_adapters_takes_them() -> None:
    check_takes_adapters(_ADAPTERS, "LlamaForCausalLM")


def test_slots_on_the_host_only_matter_with_adapters() -> None:
    check_slots_on_host(EngineArgs(max_loras=4, max_cpu_loras=2))
    check_slots_on_host(EngineArgs(enable_lora=True, max_loras=4, max_cpu_loras=4))
    with pytest.raises(EngineRefusalError, match=r"max_cpu_loras \(2\) must be >= max_loras"):
        check_slots_on_host(EngineArgs(enable_lora=True, max_loras=4, max_cpu_loras=2))
