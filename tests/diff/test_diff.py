"""Two sides of every kind: planned, saved, served; and what goes wrong with them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kvplan_cli.cli.diff import read_call
from kvplan_cli.errors import InputError
from kvplan_cli.report.build import fit_document
from kvplan_cli.report.conform import fault_of
from kvplan_cli.report.diff_document import diff_document
from kvplan_cli.report.document import FitDocument
from kvplan_cli.report.json_form import dumps, plain
from kvplan_cli.results import FitRequest
from kvplan_cli.service.diff import diff
from kvplan_cli.service.fit import fit
from tests.cli.process import kvplan

GIB = 1 << 30


def saved(path: Path, **changes: Any) -> Path:
    """An answer of fit in a file, with some keys changed."""
    asked = FitRequest(model="llama-3.1-8b", kv_mem_bytes=(40 * GIB,))
    document = {**plain(fit_document(fit(asked))), **changes}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def compared(*words: str, dashes: tuple[str, ...] = ()) -> Any:
    return diff_document(diff(read_call(words, dashes).request))


def faults(*words: str, dashes: tuple[str, ...] = ()) -> list[str]:
    with pytest.raises(InputError) as caught:
        compared(*words, dashes=dashes)
    return [str(problem) for problem in caught.value.problems]


def test_a_saved_answer_equals_the_plan_it_was_saved_from(tmp_path: Path) -> None:
    file = str(saved(tmp_path / "a.json"))
    document = compared(file, "llama-3.1-8b", "--kv-mem", "40GiB")
    assert not document.differs
    assert (document.a.saved, document.b.saved) == (True, False)
    assert not compared(file, file).differs


def test_options_hold_for_both_and_prefixed_ones_for_one() -> None:
    words = (
        "a b --gpu h100 -tp 2 --a.tp 4 --b.max-model-len=8k --b.enforce-eager "
        "--a.hf-overrides.rope_theta 1e6 --a.no-enable-prefix-caching --b.kv-mem 1GiB"
    )
    request = read_call(words.split()).request
    a, b = request.a.request, request.b.request
    assert (a.model, b.model) == ("a", "b")
    assert a.flags == {"tensor_parallel_size": 4, "enable_prefix_caching": False}
    assert a.hf_overrides == {"rope_theta": 1e6}
    assert (a.gpu, b.gpu, a.kv_mem_bytes, b.kv_mem_bytes) == ("h100", "h100", (), (GIB,))
    assert b.flags == {
        "tensor_parallel_size": 2,
        "max_model_len": 8000,
        "enforce_eager": True,
    }
    assert request.b.name == "b --max-model-len=8k --enforce-eager --kv-mem 1GiB"


def test_one_sides_memory_drops_what_it_contradicts() -> None:
    words = "m --gpu-mem 80GiB --weights 8GiB --b.kv-mem 1GiB"
    request = read_call(words.split()).request
    assert (request.a.request.gpu_mem_bytes, request.a.request.weights_bytes) == (
        80 * GIB,
        (8 * GIB,),
    )
    assert (request.b.request.gpu_mem_bytes, request.b.request.weights_bytes) == (None, ())


def test_a_serve_command_stands_for_b() -> None:
    words = ("vllm", "serve", "llama-3.1-8b", "--max-model-len", "8192")
    document = compared("llama-3.1-8b", "--kv-mem", "40GiB", dashes=words)
    changes = {change.key: (change.a, change.b) for change in document.changes}
    assert changes["settings.max_model_len_tokens"] == (131072, 8192)
    assert document.b.name == "vllm serve llama-3.1-8b --max-model-len"


def test_all_faults_of_both_sides_come_at_once() -> None:
    told = faults("no-such-model", "nor-this-one", "--kv-mem", "1GiB")
    assert [line.partition(":")[0] for line in told] == ["a (no-such-model)", "b (nor-this-one)"]
    told = faults("m", "--kv-mem", "x", "--a.dtype", "odd", "--b.dtypo", "1", "--b.tp", "2")
    assert [line.partition(":")[0] for line in told] == ["--a.dtype", "--kv-mem", "--b.dtypo"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "A: is missing"),
        (("m",), "B: is missing"),
        (("m", "n", "o", "--kv-mem", "1GiB"), "'o' is one too many"),
        (("m", "--b.", "3"), "--b.: there is no such option"),
        (("m", "--b.enforce-eager", "x", "y"), "'y' is one too many"),
        (("m", "n", "--format", "markdwn"), "did you mean markdown?"),
        (("m", "n", "--format", "text", "--json"), "contradict each other"),
    ],
)
def test_wrong_calls(words: tuple[str, ...], told: str) -> None:
    assert any(told in line for line in faults(*words)), faults(*words)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"schema_version": 2}, "schema 2 of kvplan"),
        ({"schema_version": True}, "schema True of kvplan"),
        ({"schema_version": "1"}, "schema '1' of kvplan"),
        ({"schema_version": None, "kvplan_version": 3}, "schema None; this kvplan reads"),
        ({"command": "solve"}, "a saved answer of solve"),
        ({"command": [1]}, "a saved answer of [1]"),
        ({"longest_context_tokens": "many"}, "longest_context_tokens: not what kvplan fit"),
        ({"plan": {"num_blocks": 1.5}}, "plan.num_blocks: not what"),
        ({"groups": [{"layer_names": [3]}]}, "groups[0].layer_names[0]: not what"),
        ({"groups": 3}, "groups: not what"),
        ({"verdict": None}, "verdict: not what"),
        ({"budgets": [None]}, "budgets[0]: not what"),
    ],
)
def test_a_saved_answer_that_is_none_is_told(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    file = saved(tmp_path / "a.json", **changes)
    (line,) = faults(str(file), str(saved(tmp_path / "b.json")))
    assert told in line
    assert "save" in line


def test_an_older_or_newer_program_may_know_fewer_or_more_keys(tmp_path: Path) -> None:
    file = saved(tmp_path / "a.json", unheard={"of": 1})
    document = json.loads(file.read_text())
    for key in ("budgets", "notices", "longest_context_tokens", "stages", "settings"):
        del document[key]
    file.write_text(json.dumps(document))
    found = compared(str(file), "llama-3.1-8b", "--kv-mem", "40GiB")
    changes = {change.key: (change.a, change.b) for change in found.changes}
    assert changes["longest_context_tokens"] == (None, 131072)


def test_flags_for_two_saved_answers_change_nothing(tmp_path: Path) -> None:
    file = str(saved(tmp_path / "a.json"))
    (told,) = faults(file, file, "-tp", "2")
    assert "options change nothing" in told
    (told,) = faults(file, "llama-3.1-8b", "--kv-mem", "1GiB", "--a.tp", "2")
    assert "options of its own change nothing in a saved answer" in told


def test_conform_accepts_what_fit_prints() -> None:
    for request in (
        FitRequest(model="llama-3.1-8b", kv_mem_bytes=(GIB,)),
        FitRequest(model="gemma-3-27b", gpu="h100"),
    ):
        document = json.loads(dumps(fit_document(fit(request))))
        assert fault_of(FitDocument, document) is None
    assert fault_of(FitDocument, [1]) == "the document"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("llama-3.1-8b", "--kv-mem", "40GiB", "--b.tp", "2"), 0),
        (("llama-3.1-8b", "--kv-mem", "40GiB", "--b.tp", "2", "--exit-code"), 1),
        (("llama-3.1-8b", "llama-3.1-8b", "--kv-mem", "40GiB", "--exit-code"), 0),
        (("llama-3.1-8b", "--a.kv-mem", "40GiB", "--b.kv-mem", "1GiB"), 1),
        (("llama-3.1-8b", "--a.kv-mem", "1GiB", "--b.kv-mem", "40GiB"), 0),
        (("llama-3.1-8b", "--kv-mem", "40GiB", "--b.tp", "3"), 2),
    ],
)
def test_endings_follow_b(words: tuple[str, ...], code: int) -> None:
    ended = kvplan("diff", *words, "--json")
    assert ended.returncode == code
    if code == 2:
        assert json.loads(ended.stderr)["problems"][0]["where"].startswith("b (llama-3.1-8b")
    else:
        assert json.loads(ended.stdout)["exit_code"] == code


def test_a_saved_answer_as_a_process_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "before.json"
    file.write_text(kvplan("fit", "qwen3-8b", "--kv-mem", "9GiB", "--json").stdout)
    ended: subprocess.CompletedProcess[str] = kvplan(
        "diff", str(file), "qwen3-8b", "--b.kv-mem", "18GiB"
    )
    assert ended.returncode == 0
    assert "+100 %" in ended.stdout
    help_text = kvplan("diff", "--help").stdout
    assert "kvplan diff plan.yaml --b.kv-cache-dtype fp8" in help_text
