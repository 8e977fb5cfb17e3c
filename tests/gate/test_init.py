"""The first plan file: it plans what was asked for, and holds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan_cli.cli.gate_init import read_call
from kvplan_cli.errors import InputError
from kvplan_cli.loader.yaml_text import parse_yaml
from kvplan_cli.report.build import fit_document
from kvplan_cli.report.plan_yaml import plan_yaml, scalar
from kvplan_cli.results import FitRequest
from kvplan_cli.results_gate import GateRequest, State
from kvplan_cli.results_solve import End
from kvplan_cli.service.fit import fit
from kvplan_cli.service.gate import gate
from kvplan_cli.service.gate_draft import draft
from tests.cli.process import command, environment
from tests.gate.files import write_files
from tests.gate.test_layers import MANIFEST
from tests.loader.builders import CONFIG, write_json


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_json(tmp_path / "models" / "tiny" / "config.json", CONFIG)
    serve = "model: ../models/tiny\ntensor-parallel-size: 2\nmax-model-len: 1024\nport: 1"
    write_files(tmp_path, {"serving/serve.yaml": serve, "serving/manifest.yaml": MANIFEST})


def written(words: str, dashes: str = "", name: str = "plans/new.yaml") -> str:
    """The file that a call writes, which is put where it is to stand."""
    call = read_call(["--init", name, *words.split()], dashes.split())
    text = plan_yaml(draft(call.request))
    Path(name).write_text(text, encoding="utf-8")
    return text


CALLS = [
    ("llama-3.1-8b --kv-mem 40GiB -tp 2 --max-model-len 32k", ""),
    ("gemma-3-27b --kv-mem 40000000000 --max-model-len auto --block-size 32", ""),
    ("llama-3.1-8b --kv-mem 9GiB,41.5GiB -pp 2", ""),
    ("llama-3.1-8b --gpu h100 --gpu-memory-utilization 0.85 --weights 16GiB", ""),
    ("llama-3.1-8b --gpu-mem 79.19GiB --no-enable-prefix-caching --enforce-eager", ""),
    ("gpt-oss-20b --kv-mem 20GiB --hf-overrides.sliding_window 256 --engine-version 0.32.0", ""),
    ("qwen3-8b --kv-mem 20GiB --kv-cache-dtype-skip-layers 1,2 --kv-cache-dtype fp8", ""),
    ("models/tiny --kv-mem 20GiB", ""),
    ("serving/serve.yaml --kv-mem 20GiB -tp 1 --hf-overrides.rope_theta 1e6", ""),
    ("serving/serve.yaml --kv-mem 20GiB", ""),
    ("serving/manifest.yaml --service chat", ""),
    ("serving/manifest.yaml --service draft --kv-mem 20GiB -tp 2", ""),
    ("--kv-mem 20GiB", "env VLLM_KV_CACHE_LAYOUT=LBNHC vllm serve llama-3.1-8b -tp 2 --port 1"),
]


@pytest.mark.parametrize(("words", "dashes"), CALLS)
def test_the_file_plans_what_was_asked_for_and_holds(words: str, dashes: str) -> None:
    Path("plans").mkdir()
    written(words, dashes)
    asked = fit_document(
        fit(read_call(["--init", "x.yaml", *words.split()], dashes.split()).request.fit)
    )
    again = fit_document(fit(FitRequest(model="plans/new.yaml")))
    for part in ("plan", "settings", "groups", "available_bytes_per_worker", "gpu", "engine"):
        assert getattr(again, part) == getattr(asked, part), part
    (deployment,) = gate(GateRequest(files=("plans/new.yaml",))).deployments
    assert deployment.state is State.HOLDS, deployment.faults


def test_the_figures_are_todays_less_the_margin() -> None:
    text = written("llama-3.1-8b --kv-mem 40GiB --margin 10%", name="a.yaml")
    assert "less a margin of 10 %" in text
    expect = parse_yaml(text, "a")["expect"]
    assert expect == {
        "min-concurrency": 2.25,
        "min-max-model-len": 131072,
        "min-kv-tokens": 294912,
        "max-gpus": 1,
    }
    assert "# today 327,680" in text
    text = written("llama-3.1-8b --kv-mem 40GiB --margin 0", name="b.yaml")
    assert parse_yaml(text, "a")["expect"]["min-kv-tokens"] == 327680
    assert "margin" not in text


def test_a_figure_on_another_end_says_how_to_check_it() -> None:
    text = written("llama-3.1-8b --gpu h100 --on likely", name="a.yaml")
    assert "kvplan gate a.yaml --on likely ends" in text
    result = gate(GateRequest(files=("a.yaml",), on=End.LIKELY))
    assert result.deployments[0].state is State.HOLDS


def test_a_serve_file_stays_the_one_that_says_how_it_is_served() -> None:
    text = written("serving/serve.yaml --kv-mem 20GiB", name="serving/gate.yaml")
    assert "extends: ./serve.yaml\n" in text
    assert "serve:" not in text
    assert "model:" not in text


def test_a_manifest_stays_the_one_that_says_how_it_is_served() -> None:
    text = written("serving/manifest.yaml --service chat", name="serving/gate.yaml")
    assert "extends: ./manifest.yaml\nservice: chat\n" in text
    assert not {"model", "serve", "gpu", "env", "engine-version"} & set(parse_yaml(text, "a"))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--init a.txt llama-3.1-8b --kv-mem 40GiB", "a plan file is YAML"),
        ("--init no/a.yaml llama-3.1-8b --kv-mem 40GiB", "there is no folder no"),
        ("--init serving/serve.yaml llama-3.1-8b --kv-mem 40GiB", "the file is there already"),
        ("--init a.yaml --kv-mem 40GiB", "MODEL: is missing"),
        ("--init a.yaml m --margin 100%", "leaves nothing to expect"),
        ("--init a.yaml m --margin -1", "is no margin"),
        ("--init a.yaml m --format json", "there is no such option"),
        ("--init a.yaml m --on never", "one of low, likely, high"),
    ],
)
def test_wrong_calls(words: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        read_call(words.split())
    assert any(told in str(problem) for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("llama-3.1-8b --kv-mem 1GiB", "there is nothing to expect"),
        ("several.yaml", "several deployments or environments"),
        ("llama-3.1-8b", "nothing says how much there is"),
    ],
)
def test_what_has_no_figures_is_told(words: str, told: str) -> None:
    several = "model: llama-3.1-8b\nkv-mem: 40GiB\nenvironments: {a: {}}"
    write_files(Path(), {"several.yaml": several})
    with pytest.raises(InputError) as caught:
        written(words, name="a.yaml")
    assert told in str(caught.value.problems[0])
    assert not Path("a.yaml").exists()


def init(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(("gate", "--init", *words), None),
        capture_output=True,
        text=True,
        env=environment({"COLUMNS": "100"}),
        cwd=os.getcwd(),
        check=False,
    )


def test_it_is_written_once_and_over_only_by_force() -> None:
    words = ("a.yaml", "llama-3.1-8b", "--kv-mem", "40GiB")
    ended = init(*words)
    assert (ended.returncode, ended.stderr) == (0, "kvplan: wrote a.yaml\n")
    assert ended.stdout.splitlines()[-1].startswith("Passed")
    first = Path("a.yaml").read_text()
    ended = init(*words, "-tp", "2")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert Path("a.yaml").read_text() == first
    assert init(*words, "-tp", "2", "--force").returncode == 0
    assert "tensor-parallel-size: 2" in Path("a.yaml").read_text()
    ended = init("-", *words[1:])
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "kvplan gate FILE ends with 1" in ended.stdout


def test_a_file_does_not_extend_itself() -> None:
    before = Path("serving/serve.yaml").read_text()
    ended = init("serving/serve.yaml", "serving/serve.yaml", "--kv-mem", "1GiB", "--force")
    assert ended.returncode == 2
    assert "would extend itself" in ended.stderr
    assert Path("serving/serve.yaml").read_text() == before


def test_hostile_words_stay_a_comment() -> None:
    call = read_call(
        ["--init", "a.yaml", "--kv-mem", "40GiB"],
        ["vllm", "serve", "llama-3.1-8b", "--served-model-name", "x\nmodel: y\u2028z: 1"],
    )
    text = plan_yaml(draft(call.request))
    assert parse_yaml(text, "a")["model"] == "llama-3.1-8b"
    assert set(parse_yaml(text, "a")) == {"model", "engine-version", "kv-mem", "expect"}


_SCALARS = (
    st.text(max_size=20)
    | st.integers(-(10**12), 10**12)
    | st.booleans()
    | st.floats(1e-9, 1e9, allow_nan=False)
    | st.sampled_from(["no", "On", "1e5", "0x1F", "12:30", "1_000", "~", ".5", "-", "a b", "=", ""])
)


@given(_SCALARS | st.dictionaries(st.text("ab:", max_size=3), st.integers(), max_size=2))
def test_a_written_value_reads_back(value: Any) -> None:
    read = parse_yaml(f"key: {scalar(value)}\n", "a")["key"]
    assert type(read) is type(value)
    assert read == pytest.approx(value) if isinstance(value, float) else read == value
