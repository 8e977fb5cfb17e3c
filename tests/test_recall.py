"""Steps are found again exactly when everything they read is the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan_cli.errors import KvplanError
from kvplan_cli.recall import Recall, call
from kvplan_cli.results import FitRequest
from kvplan_cli.service.fit import answer_for
from kvplan_cli.service.inputs import Inputs, read_inputs
from kvplan_cli.service.recalling import recalling
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    a: int = 1
    b: int = 2
    c: Mapping[str, int] | None = None

    @property
    def doubled(self) -> int:
        return self.a * 2


def counting() -> tuple[list[Flags], Any]:
    calls: list[Flags] = []

    def step(flags: Flags) -> int:
        calls.append(flags)
        return flags.doubled if flags.a < 5 else flags.a + flags.b

    return calls, step


def test_what_a_step_did_not_read_does_not_matter() -> None:
    recall = Recall(Flags)
    calls, step = counting()
    assert [recall(step, Flags(a=1, b=b)) for b in range(5)] == [2] * 5
    assert len(calls) == 1


def test_what_it_read_does_and_a_property_reads_fields() -> None:
    recall = Recall(Flags)
    calls, step = counting()
    assert [recall(step, Flags(a=a)) for a in (1, 2, 1, 2)] == [2, 4, 2, 4]
    assert len(calls) == 2


def test_another_way_through_the_step_reads_other_fields() -> None:
    recall = Recall(Flags)
    calls, step = counting()
    flags = [Flags(a=a, b=b) for a in (1, 7) for b in (2, 3)] * 2
    assert [recall(step, each) for each in flags] == [call(step, each) for each in flags]
    assert len(calls) == 3 + len(flags)


def test_other_arguments_are_the_same_only_as_one_object() -> None:
    recall = Recall(Flags)
    seen: list[dict[str, int]] = []
    first, equal = {"x": 1}, {"x": 1}
    for each in (first, first, equal):
        recall(seen.append, each)
    assert [id(each) for each in seen] == [id(first), id(equal)]


def test_scalars_are_told_apart_by_type() -> None:
    recall = Recall()
    assert [recall(repr, value) for value in (1, True, 1.0, 1)] == ["1", "True", "1.0", "1"]


def test_a_step_may_copy_compare_and_look_at_the_class() -> None:
    recall = Recall(Flags)

    def step(flags: Flags) -> tuple[Flags, bool, bool, int]:
        copy = replace(flags, b=9)
        return (
            copy,
            isinstance(flags, Flags),
            flags == Flags(c=flags.c),
            hash(replace(copy, c=None)),
        )

    given_c = {"x": 1}
    copy, is_flags, equal, _ = recall(step, Flags(c=given_c))
    assert type(copy) is Flags
    assert (copy, is_flags, equal) == (Flags(b=9, c=given_c), True, True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    flags: Flags | None
    name: str = ""


def test_fields_are_watched_through_each_other() -> None:
    recall = Recall(Flags, Question)
    calls: list[str] = []

    def step(question: Question) -> int:
        calls.append(question.name)
        return 0 if question.flags is None else question.flags.doubled

    asked = [Question(flags=flags, name="x") for flags in (Flags(a=1, b=1), Flags(a=1, b=2), None)]
    assert [recall(step, each) for each in asked * 2] == [2, 2, 0] * 2
    assert len(calls) == 2


def test_an_inner_object_may_be_copied_and_compared() -> None:
    recall = Recall(Flags, Question)
    calls: list[object] = []

    def step(question: Question) -> tuple[Question, bool]:
        calls.append(question)
        return replace(question, flags=None), question.flags == Flags()

    asked = [Question(flags=Flags(b=b)) for b in (2, 3, 2)]
    answers = [recall(step, each) for each in asked]
    assert [equal for _, equal in answers] == [True, False, True]
    assert {type(copy) for copy, _ in answers} == {Question}
    assert len(calls) == 2


def test_a_refusal_is_asked_again() -> None:
    recall = Recall(Flags)
    calls: list[int] = []

    def step(flags: Flags) -> None:
        calls.append(flags.a)
        raise ValueError

    for _ in range(2):
        with pytest.raises(ValueError, match=r"^$"):
            recall(step, Flags())
    assert calls == [1, 1]


# Models of several kinds; one memory for each way that it is found.
MODELS = {
    name: read_inputs(FitRequest(model=name, gpu="h100"))
    for name in ("llama-3.1-8b", "gemma-3-4b", "llama-4-scout", "gpt-oss-20b")
}
RECALLS = {name: recalling() for name in MODELS}
FLAGS = st.fixed_dictionaries(
    {},
    optional={
        "tensor_parallel_size": st.sampled_from([1, 2, 3, 4, 8]),
        "pipeline_parallel_size": st.sampled_from([1, 2]),
        "decode_context_parallel_size": st.sampled_from([1, 2]),
        "max_model_len": st.sampled_from([-1, 512, 8192, 131072]),
        "max_num_batched_tokens": st.sampled_from([256, 8192]),
        "max_num_seqs": st.sampled_from([8, 1024]),
        "gpu_memory_utilization": st.sampled_from([0.5, 0.9]),
        "kv_cache_dtype": st.sampled_from(["auto", "fp8"]),
        "block_size": st.sampled_from([16, 64]),
        "enable_prefix_caching": st.booleans(),
        "async_scheduling": st.booleans(),
        "disable_hybrid_kv_cache_manager": st.booleans(),
        "disable_sliding_window": st.booleans(),
        "enforce_eager": st.booleans(),
        "kv_cache_memory_bytes": st.just(8 << 30),
    },
)


def outcome(inputs: Inputs, recall: Any) -> Any:
    try:
        return answer_for(inputs, recall)
    except KvplanError as error:
        return type(error), error.problems


@settings(max_examples=150)
@given(st.sampled_from(list(MODELS)), FLAGS)
def test_answers_are_those_of_steps_taken_anew(name: str, flags: dict[str, Any]) -> None:
    inputs = MODELS[name].with_args(**flags)
    assert outcome(inputs, RECALLS[name]) == outcome(inputs, call)
