"""``engine_version``: old releases' own figures, from public logs, and what the answer says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan_cli.engine_rules import TokenLine
from kvplan_cli.errors import InputError, UnplannableError
from kvplan_cli.planner.results import Plan
from kvplan_cli.report.build import fit_document
from kvplan_cli.results import FitRequest, FitResult
from kvplan_cli.service import fit
from kvplan_cli.units import GIB
from tests.conformance.run import read_cases

LOGS = tuple(read_cases(Path(__file__).parents[1] / "data" / "startups" / "public.jsonl.xz"))
# A printed GiB figure stands for this much to either side, a concurrency likewise.
_PRINTED = 0.005


def planned(log: Any, gib: float, folder: Path) -> tuple[int, float]:
    """The token line and the concurrency of the log's release at this memory."""
    config = folder / "config.json"
    config.write_text(json.dumps(log["config"]), encoding="utf-8")
    result = fit(
        FitRequest(
            model=str(config),
            flags=log["flags"],
            kv_mem_bytes=(int(gib * GIB),),
            engine_version=log["release"],
        )
    )
    plan = result.likely
    assert isinstance(plan, Plan)
    by_blocks = result.engine_rules.token_line is TokenLine.BY_BLOCKS
    tokens = plan.kv_cache_size_tokens_by_blocks if by_blocks else plan.kv_cache_size_tokens
    assert tokens is not None
    assert plan.max_concurrency is not None
    return tokens, plan.max_concurrency


@pytest.mark.parametrize("log", LOGS, ids=[f"{log['model']}-{log['release']}" for log in LOGS])
def test_a_public_log_is_reproduced(log: Any, tmp_path: Path) -> None:
    least = planned(log, log["available_kv_gib"] - _PRINTED, tmp_path)
    most = planned(log, log["available_kv_gib"] + _PRINTED, tmp_path)
    assert least[0] <= log["kv_tokens"] <= most[0]
    assert least[1] - _PRINTED <= log["max_concurrency"] <= most[1] + _PRINTED


def ask(**asked: Any) -> FitResult:
    return fit(FitRequest(model="gemma-3-27b", kv_mem_bytes=(40 * GIB,), **asked))


def notices(result: FitResult) -> list[str]:
    return [notice.message for notice in result.notices if notice.code == "engine_version"]


def test_the_newest_release_needs_no_word() -> None:
    result = ask()
    assert result.engine_rules.release == "0.33.0"
    assert notices(result) == []


def test_the_answer_states_the_release_and_its_token_line() -> None:
    result = ask(engine_version="0.20.0")
    document = fit_document(result)
    assert (document.engine.release, document.engine.token_line) == ("0.20.0", "by_blocks")
    assert document.settings is not None
    # One batch of 8,192 tokens, where 0.33.0 counts two.
    assert document.settings.max_in_flight_tokens == 8192
    assert [i.origin for i in document.inputs if i.key == "engine_version"] == ["--engine-version"]
    (notice,) = notices(result)
    assert "one batch in flight" in notice
    assert "not compared" in notice


def test_a_kept_release_was_compared() -> None:
    (notice,) = notices(ask(engine_version="0.32.0"))
    assert "not compared" not in notice
    # No drafter, no states: nothing of 0.32.0 differs for this model.
    assert "no rule of its own touches this model" in notice


def test_a_plan_file_names_the_release_and_the_request_wins(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text("model: llama-3.1-8b\nkv-mem: 40GiB\nengine-version: 0.25.1\n")
    assert fit(FitRequest(model=str(file))).engine_rules.release == "0.25.1"
    asked = fit(FitRequest(model=str(file), engine_version="0.32.0"))
    assert asked.engine_rules.release == "0.32.0"


@pytest.mark.parametrize(
    ("written", "reason"),
    [("0.25", "expected a release as text"), ("0.9.2", "nothing is known of"), ("[]", "a name")],
)
def test_a_plan_file_with_a_wrong_release(tmp_path: Path, written: str, reason: str) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(f"model: llama-3.1-8b\nkv-mem: 40GiB\nengine-version: {written}\n")
    with pytest.raises(InputError, match=reason) as error:
        fit(FitRequest(model=str(file)))
    assert "engine-version" in str(error.value)


def hybrid(folder: Path, release: str, **flags: Any) -> FitResult:
    (log,) = (log for log in LOGS if log["release"] == "0.24.0")
    config = folder / "config.json"
    config.write_text(json.dumps(log["config"]), encoding="utf-8")
    return fit(
        FitRequest(
            model=str(config),
            flags={"max_model_len": 8192, "max_num_seqs": 4, **flags},
            kv_mem_bytes=(10 * GIB,),
            engine_version=release,
        )
    )


def test_a_flag_that_only_older_releases_obey_cannot_be_planned(tmp_path: Path) -> None:
    assert isinstance(hybrid(tmp_path, "0.33.0", mamba_cache_mode="none").likely, Plan)
    assert isinstance(hybrid(tmp_path, "0.32.0", mamba_cache_mode="align").likely, Plan)
    with pytest.raises(UnplannableError, match=r"0\.32\.0 obeys it"):
        hybrid(tmp_path, "0.32.0", mamba_cache_mode="none")


def test_older_steps_do_not_overlap_where_ngrams_are_drafted() -> None:
    drafter = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
    batches = {}
    for release in ("0.32.0", "0.33.0"):
        settings = ask(engine_version=release, flags={"speculative_config": drafter}).settings
        assert settings is not None
        batches[release] = settings.max_concurrent_batches
    assert batches == {"0.32.0": 1, "0.33.0": 2}
