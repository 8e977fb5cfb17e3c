"""Deployments held against what their files expect."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from kvplan_cli.errors import ExitCode, InputError
from kvplan_cli.loader.expectations import EXPECTATIONS
from kvplan_cli.results import FitRequest
from kvplan_cli.results_gate import Check, GateRequest, GateResult, State, gravest
from kvplan_cli.results_solve import End, Needs, Quantity, SolveRequest
from kvplan_cli.service import gate as gate_module
from kvplan_cli.service import weights
from kvplan_cli.service.expectations import MEASURES
from kvplan_cli.service.fit import fit
from kvplan_cli.service.gate import gate
from kvplan_cli.service.inputs import read_inputs
from kvplan_cli.service.solve import solve
from tests.gate.files import FILES, write_files
from tests.gate.test_layers import MANIFEST

GIB = 1 << 30


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def gated(*words: str, **asked: Any) -> GateResult:
    return gate(GateRequest(files=words, **asked))


def checks(text: str, **asked: Any) -> dict[str, Check]:
    """The checks of the one deployment of a file."""
    write_files(Path(), {"one.yaml": text})
    (deployment,) = gated("one.yaml", **asked).deployments
    assert not deployment.faults, deployment.faults
    return {check.name: check for check in deployment.checks}


def test_each_expectation_is_measured() -> None:
    assert MEASURES.keys() == EXPECTATIONS.keys()


def test_figures_are_those_of_fit() -> None:
    text = """
    model: gemma-3-27b
    kv-mem: 40GiB
    serve: {tensor-parallel-size: 2, data-parallel-size: 3}
    expect:
      min-concurrency: 1
      min-max-model-len: 1
      min-longest-context: 1
      min-kv-tokens: 1
      min-num-blocks: 1
      min-kv-mem: 1MiB
      max-gpus: 6
    """
    found = checks(text)
    plan = fit(FitRequest(model="one.yaml")).likely
    assert {name: check.actual for name, check in found.items()} == {
        "fits": 1,
        "min-concurrency": plan.max_concurrency,  # type: ignore[union-attr]
        "min-max-model-len": 131072,
        "min-longest-context": 131072,
        "min-kv-tokens": plan.kv_cache_size_tokens,  # type: ignore[union-attr]
        "min-num-blocks": plan.num_blocks,  # type: ignore[union-attr]
        "min-kv-mem": 40 * GIB,
        "max-gpus": 6,
    }
    assert all(check.holds for check in found.values())


@pytest.mark.parametrize(
    ("expected", "just_above"),
    [
        ("min-kv-tokens: 655360", "min-kv-tokens: 655361"),
        ("min-concurrency: 20", "min-concurrency: 20.000001"),
        ("min-num-blocks: 40960", "min-num-blocks: 40961"),
        ("min-kv-mem: 40GiB", "min-kv-mem: 42949672961"),
        ("min-max-model-len: 32768", "min-max-model-len: 32769"),
        ("min-longest-context: 131072", "min-longest-context: 131073"),
        ("max-gpus: 2", "max-gpus: 1"),
        ("requests: {32768: 20}", "requests: {32768: 20, 16: 1}"),
    ],
)
def test_the_bound_itself_holds_and_the_next_does_not(expected: str, just_above: str) -> None:
    text = "model: llama-3.1-8b\nkv-mem: 40GiB\nserve: {tensor-parallel-size: 2, "
    # One block more than the requests: the null block is never handed out.
    text += (
        f"max-model-len: 32768, num-gpu-blocks-override: {40961 if 'req' in expected else 40960}"
    )
    for demand, holds in ((expected, True), (just_above, False)):
        found = checks(f"{text}}}\nexpect: {{{demand}}}")
        assert found[demand.partition(":")[0]].holds is holds, found


def test_more_requests_than_the_engine_runs_do_not_hold() -> None:
    text = "model: llama-3.1-8b\nkv-mem: 40GiB\nmax-num-seqs: 4\nmax-model-len: 4096\nexpect: "
    found = checks(f"{text}{{min-concurrency: 5, requests: {{16: 5}}}}")
    assert (found["min-concurrency"].actual, found["min-concurrency"].holds) == (4, False)
    assert found["min-concurrency"].remark == "max_num_seqs is 4"
    assert not found["requests"].holds
    assert "5 are needed" in str(found["requests"].remark)
    found = checks(f"{text}{{requests: {{5000: 1}}}}")
    assert "max_model_len is 4,096" in str(found["requests"].remark)


def test_what_does_not_fit_has_no_figures_and_fails() -> None:
    found = checks("model: llama-3.1-8b\nkv-mem: 1GiB\nexpect: {min-kv-tokens: 1, max-gpus: 1}")
    assert not found["fits"].holds
    assert (found["min-kv-tokens"].actual, found["min-kv-tokens"].holds) == (None, False)
    assert found["max-gpus"].holds


def test_auto_is_held_against_the_length_it_finds() -> None:
    text = "model: llama-3.1-8b\nkv-mem: 4GiB\nmax-model-len: auto\nexpect: "
    found = checks(f"{text}{{min-max-model-len: 32752, min-longest-context: 32752}}")
    assert found["min-max-model-len"].actual == found["min-longest-context"].actual == 32752


def test_an_older_release_is_held_against_what_it_prints() -> None:
    text = "model: gemma-3-27b\nkv-mem: 40GiB\nengine-version: '0.19.1'\nexpect: {min-kv-tokens: 1}"
    plan = fit(FitRequest(model="gemma-3-27b", kv_mem_bytes=(40 * GIB,), engine_version="0.19.1"))
    by_blocks = plan.likely.kv_cache_size_tokens_by_blocks  # type: ignore[union-attr]
    assert checks(text)["min-kv-tokens"].actual == by_blocks


def test_the_low_end_decides_unless_told_otherwise() -> None:
    text = (
        "model: llama-3.1-8b\ngpu: h100\nexpect: {min-kv-mem: 1GiB, max-gpu-memory-utilization: 1}"
    )
    actual = {end: checks(text, on=end)["min-kv-mem"].actual for end in End}
    (estimate,) = fit(FitRequest(model="llama-3.1-8b", gpu="h100")).available
    assert actual == {
        End.LOW: estimate.low,
        End.LIKELY: estimate.likely,
        End.HIGH: estimate.high,
    }
    between = f"model: llama-3.1-8b\ngpu: h100\nexpect: {{min-kv-mem: {estimate.likely}}}"
    found = checks(between)["min-kv-mem"]
    assert (found.holds, found.holds_on) == (False, (End.LIKELY, End.HIGH))
    assert checks(between, on=End.LIKELY)["min-kv-mem"].holds


def test_a_utilization_that_counts_for_nothing_is_refused() -> None:
    demand = "expect: {max-gpu-memory-utilization: 0.9}"
    for known in ("kv-mem: 40GiB", "gpu: h100\nkv-cache-memory-bytes: 40GiB"):
        write_files(Path(), {"one.yaml": f"model: llama-3.1-8b\n{known}\n{demand}"})
        (deployment,) = gated("one.yaml").deployments
        assert deployment.state is State.WRONG_INPUT
        assert deployment.faults[0].where == "one.yaml: expect.max-gpu-memory-utilization"
        assert deployment.faults[0].line == len(known.splitlines()) + 2
    found = checks(f"model: llama-3.1-8b\ngpu: h100\n{demand}")["max-gpu-memory-utilization"]
    assert (found.actual, found.holds, found.at_most) == (0.92, False, True)


def test_one_broken_file_does_not_stop_the_others() -> None:
    write_files(
        Path(),
        {
            **FILES,
            "unknown.yaml": "model: {architectures: [NoSuchForCausalLM], model_type: x}\ngpu: h100",
            "refused.yaml": "model: llama-3.1-8b\nkv-mem: 1GiB\ntensor-parallel-size: 3",
            "config.json": '{"a": 1}',
        },
    )
    result = gated("*.yaml", "config.json", "no-such.yaml", "nothing*", "", ".")
    states = {(each.path, each.environment or each.name): each.state for each in result.deployments}
    assert states == {
        ("broken.yaml", None): State.WRONG_INPUT,
        ("chat.yaml", "prod"): State.HOLDS,
        ("chat.yaml", "dev"): State.FAILS,
        ("many.yaml", "small"): State.HOLDS,
        ("many.yaml", "wide"): State.FAILS,
        ("many.yaml", "long"): State.FAILS,
        ("refused.yaml", None): State.ENGINE_REFUSES,
        ("unknown.yaml", None): State.CANNOT_PLAN,
        ("config.json", None): State.WRONG_INPUT,
        ("no-such.yaml", None): State.WRONG_INPUT,
        ("nothing*", None): State.WRONG_INPUT,
        ("FILE", None): State.WRONG_INPUT,
        (".", None): State.WRONG_INPUT,
    }
    assert result.bases == ("base.yaml",)
    assert result.exit_code is ExitCode.WRONG_INPUT


def test_a_defect_in_one_is_told_and_ends_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(Path(), FILES)
    real = read_inputs

    def sometimes(request: FitRequest) -> Any:
        if request.environment == "dev":
            raise RuntimeError("a slip")
        return real(request)

    monkeypatch.setattr(gate_module, "read_inputs", sometimes)
    result = gated("chat.yaml")
    assert [each.state for each in result.deployments] == [State.HOLDS, State.DEFECT]
    assert "RuntimeError: a slip" in result.deployments[1].faults[0].reason
    assert result.exit_code is ExitCode.DEFECT


def test_files_are_checked_once_in_the_order_named() -> None:
    write_files(Path(), {"b.yaml": "model: qwen3-8b\nkv-mem: 1GiB", "a.yaml": "model: x"})
    result = gated("b.yaml", "*.yaml", "./b.yaml")
    assert [each.path for each in result.deployments] == ["b.yaml", "a.yaml"]


def test_a_name_with_signs_of_a_pattern_may_be_a_file() -> None:
    write_files(Path(), {"a[1].yaml": "model: qwen3-8b\nkv-mem: 40GiB", "a1.yaml": "model: x"})
    assert [each.path for each in gated("a[1].yaml").deployments] == ["a[1].yaml"]


def test_environments_are_chosen() -> None:
    plain = "model: qwen3-8b\nkv-mem: 40GiB"
    own = f"{plain}\nenvironments: {{prod: {{}}, dev: {{}}}}"
    inside = f"{plain}\ndeployments: {{x: {{environments: {{dev: {{}}}}}}, y: {{}}}}"
    write_files(Path(), {"plain.yaml": plain, "own.yaml": own, "inside.yaml": inside})

    def names(*environments: str) -> list[tuple[str, str | None, str | None, bool]]:
        result = gated("*.yaml", environments=environments)
        return [(d.path, d.name, d.environment, d.planned is not None) for d in result.deployments]

    assert names() == [
        ("inside.yaml", "x", "dev", True),
        ("inside.yaml", "y", None, True),
        ("own.yaml", None, "prod", True),
        ("own.yaml", None, "dev", True),
        ("plain.yaml", None, None, True),
    ]
    # A file that has environments, but not this one, is told: nothing is passed over silently.
    assert names("prod") == [
        ("inside.yaml", "x", "prod", False),
        ("inside.yaml", "y", None, True),
        ("own.yaml", None, "prod", True),
        ("plain.yaml", None, None, True),
    ]
    with pytest.raises(InputError) as caught:
        names("prd")
    assert caught.value.problems[0].way_out == "did you mean prod?"


def test_deployments_are_chosen() -> None:
    write_files(Path(), FILES)

    def names(*deployments: str) -> list[tuple[str, str | None, bool]]:
        result = gated("many.yaml", "chat.yaml", deployments=deployments, environments=("prod",))
        return [(d.path, d.name, d.planned is not None) for d in result.deployments]

    assert names("wide") == [("many.yaml", "wide", True), ("chat.yaml", None, True)]
    write_files(Path(), {"other.yaml": "kv-mem: 1GiB\ndeployments: {odd: {model: qwen3-8b}}"})
    result = gated("many.yaml", "other.yaml", deployments=("odd",))
    assert [(d.name, d.planned is None) for d in result.deployments] == [
        ("odd", True),
        ("odd", False),
    ]
    assert "has no deployment 'odd'" in result.deployments[0].faults[0].reason
    with pytest.raises(InputError) as caught:
        names("wid")
    assert str(caught.value.problems[0]) == (
        "--deployment: no file has the deployment 'wid' (did you mean wide?)"
    )


def test_a_base_named_outright_is_told_and_bases_alone_are_an_error() -> None:
    write_files(Path(), FILES)
    (deployment,) = gated("base.yaml").deployments
    assert "the file only stands beneath others" in deployment.faults[0].reason
    with pytest.raises(InputError):
        gated("bas*.yaml")
    write_files(Path(), {"odd.yaml": "model: qwen3-8b\nkv-mem: 1GiB\nbase-only: 3"})
    (deployment,) = gated("od*.yaml").deployments
    assert "expected true or false" in deployment.faults[0].reason


def test_a_manifest_is_checked_through_what_extends_it() -> None:
    gate_file = "extends: chat.yaml\nservice: chat\nexpect: {max-gpus: 1}\nkv-mem: 40GiB"
    write_files(Path(), {"chat.yaml": MANIFEST, "gate.yaml": gate_file})
    result = gated("*.yaml")
    assert [(each.path, each.state) for each in result.deployments] == [("gate.yaml", State.HOLDS)]
    assert result.bases == ("chat.yaml",)
    (deployment,) = gated("chat.yaml").deployments
    assert "says nothing of what is expected" in deployment.faults[0].reason


@pytest.mark.parametrize(
    ("text", "name", "place"),
    [
        ("\n\nexpect:\n  max-gpus: 1\nmodel: llama-3.1-8b\nkv-mem: 40GiB", "max-gpus", 4),
        ("# x\nmodel: llama-3.1-8b\nkv-mem: 40GiB", "fits", 2),
        ("kv-mem: 40GiB\nenvironments:\n  a:\n    model: llama-3.1-8b", "fits", 3),
        (
            "env: &e {max-gpus: 1}\nmodel: llama-3.1-8b\nkv-mem: 40GiB\nexpect: *e",
            "max-gpus",
            1,
        ),
    ],
)
def test_a_check_points_at_its_line(text: str, name: str, place: int) -> None:
    write_files(Path(), {})
    Path("one.yaml").write_text(text, encoding="utf-8")
    (deployment,) = gated("one.yaml").deployments
    found = {check.name: check.line for check in deployment.checks}
    assert found[name] == place


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("model: llama-3.1-8b\nkv-mem: 1GiB\nserve:\n  dtype: x", 4),
        ("model: llama-3.1-8b\nkv-mem: 1GiB\nexpect:\n  min-concurency: 2", 4),
        ("model: llama-3.1-8b\nkv-mem: [1GiB,\n 3]", 2),
        ("model: llama-3.1-8b\nkv-mem: 1GiB\nodd: 3", 3),
        ("model: llama-3.1-8b\n\tkv-mem: 1GiB", 2),
        ("expect: {}\nextends: none.yaml", 2),
    ],
)
def test_a_fault_points_at_its_line(text: str, line: int) -> None:
    Path("one.yaml").write_text(text, encoding="utf-8")
    (deployment,) = gated("one.yaml").deployments
    assert (deployment.faults[0].path, deployment.faults[0].line) == ("one.yaml", line)


def test_a_fault_without_a_file_points_at_its_deployment() -> None:
    write_files(
        Path(),
        {
            "base.yaml": "model: llama-3.1-8b\nkv-mem: 1GiB",
            "a.yaml": "extends: base.yaml\nenvironments:\n  x: {}\n  y: {tensor-parallel-size: 3}",
            "b.yaml": "kv-cache-dtype: auto\nmodel: llama-3.1-8b",
        },
    )
    _, refused, bare = gated("a.yaml", "b.yaml").deployments
    assert refused.state is State.ENGINE_REFUSES
    assert (refused.faults[0].path, refused.faults[0].line) == ("a.yaml", 4)
    assert bare.faults[0].where == "b.yaml: memory"
    assert (bare.faults[0].path, bare.faults[0].line) == ("b.yaml", 2)
    assert "gpu: h100" in str(bare.faults[0].way_out)


def test_a_file_that_expects_nothing_says_so() -> None:
    write_files(Path(), {"a.yaml": "model: llama-3.1-8b\nkv-mem: 40GiB"})
    (deployment,) = gated("a.yaml").deployments
    assert "nothing_expected" in {notice.code for notice in deployment.notices}


def test_progress_is_told_of_every_deployment() -> None:
    write_files(Path(), FILES)
    told: list[tuple[int, int]] = []
    gate(GateRequest(files=("*.yaml",)), lambda done, total: told.append((done, total)))
    assert told == [(done, 6) for done in range(1, 7)]


def test_a_fault_of_a_base_points_there() -> None:
    write_files(
        Path(), {"base.yaml": "model: x\nserve: {dtype: odd}", "a.yaml": "extends: base.yaml"}
    )
    (deployment,) = gated("a.yaml").deployments
    assert (deployment.path, deployment.faults[0].path) == ("a.yaml", "base.yaml")
    assert deployment.faults[0].line == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("requests: 4096:10", "expected requests, got a number"),
        ("requests: {}", "expected requests"),
        ("requests: {auto: 1}", "is no request"),
        ("requests: {4096: 0}", "is no request"),
        ("requests: '4096:x'", "not a whole number"),
        ("max-gpus: 0", "a number of cards above 0"),
        ("min-num-blocks: true", "not a number"),
        ("min-kv-mem: 40", "less than one mebibyte"),
        ("{max-gpus: 1, max_gpus: 2}", "twice, in two spellings"),
    ],
)
def test_wrong_expectations(text: str, reason: str) -> None:
    body = text if text.startswith("{") else f"{{{text}}}"
    write_files(Path(), {"one.yaml": f"model: llama-3.1-8b\nkv-mem: 1GiB\nexpect: {body}"})
    (deployment,) = gated("one.yaml").deployments
    assert deployment.faults[0].where.startswith("one.yaml: expect.")
    assert reason in deployment.faults[0].reason


@pytest.mark.parametrize("concurrency", [1, 2.5, 8])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "gemma-3-27b"])
def test_what_solve_finds_holds_and_a_byte_less_does_not(model: str, concurrency: float) -> None:
    question = SolveRequest(
        fit=FitRequest(model=model),
        quantity=Quantity.KV_MEM,
        needs=Needs(concurrency=Fraction(concurrency)),
    )
    value = int(str(solve(question).value))
    for size, state in ((value, State.HOLDS), (value - 1, State.FAILS)):
        text = f"model: {model}\nkv-mem: {size}\nexpect: {{min-concurrency: {concurrency}}}"
        write_files(Path(), {"one.yaml": text})
        assert gated("one.yaml").deployments[0].state is state


def test_the_processes_own_variables_count_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_KV_CACHE_LAYOUT", "nonsense")
    write_files(Path(), FILES)
    assert gated("chat.yaml", environments=("prod",)).exit_code is ExitCode.FITS


def test_the_gravest_ending_counts() -> None:
    order = [ExitCode.DEFECT, ExitCode.WRONG_INPUT, ExitCode.CANNOT_PLAN, ExitCode.DOES_NOT_FIT]
    assert gravest([]) is ExitCode.FITS
    for index, code in enumerate(order):
        assert gravest([ExitCode.FITS, *reversed(order[index:])]) is code
    assert {state.exit_code for state in State} == {*ExitCode}


def test_equal_models_are_resolved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[None] = []
    real = weights.rank_weights

    def rank_weights(*arguments: Any) -> Any:
        counted.append(None)
        return real(*arguments)

    monkeypatch.setattr(weights, "rank_weights", rank_weights)
    text = "model: qwen3-8b\ngpu: h100\nmax-model-len: "
    write_files(Path(), {f"{n}.yaml": f"{text}{n}" for n in range(1000, 1020)})
    gated("*.yaml")
    assert len(counted) == 1
