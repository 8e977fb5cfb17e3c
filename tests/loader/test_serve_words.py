"""Words behind ``vllm serve``, read as the engine's parser reads them."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from kvplan_cli.errors import Problem
from kvplan_cli.loader.problems import Problems
from kvplan_cli.loader.serve_words import ServeWords, read_serve_words


def read(text: str) -> ServeWords:
    problems = Problems()
    found = read_serve_words(shlex.split(text), "serve command", problems)
    problems.finish()
    return found


def faults(text: str) -> list[Problem]:
    problems = Problems()
    read_serve_words(shlex.split(text), "serve command", problems)
    return problems.found


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("-tp 4", {"tensor-parallel-size": "4"}),
        ("-tp=4 -dcp 2", {"tensor-parallel-size": "4", "decode-context-parallel-size": "2"}),
        ("--tensor_parallel_size=4", {"tensor-parallel-size": "4"}),
        ("--tensor-parallel-s 4", {"tensor-parallel-size": "4"}),
        ("-tp 4 -tp 8", {"tensor-parallel-size": "8"}),
        ("--max-model-len -1", {"max-model-len": "-1"}),
        ("--enforce-eager", {"enforce-eager": True}),
        ("--enforce-eager --no-enforce-eager", {"enforce-eager": False}),
        ("--disable-prefix-caching", {"enable-prefix-caching": False}),
        ("--headless", {"headless": True}),
        ("--served-model-name a b", {"served-model-name": ["a", "b"]}),
        ("--served-model-name=a", {"served-model-name": ["a"]}),
        ("--hf-token --port 1", {"hf-token": True, "port": "1"}),
        ("-O3", {"optimization-level": "3"}),
        ("-O=3", {"optimization-level": "3"}),
        ("-O 3", {"optimization-level": "3"}),
        ("-cc.mode 3", {"compilation-config": {"mode": 3}}),
        (
            "--speculative-config.method ngram --speculative_config.num_speculative_tokens=4",
            {"speculative-config": {"method": "ngram", "num_speculative_tokens": 4}},
        ),
        ("--hf-overrides.a.b 1k", {"hf-overrides": {"a": {"b": 1000}}}),
        ("--hf-overrides.a+ x,y --hf-overrides.a+=z", {"hf-overrides": {"a": ["x", "y", "z"]}}),
        # The engine's parser puts dotted keys last, so that they replace the object.
        ("""--hf-overrides.a 1 --hf-overrides '{"b": 2}'""", {"hf-overrides": {"a": 1}}),
        ("""-sc '{"method": "mtp"}'""", {"speculative-config": '{"method": "mtp"}'}),
    ],
)
def test_values(text: str, values: dict[str, Any]) -> None:
    assert read(text).values == values
    found = read(f"org/model {text}")
    assert found.values == values
    assert found.models == ["org/model"]


def test_a_model_stands_anywhere_but_in_a_list() -> None:
    assert read("--port 1 org/model --enforce-eager").models == ["org/model"]
    assert read("--api-key k org/model").models == []
    assert read("--enforce-eager -- org/model").models == ["org/model"]


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("--max-modle-len 5", "--max-modle-len", "did you mean --max-model-len?"),
        ("--data-parallel-s 5", "--data-parallel-s", "--data-parallel-size"),
        ("--port", "--port", "--port VALUE"),
        ("--port --headless", "--port", "--port VALUE"),
        ("--enforce-eager=true", "--enforce-eager", "takes no value"),
        ("--speculative-config.method", "--speculative-config.method", "needs a value"),
        ("--no-headless", "--no-headless", "no such option"),
        ("--zz.such 1", "--zz", "no such option"),
    ],
)
def test_faults(text: str, where: str, said: str) -> None:
    (fault,) = faults(text)
    assert fault.where == f"serve command: {where}"
    assert said in f"{fault.reason} {fault.way_out}"


def test_all_faults_are_told() -> None:
    assert len(faults("m --zzz 3 --port --yyy --enforce-eager=1")) == 4


def test_the_value_of_an_unknown_option_is_no_model() -> None:
    problems = Problems()
    assert read_serve_words(["--zzz", "3", "org/model"], "x", problems).models == ["org/model"]
