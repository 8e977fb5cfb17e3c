"""Layer specs given outright."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan_cli.loader.given_layers import MAX_LAYERS, read_layers
from tests.loader.builders import FULL_SPEC
from tests.loader.faults import problem, problems

_SLIDING = {**FULL_SPEC, "class": "SlidingWindowSpec", "sliding_window": 128}


def test_counted_layers_are_named_through_the_whole_list() -> None:
    layers = read_layers([{"count": 2, "spec": FULL_SPEC}, {"spec": _SLIDING}], "layers")
    assert list(layers.stages[0]) == [f"model.layers.{i}.attn" for i in range(3)]
    assert not layers.staged


def test_a_pattern_repeats() -> None:
    group = {
        "repeat": 3,
        "layers": [{"count": 5, "spec": _SLIDING}, {"spec": FULL_SPEC, "name": "full.{i}"}],
    }
    names = list(read_layers([group], "layers").stages[0])
    assert len(names) == 18
    assert names[5] == "full.5"
    assert names[17] == "full.17"


def test_layers_stand_on_their_stages() -> None:
    entries = [
        {"names": ["b", "a"], "spec": FULL_SPEC, "stage": 1},
        {"repeat": 2, "stage": 0, "layers": [{"spec": FULL_SPEC}]},
    ]
    layers = read_layers(entries, "layers")
    assert layers.staged
    assert [list(stage) for stage in layers.stages] == [
        ["model.layers.2.attn", "model.layers.3.attn"],
        ["b", "a"],
    ]


@pytest.mark.parametrize(
    ("value", "where", "reason"),
    [
        ({}, "layers", "expected a list"),
        ([], "layers", "expected a list"),
        ([3], "layers[0]", "expected an object"),
        ([{"spec": FULL_SPEC, "cuont": 2}], "layers[0].cuont", "no such key"),
        ([{"spec": FULL_SPEC, "count": 0}], "layers[0].count", "expected a whole number"),
        ([{"spec": FULL_SPEC, "count": 10**9}], "layers[0].count", "expected a whole number"),
        ([{"spec": FULL_SPEC, "count": 2, "name": "x"}], "layers[0].name", "{i}"),
        ([{"spec": FULL_SPEC, "names": []}], "layers[0].names", "a list of layer names"),
        ([{"spec": FULL_SPEC, "names": [1]}], "layers[0].names", "a list of layer names"),
        ([{"spec": FULL_SPEC, "names": ["a"], "count": 1}], "layers[0]", "excludes"),
        ([{"spec": FULL_SPEC, "names": ["a", "a"]}], "layers[0]", "two layers are called 'a'"),
        ([{"spec": {}}], "layers[0].spec.class", "needs its class"),
        ([{}], "layers[0].spec.class", "needs its class"),
        ([{"repeat": 2, "layers": []}], "layers[0].layers", "a list of layer specs"),
        ([{"repeat": 2, "layers": [{"repeat": 2, "layers": []}]}], "layers[0].layers[0]", "inside"),
        ([{"spec": FULL_SPEC, "stage": 1}], "layers", "a pipeline stage has no layers"),
        ([{"spec": FULL_SPEC, "stage": -1}], "layers[0].stage", "expected a whole number"),
        ([{"spec": FULL_SPEC, "stage": 0}, {"spec": FULL_SPEC}], "layers", "some have none"),
        ([{"repeat": MAX_LAYERS, "layers": [{"count": 9, "spec": FULL_SPEC}]}], "", "more than"),
    ],
)
def test_wrong_layers_name_the_path(value: Any, where: str, reason: str) -> None:
    found = problem(read_layers, value, "layers")
    assert found.where.startswith(where)
    assert reason in found.reason


def test_all_wrong_entries_are_named() -> None:
    assert len(problems(read_layers, [{"spec": {}}, {"spec": {"class": "X"}}], "layers")) == 2
