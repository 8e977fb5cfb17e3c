"""Which modules a quantization config leaves as they are."""

from __future__ import annotations

import pytest

from kvplan_cli.errors import InputError, UnplannableError
from kvplan_cli.memory.weights.ignored import Ignored, Matching

_QKV = "model.layers.0.self_attn.qkv_proj"


@pytest.mark.parametrize(
    ("names", "matching", "path", "expected"),
    [
        (("lm_head",), Matching.EXACT, "lm_head", True),
        (("model.layers.0.self_attn.q_proj",), Matching.EXACT, _QKV, True),
        (("self_attn",), Matching.EXACT, _QKV, False),
        (("self_attn",), Matching.SUBSTRING, _QKV, True),
        (("model.layers.0.self_attn*",), Matching.WILDCARD, _QKV, True),
        (("model.layers.1.self_attn*",), Matching.WILDCARD, _QKV, False),
        (("re:.*self_attn.*",), Matching.EXPRESSION, _QKV, True),
        (("re:.*mlp.gate$",), Matching.EXPRESSION, _QKV, False),
        (("re:.*(self_attn|router).*",), Matching.EXPRESSION, _QKV, True),
        ((), Matching.EXACT, _QKV, False),
    ],
)
def test_names_are_compared_as_the_engine_does(
    names: tuple[str, ...], matching: Matching, path: str, expected: bool
) -> None:
    assert Ignored(names=names, matching=matching).matches(path) is expected


@pytest.mark.parametrize("pattern", ["re:(a+)+$", "re:.*.*.*.*.*.*.*x", "re:(a|a)*b"])
def test_expressions_that_could_run_away_are_not_tried(pattern: str) -> None:
    ignored = Ignored(names=(pattern,), matching=Matching.EXPRESSION)
    with pytest.raises(UnplannableError, match="--weights"):
        ignored.matches("a" * 64)


def test_broken_expression_is_an_input_error() -> None:
    ignored = Ignored(names=("re:(self_attn",), matching=Matching.EXPRESSION)
    with pytest.raises(InputError):
        ignored.matches(_QKV)


def test_every_way_of_matching_is_decided() -> None:
    for matching in Matching:
        assert not Ignored(names=("other",), matching=matching).matches(_QKV)
