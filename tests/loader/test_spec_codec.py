"""Layer specs as mappings and back, for every class and every field."""

from __future__ import annotations

import json
import lzma
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from kvplan_cli.specs import MLAAttentionSpec, MultipleOf
from kvplan_cli.specs.codec import _DECODERS, SPEC_CLASSES, spec_from_mapping, spec_to_mapping
from tests.loader.builders import FULL_SPEC
from tests.loader.faults import problem, problems

_VECTORS = Path(__file__).parent.parent / "data" / "vectors"
_MLA: dict[str, Any] = {
    "class": "MLAAttentionSpec",
    "block_size": 64,
    "num_kv_heads": 1,
    "head_size": 576,
    "dtype": "uint8",
    "cache_dtype_str": "fp8_ds_mla",
    "cache_role": "indexer",
    "is_index_group_leader": True,
    "state_content_bytes": 656,
    "block_stride_alignment": {"MultipleOf": 64},
    "tokens_per_state": 4,
}
_MAMBA: dict[str, Any] = {
    "class": "MambaSpec",
    "block_size": 528,
    "shapes": [[3, 2176], [32, 64, 64]],
    "dtypes": ["bfloat16", "float32"],
    "mamba_cache_mode": "align",
    "page_size_padded": 1_048_576,
    "num_speculative_blocks": 2,
}


@pytest.mark.parametrize("mapping", [FULL_SPEC, _MLA, _MAMBA])
def test_a_spec_comes_back_as_it_was_given(mapping: dict[str, Any]) -> None:
    assert spec_to_mapping(spec_from_mapping(mapping)) == mapping


def test_every_field_of_every_class_can_be_read() -> None:
    for cls in SPEC_CLASSES.values():
        for field in fields(cls):
            if field.init:
                assert str(field.type) in _DECODERS, (cls, field.name)


@pytest.mark.parametrize("name", ["plan", "spec_level", "hisparse"])
def test_the_engines_specs_come_back(name: str) -> None:
    distinct: dict[str, dict[str, Any]] = {}
    with lzma.open(_VECTORS / f"{name}.jsonl.xz", "rt") as lines:
        for line in lines:
            case = json.loads(line)
            for layers in case.get("workers") or [case["layers"]]:
                distinct.update({repr(spec): spec for spec in layers.values()})
    assert distinct
    for mapping in distinct.values():
        spec = spec_from_mapping(mapping)
        assert spec_from_mapping(spec_to_mapping(spec)) == spec
        full = spec_to_mapping(spec, all_fields=True)
        assert {key: full[key] for key in mapping} == mapping


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"fraction": [1, 4]}, Fraction(1, 4)),
        ("1/4", Fraction(1, 4)),
        ({"fraction": [8, 2]}, 4),
        (4, 4),
    ],
)
def test_a_fraction_has_three_forms(value: Any, expected: int | Fraction) -> None:
    spec = spec_from_mapping({**FULL_SPEC, "tokens_per_state": value})
    assert getattr(spec, "tokens_per_state") == expected  # noqa: B009


def test_an_alignment_of_kernel_blocks() -> None:
    spec = spec_from_mapping(_MLA)
    assert isinstance(spec, MLAAttentionSpec)
    assert spec.block_stride_alignment == MultipleOf(64)


def test_dashes_do_as_underscores() -> None:
    dashed = {key.replace("_", "-"): value for key, value in FULL_SPEC.items()}
    assert spec_from_mapping(dashed) == spec_from_mapping(FULL_SPEC)


@pytest.mark.parametrize(
    ("change", "where", "reason"),
    [
        ({"class": "FullAtentionSpec"}, "spec.class", "unknown spec class"),
        ({"class": "AttentionSpec"}, "spec.class", "unknown spec class"),
        ({"class": None}, "spec.class", "needs its class"),
        ({"head_dim": 128}, "spec.head_dim", "no such field"),
        ({"page_size_bytes": 1}, "spec.page_size_bytes", "no such field"),
        ({"dtype": "bf17"}, "spec.dtype", "expected an element type"),
        ({"dtype": 2}, "spec.dtype", "expected an element type"),
        ({"block_size": 16.0}, "spec.block_size", "expected an integer"),
        ({"block_size": True}, "spec.block_size", "expected an integer"),
        ({"block_size": 10**30}, "spec.block_size", "at most"),
        ({"dcp_sharded": 1}, "spec.dcp_sharded", "true or false"),
        ({"kv_quant_mode": "FP9"}, "spec.kv_quant_mode", "one of NONE"),
        ({"tokens_per_state": "1/0"}, "spec.tokens_per_state", "a positive integer"),
        ({"tokens_per_state": 0.25}, "spec.tokens_per_state", "a positive integer"),
        ({"block_stride_alignment": {"Multiple": 1}}, "spec.block_stride_alignment", "bytes or"),
        ({"block_size": 0}, "spec", "block_size must be positive"),
        ({"num_kv_heads": -8}, "spec", "must be positive"),
        ({"page_size_padded": 1}, "spec", "below the page's content"),
    ],
)
def test_a_wrong_spec_names_the_path(change: dict[str, Any], where: str, reason: str) -> None:
    found = problem(spec_from_mapping, {**FULL_SPEC, **change})
    assert found.where == where
    assert reason in found.reason


@pytest.mark.parametrize(
    ("change", "where", "reason"),
    [
        ({"shapes": [3, 4]}, "spec.shapes", "a list of shapes"),
        ({"shapes": [[3, 0], [1]]}, "spec.shapes", "positive sizes"),
        ({"dtypes": "bfloat16"}, "spec.dtypes", "a list of element types"),
        ({"dtypes": ["bfloat16"]}, "spec", "must pair up"),
        ({"mamba_cache_mode": "all!"}, "spec.mamba_cache_mode", "one of none, align, all"),
    ],
)
def test_a_wrong_state_names_the_path(change: dict[str, Any], where: str, reason: str) -> None:
    found = problem(spec_from_mapping, {**_MAMBA, **change})
    assert found.where == where
    assert reason in found.reason


def test_all_faults_of_a_spec_come_at_once() -> None:
    found = problems(spec_from_mapping, {"class": "SlidingWindowSpec", "block_sise": 16})
    assert [item.where for item in found] == [
        "spec.block_sise",
        "spec.block_size",
        "spec.num_kv_heads",
        "spec.head_size",
        "spec.dtype",
        "spec.sliding_window",
    ]
    assert found[0].way_out == "did you mean block_size?"


def test_what_is_no_mapping_is_refused() -> None:
    assert "expected an object" in problem(spec_from_mapping, [1]).reason
