"""MODEL in the speculators format: what it says of its target and of drafting."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import InputError
from kvplan_cli.loader import speculators_model
from kvplan_cli.loader.model_source import ModelSource, Origin, OriginKind
from kvplan_cli.loader.speculators_model import drafting, with_target

ORIGIN = Origin(kind=OriginKind.INLINE, place="draft/config.json")
TARGET = ModelSource(name="org/target", config={"model_type": "llama"}, origin=ORIGIN)


def draft(**changes: Any) -> ModelSource:
    config: dict[str, Any] = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_config": {
            "proposal_methods": [{"speculative_tokens": 5}],
            "verifier": {"name_or_path": "org/target"},
        },
        "transformer_layer_config": {"model_type": "llama"},
    }
    return ModelSource(name="org/draft", config=config | changes, origin=ORIGIN)


def test_the_target_is_planned_with_the_model_as_its_draft(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(speculators_model, "resolve_model", lambda name, where: TARGET)
    source = draft()
    given = EngineArgs(speculative_config={"num_speculative_tokens": 2, "method": "mtp"})
    target, args = with_target(source, given)
    assert target is TARGET
    assert args.draft_name == "org/draft"
    assert args.speculative_config == {
        "method": "eagle3",
        "num_speculative_tokens": 2,
        "model": source.config,
    }


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("peagle", {"method": "eagle3", "parallel_drafting": True}),
        ("dflash2", {"method": "dflash"}),
        ("dspark", {"method": "dspark"}),
    ],
)
def test_methods_by_the_engines_names(kind: str, config: dict[str, Any]) -> None:
    found = drafting(draft(speculators_model_type=kind))
    assert found is not None
    assert found.speculative_config == {**config, "num_speculative_tokens": 5}


def test_other_models_are_left_alone() -> None:
    args = EngineArgs()
    assert with_target(TARGET, args) == (TARGET, args)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"speculators_config": {"proposal_methods": []}}, "Invalid speculators config"),
        ({"transformer_layer_config": None}, "Must provide transformer_layer_config"),
        (
            {
                "speculators_config": {
                    "proposal_methods": [{"speculative_tokens": 1}],
                    "verifier": {"name_or_path": "/models/local"},
                }
            },
            "must name a remote model repository",
        ),
    ],
)
def test_half_a_format_is_an_error(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        drafting(draft(**changes))
