"""``--emit``: what a plan stands for, read again, gives the same plan."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from kvplan_cli.cli.fit import read_call
from kvplan_cli.errors import InputError
from kvplan_cli.report.emit import FORMS, emitted
from kvplan_cli.results import Serving
from tests.cli.process import kvplan

EXAMPLES = Path(__file__).parents[2] / "examples"
FULL = (
    "VLLM_KV_CACHE_LAYOUT=NHD vllm serve Qwen/Qwen3-8B -tp 2 --max-model-len 16k --port 8000 "
    "--no-enable-prefix-caching --served-model-name 'a b' c --enable-lora "
    """-sc '{"method": "ngram", "num_speculative_tokens": 3}' --hf-overrides.rope_theta 5e5"""
)
RUNS = {
    "auto": ["llama-3.1-8b", "--kv-mem", "12GiB", "--max-model-len", "auto"],
    "estimate": ["gpt-oss-20b", "--gpu", "h100", "--gpu-memory-utilization", "0.8"],
    "manifest": [str(EXAMPLES / "deployment.yaml"), "--service", "chat"],
    "command": ["--kv-mem", "12GiB", "--", *shlex.split(FULL)],
}


def emit(words: list[str], form: str, *more: str) -> str:
    before, dashes, behind = _parted(words)
    done = kvplan("fit", *before, *more, "--emit", form, *dashes, *behind)
    assert (done.returncode, done.stderr[:5]) == (0, "Fits:"), done.stderr
    return done.stdout


def _parted(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    end = words.index("--") if "--" in words else len(words)
    return words[:end], words[end : end + 1], words[end + 1 :]


def planned(words: list[str]) -> dict[str, Any]:
    before, dashes, behind = _parted(words)
    done = kvplan("fit", *before, "--json", *dashes, *behind)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def again(form: str, text: str, folder: Path) -> tuple[list[str], list[str]]:
    """How a form is read: the words before MODEL or the dashes, and those behind."""
    if form == "serve":
        return [], ["--", *shlex.split(text)]
    if form == "yaml":
        file = folder / "serve.yaml"
        file.write_text(text)
        return [str(file)], []
    names = [line.partition("=")[0] for line in text.splitlines()]
    flags = " ".join(
        f"--{name.replace('_', '-').lower()} ${name}"
        for name in names
        if name != "MODEL" and not name.startswith("VLLM_")
    )
    return [], ["--", "bash", "-c", f"{text}\nvllm serve $MODEL {flags}"]


# Variables have no place in serve YAML, and lists and switches none in variables.
ROUND_TRIPS = [(run, "serve") for run in RUNS] + [
    (run, form) for run in ("auto", "estimate") for form in ("yaml", "env")
]


def test_every_form_is_read_again() -> None:
    assert {form for _, form in ROUND_TRIPS} == set(FORMS)


@pytest.mark.parametrize(("run", "form"), ROUND_TRIPS)
def test_read_again_it_gives_the_same_plan(run: str, form: str, tmp_path: Path) -> None:
    memory = ["--gpu", "h100"] if run in ("estimate", "manifest") else []
    before, behind = again(form, emit(RUNS[run], form), tmp_path)
    first, second = planned(RUNS[run]), planned([*before, *memory, *behind])
    if run == "auto":
        # The length is settled now.
        first["plan"]["auto_fit_limiting_worker"] = None
        first["settings"] = second["settings"] | {"max_model_len_tokens": 98288}
    for key in ("plan", "groups", "verdict", "settings"):
        assert second[key] == first[key], key


def test_everything_that_was_given_is_there() -> None:
    assert emit(RUNS["command"], "serve") == (
        "VLLM_KV_CACHE_LAYOUT=NHD vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 "
        "--max-model-len 16000 --no-enable-prefix-caching --enable-lora "
        """--speculative-config '{"method": "ngram", "num_speculative_tokens": 3}' """
        """--hf-overrides '{"rope_theta": 500000.0}' --kv-cache-memory-bytes 12884901888 """
        "--port 8000 --served-model-name 'a b' c\n"
    )


def test_a_solved_value_is_among_them() -> None:
    words = ["llama-3.1-8b", "--gpu", "h100", "--concurrency", "2"]
    asked = ["--for", "gpu-memory-utilization", "--emit", "serve", "--quiet"]
    done = kvplan("solve", *words, *asked)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "vllm serve meta-llama/Llama-3.1-8B --gpu-memory-utilization 0.66\n"


def test_nothing_is_emitted_that_would_not_start() -> None:
    done = kvplan("fit", "llama-3.1-8b", "--kv-mem", "1GiB", "--emit", "serve")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Does not fit")
    words = ["--kv-mem", "1GiB", "--max-model-len", "128k", "--for", "max-num-seqs"]
    done = kvplan("solve", "llama-3.1-8b", *words, "--emit", "yaml")
    assert (done.returncode, done.stdout) == (1, "")


def test_a_model_that_only_kvplan_knows() -> None:
    done = kvplan("fit", str(EXAMPLES / "new-architecture.yaml"), "--emit", "serve")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--emit" in done.stderr


def test_values_are_quoted() -> None:
    serving = Serving(model="a b", flags={"enforce_eager": False}, env={"X": "1 2"})
    assert emitted(serving, "serve") == "X='1 2' vllm serve 'a b' --no-enforce-eager\n"
    assert emitted(serving, "env") == "MODEL='a b'\nENFORCE_EAGER=0\nX='1 2'\n"
    assert emitted(serving, "yaml") == "# X=1 2\nmodel: a b\nenforce-eager: false\n"


@pytest.mark.parametrize("words", ["m --emit x", "m --emit serve --json", "m --emit yaml --get x"])
def test_wrong_use(words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_call(words.split())
    assert any("--emit" in problem.where for problem in caught.value.problems)
