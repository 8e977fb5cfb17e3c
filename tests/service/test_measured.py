"""Plans with what a start measured: logs, profiles, and what is not theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan_cli.errors import InputError
from kvplan_cli.loader.profiles import profiles_folder
from kvplan_cli.memory.budget import Source
from kvplan_cli.planner.results import Plan
from kvplan_cli.results import FitRequest, FitResult
from kvplan_cli.service import fit
from kvplan_cli.units import GIB

LOGS = Path(__file__).parent.parent / "data" / "logs"
NEW = str(LOGS / "serve-0.31.log")
TWO = str(LOGS / "serve-0.10-tp2.log")
REFUSED = str(LOGS / "refused-0.33.log")


def ask(model: str = "llama-3.1-8b", **asked: Any) -> FitResult:
    return fit(FitRequest(model=model, **asked))


def codes(result: FitResult) -> set[str]:
    return {notice.code for notice in result.notices}


def test_a_log_gives_memory_flags_release_and_card() -> None:
    result = ask(from_log=NEW)
    (available,) = result.available
    assert available.source is Source.MEASURED
    assert (available.low, available.high) == (60349753140, 60360396636)
    assert isinstance(result.likely, Plan)
    assert round(result.likely.max_concurrency or 0, 2) == 3.51
    assert result.engine_rules.release == "0.31.0"
    assert result.gpu is not None
    assert "A100" in result.gpu.name
    sources = {origin.key: origin.source for origin in result.origins}
    assert sources["max_num_batched_tokens"] == f"{NEW}:7"
    assert sources["from_log"] == "--from-log"


def test_the_smallest_rank_decides() -> None:
    result = ask("qwen2.5-7b", from_log=TWO)
    (available,) = result.available
    assert available.high <= 31.835 * GIB
    assert result.measured is not None
    assert [rank.name for rank in result.measured.ranks][:1] == ["VllmWorker rank=0"]


def test_lengths_and_cache_types_are_free() -> None:
    longer = ask(from_log=NEW, flags={"max_model_len": 4096, "kv_cache_dtype": "fp8"})
    assert longer.available[0].source is Source.MEASURED


def test_utilization_moves_what_was_measured() -> None:
    before = ask(from_log=NEW).available[0]
    after = ask(from_log=NEW, flags={"gpu_memory_utilization": 0.82}).available[0]
    assert after.source is Source.COMPUTED
    moved = before.likely - after.likely
    assert moved == pytest.approx(0.1 * 79.25 * GIB, rel=0.001)


def test_batch_limits_move_it_by_the_model_and_widen_it() -> None:
    before = ask(from_log=NEW).available[0]
    after = ask(from_log=NEW, flags={"max_num_seqs": 64}).available[0]
    assert after.likely > before.likely
    assert after.high - after.low > before.high - before.low
    assert "--max-num-seqs" in after.note


@pytest.mark.parametrize(
    "flags", [{"tensor_parallel_size": 2}, {"dtype": "float16"}, {"quantization": "fp8"}]
)
def test_another_model_on_the_rank_is_refused(flags: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="measured with"):
        ask(from_log=NEW, flags=flags)


def test_a_log_that_ends_early_gives_weights(tmp_path: Path) -> None:
    log = tmp_path / "cut.log"
    log.write_text("".join(Path(NEW).read_text().splitlines(keepends=True)[:10]))
    with pytest.raises(InputError, match="nothing says how much"):
        ask(from_log=str(log))
    result = ask(from_log=str(log), gpu="a100-80")
    weights = result.budgets[0].lines[0].bytes_per_rank
    assert weights.source is Source.MEASURED
    assert "no_available_memory" in codes(result)


def test_a_log_names_its_model() -> None:
    # A path into the hub library's cache stands for its repository, which is bundled.
    result = ask("", from_log=REFUSED)
    assert result.model == "llama-3.1-8b"
    assert not isinstance(result.likely, Plan)
    with pytest.raises(InputError, match="which is not here"):
        ask("", from_log=TWO)


def test_no_secret_of_a_log_is_shown() -> None:
    assert "secret-of-mine" not in str(ask("", from_log=REFUSED))


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "holds no line"), (b"nothing\n" * 9, "holds no line"), (b"\xff\xfe\x00", "no line")],
)
def test_what_is_no_log_is_said_so(tmp_path: Path, content: bytes, reason: str) -> None:
    log = tmp_path / "x.log"
    log.write_bytes(content)
    with pytest.raises(InputError, match=reason):
        ask(from_log=str(log))
    with pytest.raises(InputError, match="no such file"):
        ask(from_log=str(tmp_path / "none.log"))


def test_a_log_in_the_form_that_windows_shells_write(tmp_path: Path) -> None:
    log = tmp_path / "utf16.log"
    log.write_bytes(Path(NEW).read_text().encode("utf-16"))
    assert ask(from_log=str(log)).available[0].low == 60349753140


def test_plan_files_name_logs(tmp_path: Path) -> None:
    (tmp_path / "serve.log").write_text(Path(NEW).read_text())
    plan = tmp_path / "plan.yaml"
    plan.write_text("model: llama-3.1-8b\nfrom-log: serve.log\n")
    assert ask(str(plan)).available[0].source is Source.MEASURED
    # A memory that is stated drops the file's log.
    assert ask(str(plan), kv_mem_bytes=(GIB,)).available[0].source is Source.GIVEN


def test_a_profile_keeps_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "llama.json"
    kept = ask(from_log=NEW, save_profile=str(path))
    assert "profile_kept" in codes(kept)
    document = json.loads(path.read_text())
    assert (document["schema_version"], document["release"]) == (1, "0.31.0")
    used = ask(profile=str(path), engine_version="0.31.0", flags={"max_model_len": 8192})
    assert used.available[0].low == kept.available[0].low
    assert used.settings is not None
    assert used.settings.max_model_len == 8192


def test_profiles_stand_in_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    ask(from_log=NEW, save_profile="llama-a100")
    assert (profiles_folder() / "llama-a100.json").is_file()
    assert profiles_folder().is_relative_to(tmp_path)
    assert ask(profile="llama-a100").available[0].source is Source.MEASURED
    with pytest.raises(InputError, match="did you mean llama-a100"):
        ask(profile="lama-a100")


@pytest.mark.parametrize(
    ("model", "asked", "reason"),
    [
        ("qwen3-8b", {}, "another config"),
        ("llama-3.1-8b", {"gpu": "h100"}, "NVIDIA H100"),
        ("llama-3.1-8b", {"engine_version": "0.32.0"}, "vLLM 0.32.0"),
        ("llama-3.1-8b", {"flags": {"tensor_parallel_size": 2}}, "measured with 1"),
    ],
)
def test_a_profile_of_another_start_is_refused(
    tmp_path: Path, model: str, asked: dict[str, Any], reason: str
) -> None:
    path = tmp_path / "llama.json"
    ask(from_log=NEW, save_profile=str(path))
    with pytest.raises(InputError, match=reason):
        ask(model, profile=str(path), **asked)


@pytest.mark.parametrize("damage", ["{}", '{"kind": "kvplan profile", "schema_version": 1}', "[]"])
def test_a_damaged_profile_is_wrong_input(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(damage)
    with pytest.raises(InputError):
        ask(profile=str(path))


def test_what_was_measured_is_said_once() -> None:
    with pytest.raises(InputError, match="both say what was measured"):
        ask(from_log=NEW, profile="x")
    with pytest.raises(InputError, match="does not tell the engine's release"):
        ask(from_log=str(_without_release()), save_profile="x")


def _without_release() -> Path:
    path = LOGS / "kv-lines-only.log"
    assert path.is_file()
    return path
