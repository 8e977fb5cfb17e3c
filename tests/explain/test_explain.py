"""The use case: what it says equals fit, and each change is what fit plans with it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from kvplan_cli.cli.fit import read_call
from kvplan_cli.errors import ExitCode, InputError
from kvplan_cli.formulas.waste import Waste
from kvplan_cli.planner.results import Plan
from kvplan_cli.results import FitRequest, FitResult
from kvplan_cli.results_explain import Change, Effect, ExplainResult
from kvplan_cli.service import fit
from kvplan_cli.service.explain import explain
from kvplan_cli.units import GIB
from tests.conformance.run import read_lines
from tests.explain.golden import CASES, explained
from tests.formulas.reading import check_equation
from tests.formulas.test_vectors import VECTORS


def asked(words: str) -> FitRequest:
    return read_call(shlex.split(words)).request


@pytest.mark.parametrize("case", CASES)
def test_it_is_what_fit_says(case: str) -> None:
    result = explained(case)
    plain = fit(asked(CASES[case]))
    assert result.fit == plain
    assert result.exit_code is plain.exit_code
    assert result.now.longest_context == plain.longest_context
    if isinstance(plain.deciding, Plan):
        assert result.now.max_concurrency == plain.deciding.max_concurrency


def typed_into(case: str, change: Change) -> FitResult:
    """What fit plans when the change is typed behind the case's words; the last value wins."""
    words = CASES[case]
    if change.typed == "--enable-hybrid-kv-cache-manager":
        words = words.replace("--disable-hybrid-kv-cache-manager", "")
    return fit(asked(f"{words} {change.typed}"))


@pytest.mark.parametrize("case", CASES)
def test_each_change_is_what_fit_plans_with_it(case: str) -> None:
    planned = [c for c in explained(case).changes if c.standing is not None]
    assert planned
    for change in planned:
        result, standing = typed_into(case, change), change.standing
        assert standing is not None
        assert isinstance(result.deciding, Plan) is standing.fits, change.typed
        assert result.longest_context == standing.longest_context, change.typed
        if isinstance(result.deciding, Plan):
            assert result.deciding.max_concurrency == standing.max_concurrency
            assert result.deciding.kv_cache_size_tokens == standing.tokens


@pytest.mark.parametrize("case", CASES)
def test_what_helps_comes_first_and_the_most_first(case: str) -> None:
    result = explained(case)
    effects = [change.effect for change in result.changes]
    assert effects == sorted(effects, key=list(Effect).index)
    better = [c.standing for c in result.changes if c.effect is Effect.BETTER]
    same = [s.tokens or 0 for s in better if s is not None and s.gpus == result.now.gpus]
    assert same == sorted(same, reverse=True)
    for standing in better:
        assert standing is not None
        assert (standing.longest_context or 0) >= (result.now.longest_context or 0)


@pytest.mark.parametrize("case", CASES)
def test_refused_changes_say_why(case: str) -> None:
    for change in explained(case).changes:
        assert (change.standing is None) == (change.effect is Effect.UNPLANNED)
        assert (change.reason is not None) == (change.effect is Effect.UNPLANNED)
        assert change.cost


def best(result: ExplainResult, flag: str) -> Change:
    return next(c for c in result.changes if c.flag == flag and c.effect is Effect.BETTER)


def test_a_flag_moves_a_sliding_window_model_from_one_request_to_one_and_a_half() -> None:
    result = explained("windows")
    assert result.now.max_concurrency is not None
    assert int(result.now.max_concurrency) == 1
    assert result.now.max_concurrency < 1.01
    change = best(result, "--max-num-batched-tokens")
    assert change.typed == "--max-num-batched-tokens 1024"
    assert change.standing is not None
    assert change.standing.max_concurrency is not None
    assert 1.5 <= change.standing.max_concurrency < 1.6
    wasted = {each.waste: each for each in result.wastes}
    assert wasted[Waste.IN_FLIGHT].percent > 36
    # Batches of half the size overlapping is one batch of the whole size.
    together = next(c for c in result.changes if c.together)
    assert together.typed == "--max-num-batched-tokens 1024 --no-async-scheduling"


@pytest.mark.parametrize(
    ("case", "waste"),
    [
        ("windows", Waste.IN_FLIGHT),
        ("windows", Waste.PADDING_LAYERS),
        ("windows", Waste.BLOCK_ROUNDING),
        ("windows-kept-like-full", Waste.KEPT_LIKE_FULL),
        ("chunks", Waste.IN_FLIGHT),
        ("replicas", Waste.REPLICAS),
        ("unequal-stages", Waste.OTHER_WORKERS),
        ("windows", Waste.LEFT_OVER),
        ("does-not-fit", Waste.NULL_BLOCK),
    ],
)
def test_waste_has_a_name(case: str, waste: Waste) -> None:
    assert waste in {each.waste for each in explained(case).wastes}


def test_heads_that_two_ranks_hold_are_half_of_what_is_read() -> None:
    result = explained("replicas")
    replicas = next(each for each in result.wastes if each.waste is Waste.REPLICAS)
    (request,) = (each for each in result.maps if each.map_of.value == "request")
    read = next(part.num_bytes for part in request.parts if not part.wasted)
    assert replicas.num_bytes == read


def test_what_is_missing_is_told_where_it_does_not_fit() -> None:
    result = explained("does-not-fit")
    assert result.exit_code is ExitCode.DOES_NOT_FIT
    (missing,) = (formula for formula in result.formulas if formula.name == "missing")
    # 16 GiB for a request, a block of 2 MiB that is never handed out, 12 GiB there.
    assert missing.result == 4 * GIB + (2 << 20)
    fitting = [c for c in result.changes if c.standing is not None and c.standing.fits]
    assert {c.flag for c in fitting} >= {"--kv-cache-dtype", "--max-model-len", "-tp"}


def test_a_card_is_shared_out_to_the_last_byte() -> None:
    result = explain(asked("llama-3.1-70b --gpu h100 -tp 4 -pp 2"))
    devices = [each for each in result.maps if each.map_of.value == "device"]
    assert len(devices) == 2
    for each in devices:
        assert sum(part.num_bytes for part in each.parts) == each.total_bytes
    for formula in result.formulas:
        assert check_equation(formula.figures) == formula.result
    available = [f.result for f in result.formulas if f.name == "available"]
    assert available == [estimate.likely for estimate in result.fit.available]
    flags = {c.flag for c in result.changes if c.effect is Effect.BETTER}
    assert flags >= {"--gpu-memory-utilization", "--max-num-seqs", "--enforce-eager"}


def test_ranks_are_added_until_it_fits() -> None:
    result = explain(asked("llama-3.1-70b --gpu h100"))
    assert not result.now.fits
    tried = [c for c in result.changes if c.flag == "-tp" and c.standing is not None]
    fitting = {c.typed: c.standing.fits for c in tried if c.standing is not None}
    assert fitting == {"-tp 4": True, "-tp 2": False}


def test_an_encoder_keeps_room_for_its_whole_input(tmp_path: Path) -> None:
    whisper = '"architectures": ["WhisperForConditionalGeneration"]'
    line = next(line for line in read_lines(VECTORS / "models.jsonl.xz") if whisper in line)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(line)["config"]))
    result = explain(asked(f"{path} --kv-mem 20GiB"))
    assert "--kv-cache-dtype" in {c.flag for c in result.changes}
    steps = {c.typed for c in result.changes if c.flag == "--max-num-batched-tokens"}
    assert steps <= {"--max-num-batched-tokens 4096", "--max-num-batched-tokens 2048"}


PLAN = """
layers:
  - count: 4
    spec:
      {class: FullAttentionSpec, block_size: 16, num_kv_heads: 8, head_size: 128, dtype: bfloat16}
kv-mem: 1GiB
max-model-len: auto
"""


def test_layers_given_outright_are_explained(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN)
    result = explain(asked(str(path)))
    longest = [f for f in result.formulas if f.name in ("longest context", "a token longer")]
    assert [f.of for f in longest] == ["65,520 tokens", "65,521 tokens"]
    assert isinstance(result.fit.deciding, Plan)
    assert result.fit.deciding.max_model_len == 65_520


def test_wrong_input_ends_as_in_fit() -> None:
    with pytest.raises(InputError, match="nothing says how much there is"):
        explain(asked("llama-3.1-8b"))
