"""A log against the plan: what agrees, what is off, and the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan_cli.errors import ExitCode
from kvplan_cli.results import FitRequest
from kvplan_cli.results_verify import Agreement, Comparison, VerifyResult
from kvplan_cli.service.verify import verify

LOGS = Path(__file__).parent.parent / "data" / "logs"


def check(name: str | Path, model: str = "llama-3.1-8b", **asked: Any) -> VerifyResult:
    path = name if isinstance(name, Path) else LOGS / name
    return verify(FitRequest(model=model, from_log=str(path), **asked))


def figure(result: VerifyResult, name: str) -> Comparison:
    return next(each for each in result.comparisons if each.figure == name)


def test_a_newer_log_agrees() -> None:
    result = check("serve-0.31.log")
    assert result.exit_code is ExitCode.FITS
    assert (result.log_release, result.rules_release) == ("0.31.0", "0.31.0")
    assert figure(result, "tokens").agreement is Agreement.WITHIN_ROUNDING
    assert figure(result, "concurrency").agreement is Agreement.EQUAL
    assert figure(result, "available").agreement is Agreement.IN_RANGE
    assert [each.line for each in result.comparisons] == sorted(
        each.line for each in result.comparisons
    )


def test_an_older_log_with_two_workers_agrees() -> None:
    result = check("serve-0.10-tp2.log", "qwen2.5-7b")
    assert result.exit_code is ExitCode.FITS
    weights = [each.of for each in result.comparisons if each.figure == "weights"]
    assert weights == ["VllmWorker rank=0", "VllmWorker rank=1"]


def test_a_refusal_agrees_in_need_and_length() -> None:
    result = check("refused-0.33.log", "")
    assert result.exit_code is ExitCode.FITS
    assert figure(result, "needed").printed == "16.0"
    assert figure(result, "estimated_length").agreement is Agreement.WITHIN_ROUNDING


def changed(tmp_path: Path, name: str, *pairs: tuple[str, str]) -> Path:
    text = (LOGS / name).read_text()
    for before, after in pairs:
        assert before in text
        text = text.replace(before, after)
    path = tmp_path / name
    path.write_text(text)
    return path


def test_another_figure_is_off(tmp_path: Path) -> None:
    result = check(changed(tmp_path, "serve-0.31.log", ("460,496", "560,496")))
    assert result.exit_code is ExitCode.DOES_NOT_FIT
    off = figure(result, "tokens")
    assert off.agreement is Agreement.OFF
    assert off.reason is not None


def test_the_other_releases_rule_is_named(tmp_path: Path) -> None:
    # A hybrid's token line by blocks, as releases to 0.20.0 print it, in a newer log.
    log = tmp_path / "gemma.log"
    log.write_text(
        "version\n(EngineCore pid=1) INFO [x]   ▄▄  version 0.31.0\n"
        "Available KV cache memory: 40.0 GiB\n"
        "GPU KV cache size: 74,896 tokens\n"
    )
    off = figure(check(log, "gemma-3-27b"), "tokens")
    assert off.agreement is Agreement.OFF
    assert off.reason == "it agrees with the token line of releases to 0.20.0"


def test_without_a_release_other_rules_are_tried(tmp_path: Path) -> None:
    log = tmp_path / "gemma.log"
    log.write_text("Available KV cache memory: 40.0 GiB\nGPU KV cache size: 74,896 tokens\n")
    found = figure(check(log, "gemma-3-27b"), "tokens")
    assert found.agreement is Agreement.WITHIN_ROUNDING
    assert found.reason is not None
    assert "tells no release" in found.reason


def test_three_lines_are_enough() -> None:
    result = check("kv-lines-only.log")
    assert result.exit_code is ExitCode.FITS
    assert {notice.code for notice in result.notices} >= {"release_not_told"}


def test_without_memory_nothing_is_predicted(tmp_path: Path) -> None:
    log = tmp_path / "tokens.log"
    log.write_text("GPU KV cache size: 74,896 tokens\n")
    result = check(log)
    assert figure(result, "tokens").agreement is Agreement.NOT_PREDICTED
    assert result.exit_code is ExitCode.DOES_NOT_FIT


@pytest.mark.parametrize(
    ("line", "flags", "expected"),
    [
        ("# GPU blocks: 20480, # CPU blocks: 2048", {}, Agreement.EQUAL),
        (
            "Initial free memory 78.0 GiB, reserved 40.0 GiB memory for KV Cache as specified by "
            "kv_cache_memory_bytes config\n# GPU blocks: 20480, # CPU",
            {"kv_cache_memory_bytes": 40 << 30},
            Agreement.EQUAL,
        ),
    ],
)
def test_blocks(tmp_path: Path, line: str, flags: dict[str, Any], expected: Agreement) -> None:
    log = tmp_path / "blocks.log"
    log.write_text(f"{line} blocks\nMaximum concurrency for 131072 tokens per request: 2.50x\n")
    result = check(log, flags=flags)
    assert figure(result, "gpu_blocks").agreement is expected
    assert figure(result, "concurrency").agreement is Agreement.EQUAL


def test_v0_told_its_blocks_before_it_refused(tmp_path: Path) -> None:
    log = tmp_path / "v0.log"
    log.write_text(
        "vLLM API server version 0.6.6\n# GPU blocks: 1478, # CPU blocks: 2048\n"
        "Maximum concurrency for 29000 tokens per request: 0.82x\n"
        "The model's max seq len (29000) is larger than the maximum number of tokens that can be "
        "stored in KV cache (23648).\n"
    )
    result = check(log, flags={"max_model_len": 29000})
    assert {each.agreement for each in result.comparisons} == {Agreement.EQUAL}
