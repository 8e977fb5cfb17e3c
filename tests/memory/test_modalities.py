"""Each encoder is named with what it serves; a prompt's limits drop those that serve nothing."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.memory.weights.modalities import MODALITIES, loads_towers, served_by
from kvplan_cli.memory.weights.registry import WRAPPERS
from kvplan_cli.memory.weights.ties import Tying, tying_of

# Run by the Transformers library's classes, which the engine asks for what they serve.
_BY_THE_LIBRARY = {"HunYuanVLForConditionalGeneration"}


def test_every_encoder_is_named() -> None:
    named = {name for name, row in WRAPPERS.items() if row.towers and not row.always_loaded}
    assert named - MODALITIES.keys() == _BY_THE_LIBRARY
    assert MODALITIES.keys() - named == set()


def test_each_tower_of_several_has_its_own() -> None:
    wrong = [
        name for name in MODALITIES if len(served_by(name)) not in (1, len(WRAPPERS[name].towers))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("architecture", "limits", "loaded"),
    [
        ("Qwen2_5_VLForConditionalGeneration", {"video": 0}, True),
        ("Qwen2_5_VLForConditionalGeneration", {"image": 0}, True),
        ("Qwen2_5_VLForConditionalGeneration", {"image": 0, "video": {"count": 0}}, False),
        ("Gemma3ForConditionalGeneration", {"video": 0}, True),
        ("Gemma3ForConditionalGeneration", {"image": 0}, False),
        ("UltravoxModel", {"image": 0, "video": 0}, True),
        ("UltravoxModel", {"audio": 0}, False),
    ],
)
def test_an_encoder_goes_when_it_may_see_nothing(
    architecture: str, limits: dict[str, Any], loaded: bool
) -> None:
    assert loads_towers(EngineArgs(limit_mm_per_prompt=limits), architecture) is loaded


@pytest.mark.parametrize("architecture", sorted(MODALITIES))
def test_no_encoder_is_loaded_for_a_language_model_only(architecture: str) -> None:
    assert loads_towers(EngineArgs(), architecture)
    assert not loads_towers(EngineArgs(language_model_only=True), architecture)


def test_whose_flag_counts_is_named_for_classes_that_are_described() -> None:
    assert {tying_of(name) for name in WRAPPERS} == set(Tying)
