"""The contract: its schema, its fixed shape, its paths."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kvplan_cli.errors import EngineRefusalError, InputError, Problem, UnplannableError
from kvplan_cli.planner.results import RefusalKind
from kvplan_cli.report.build import fit_document
from kvplan_cli.report.document import FitDocument
from kvplan_cli.report.failures import (
    ErrorDocument,
    defect_document,
    error_document,
    error_text,
)
from kvplan_cli.report.json_form import dumps, plain
from kvplan_cli.report.paths import bare, check_path, get_path, known_paths
from kvplan_cli.report.schema import json_schema
from tests.report import builders
from tests.report.builders import CASES

Draft202012Validator = pytest.importorskip("jsonschema").Draft202012Validator


def keys_beneath(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(keys_beneath(part) for part in value.values()))
    if isinstance(value, list):
        return set[str]().union(*(keys_beneath(part) for part in value))
    return set()


@pytest.mark.parametrize("case", CASES)
def test_document_keeps_to_its_schema(case: str) -> None:
    document = json.loads(dumps(fit_document(CASES[case]())))
    Draft202012Validator(json_schema()).validate(document)


def test_schema_is_one_and_strict() -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    document = plain(fit_document(builders.dense()))
    validator = Draft202012Validator(schema)
    assert not validator.is_valid({**document, "more": 1})
    assert not validator.is_valid({k: v for k, v in document.items() if k != "plan"})
    assert not validator.is_valid({**document, "schema_version": 2})


def test_every_key_has_a_text() -> None:
    schema = json_schema()
    for part in (schema, *schema["$defs"].values()):
        for name, key in part["properties"].items():
            assert key["description"], name


def test_shape_does_not_depend_on_the_answer() -> None:
    fits, refused = plain(fit_document(builders.dense())), plain(fit_document(builders.refused()))
    assert list(fits) == list(refused)
    assert list(fits["verdict"]["at_low"]) == list(refused["verdict"]["at_low"])


def test_sizes_are_whole_bytes() -> None:
    document = json.loads(dumps(fit_document(builders.estimate())))
    assert document["plan"]["workers"][0]["available_bytes"] == builders.budget().available.likely
    assert not {key for key in keys_beneath(document) if "gib" in key.lower()}


def test_groups_of_a_bundle_tell_their_specs_apart() -> None:
    group = fit_document(builders.bundle()).groups[0]
    assert group.kind == "UniformTypeKVCacheSpecs"
    assert [spec.num_layers for spec in group.layer_specs] == [4, 4]
    assert group.page_size_bytes == sum(
        spec.page_size_bytes * spec.num_layers for spec in group.layer_specs
    )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("plan.num_blocks", 20480),
        ("plan.max_concurrency_requests", 2.5),
        ("verdict.answer", "fits"),
        ("groups.0.block_size_tokens", 16),
        ("groups[0].layer_names[-1]", "model.layers.31.self_attn.attn"),
        ("stages.0.attention_backends.FLASH_ATTN", 32),
        ("way_out", None),
        ("way_out.flag", None),
        ("refusal.needed_bytes", None),
    ],
)
def test_get_path(path: str, value: object) -> None:
    assert get_path(fit_document(builders.dense()), path) == value


def test_every_known_path_is_answered() -> None:
    document = fit_document(builders.hybrid())
    for path in known_paths():
        check_path(FitDocument, path)
        if not path.startswith(("budgets.0", "plan.workers.0.tensors.0.layer_names.0")):
            get_path(document, path)


@pytest.mark.parametrize(
    ("path", "way_out"),
    [
        ("num_blocks", "plan.num_blocks"),
        ("plan.num_block", "plan.num_blocks"),
        ("plan.max_concurency_requests", "plan.max_concurrency_requests"),
        ("verdict.answer.more", "verdict.answer?"),
        ("groups.x", "groups?"),
        ("zzz.qqq", "--json shows the whole document"),
    ],
)
def test_unknown_path_tells_the_nearest(path: str, way_out: str) -> None:
    with pytest.raises(InputError) as caught:
        get_path(fit_document(builders.dense()), path)
    assert way_out in (caught.value.problems[0].way_out or "")


@pytest.mark.parametrize("path", ["", ".", "plan..num_blocks", "groups.9", "plan.workers.-2"])
def test_path_that_leads_nowhere(path: str) -> None:
    with pytest.raises(InputError):
        get_path(fit_document(builders.dense()), path)


def test_bare_values() -> None:
    assert bare("fits") == "fits"
    assert bare(20480) == "20480"
    assert bare(None) == "null"
    assert bare(True) == "true"
    assert bare(["a", "b"]) == '["a", "b"]'


def test_every_refusal_is_worded() -> None:
    from dataclasses import replace

    from kvplan_cli.planner.results import Refusal
    from kvplan_cli.report.answer import answer

    base = builders.refused().likely
    assert isinstance(base, Refusal)
    for kind in RefusalKind:
        refusal = replace(base, kind=kind)
        result = replace(builders.refused(), likely=refusal, low=refusal, high=refusal)
        sentence = answer(fit_document(result))
        assert sentence.startswith("Does not fit: ")
        assert sentence.endswith("(--max-model-len 101632).")


def test_errors_keep_to_their_schema() -> None:
    validator = Draft202012Validator(json_schema(ErrorDocument))
    faults = [Problem(where="--a", reason="b"), Problem(where="--c", reason="d", way_out="e")]
    endings = [
        error_document(InputError(faults)),
        error_document(UnplannableError(faults[0])),
        error_document(
            EngineRefusalError(stage="config_error", error_type="ValueError", message="no")
        ),
        defect_document(KeyError("x"), "Traceback ..."),
    ]
    for document in endings:
        validator.validate(json.loads(dumps(document)))
    assert [document.exit_code for document in endings] == [2, 3, 2, 70]


def test_error_text_tells_all_faults_on_lines_of_their_own() -> None:
    faults = [Problem(where="--a", reason="b"), Problem(where="c\x1b[31m", reason="d\ne")]
    text = error_text(error_document(InputError(faults)))
    assert text == ("kvplan: the input is wrong (2 faults):\n  --a: b\n  c\\x1b[31m: d e\n")


def test_a_defect_is_one_line() -> None:
    text = error_text(defect_document(RuntimeError("two\nlines")))
    assert text.count("\n") == 1
    assert "--debug" in text
