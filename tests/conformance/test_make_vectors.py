"""Following the engine, with a stand-in for it: what is asked, compared, told and written."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.changes import changes, key_of, summary
from tests.conformance.make_vectors import main, request
from tests.conformance.run import read_cases
from tests.conformance.test_runner import first

# Answers as the file of kept answers says, by the case's name.
ENGINE = """#!{python}
import json, sys
if sys.argv[1] == "-c":
    print("0.99.0")
    sys.exit()
card, source, target = sys.argv[3:]
with open({answers!r}) as file:
    answers = json.load(file)
with open(source) as asked, open(target, "w") as out:
    for line in asked:
        out.write(json.dumps(answers[json.loads(line)["case"]["name"]]) + "\\n")
"""


def model() -> dict[str, Any]:
    return first("models.jsonl.xz", '"kv_cache_size_tokens"')


def run(folder: Path, kept: list[dict[str, Any]], answers: list[dict[str, Any]]) -> int:
    """Put kept cases to a stand-in that gives these answers."""
    vectors = folder / "kept.jsonl"
    vectors.write_text("".join(f"{json.dumps(case)}\n" for case in kept), encoding="utf-8")
    known = folder / "answers.json"
    by_name = {case["name"]: answer for case, answer in zip(kept, answers, strict=True)}
    known.write_text(json.dumps(by_name), encoding="utf-8")
    engine = folder / "engine"
    engine.write_text(ENGINE.format(python=sys.executable, answers=str(known)), encoding="utf-8")
    engine.chmod(0o755)
    out = str(folder / "made")
    return main(["--engine-python", str(engine), "--out", out, str(vectors)])


def test_the_same_figures_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = [model(), first("plan.jsonl.xz", "kv_cache_tensors")]
    assert run(tmp_path, kept, [{"answer": case} for case in kept]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told == [
        "vLLM 0.99.0: 2 cases asked, 2 as kept, 0 changed, 0 without an answer",
    ]
    assert list(read_cases(tmp_path / "made" / "kept.jsonl")) == kept


def test_a_changed_figure_is_told_by_architecture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = model()
    made = copy.deepcopy(case)
    made["block_size"] += 16
    silent = first("spec_level.jsonl.xz", "null")
    assert run(tmp_path, [case, silent], [{"answer": made}, {"unanswered": "it died"}]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0].endswith("0 as kept, 1 changed, 1 without an answer")
    assert f"{case['config']['architectures'][0]}: 1 of 1 cases changed" in told
    assert "  block_size: 1" in told
    assert f"  {silent['name']}: it died" in told


def test_an_answer_where_there_was_a_refusal_is_one_change() -> None:
    refused = first("models.jsonl.xz", '"refused"')
    (line,) = changes(refused, {"answer": model()}).lines
    assert line.startswith("refused: now answered, was: ")
    (line,) = changes(model(), {"answer": refused}).lines
    assert line.startswith("refused: was answered, now: ")


def test_a_field_that_says_nothing_is_no_figure() -> None:
    case = model()
    made = copy.deepcopy(case)
    for stage in made["per_worker_layers"]:
        for layers in stage:
            del layers["spec"]["is_draft"]
    assert changes(case, {"answer": made}).lines == ()


def test_a_case_is_asked_without_its_answers() -> None:
    case = model()
    asked = request(case)["case"]
    assert not {"resolved", "global_groups", "block_size"} & asked.keys()
    assert [list(result) for result in asked["results"]] == [["available_memory"]] * len(
        case["results"]
    )


def test_layers_are_asked_in_the_engines_order() -> None:
    case = first("plan.jsonl.xz", "model.layers.10.attn")
    layers = request(case)["case"]["workers"][0]
    numbers = [int(name.split(".")[2]) for name in layers if name.startswith("model.")]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("results[0].num_blocks: expected 1, got 2", "results.num_blocks"),
        ("per_worker_layers[0][1].spec.head_size: x", "per_worker_layers.spec.head_size"),
        ("backends[0].FLASH_ATTN: expected 1, got 2", "backends"),
        ("kv_shared_layers[0].model.layers.3.attn: x", "kv_shared_layers"),
        ("groups[0].spec.kv_cache_specs.m.0.attn.dtype: x", "groups.spec.kv_cache_specs.dtype"),
    ],
)
def test_a_line_is_counted_under_its_figure(line: str, key: str) -> None:
    assert key_of(line) == key


def test_the_summary_shows_the_first_example_of_each_figure() -> None:
    case = model()
    made = copy.deepcopy(case)
    for result in made["results"]:
        result["max_in_flight_tokens"] -= 1
    told = summary("0.99.0", [changes(case, {"answer": made})]).splitlines()
    expected = case["results"][0]["max_in_flight_tokens"]
    assert told[-2:] == [
        "  results.max_in_flight_tokens: 1",
        f"    {case['name']}: results[0].max_in_flight_tokens: expected {expected}, "
        f"got {expected - 1}",
    ]
