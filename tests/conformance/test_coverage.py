"""What ``kvplan models`` claims is what the vectors show."""

from __future__ import annotations

from kvplan_cli.errors import UnplannableError
from tests.conformance.coverage import TARGET, architecture_of, model_cases, text
from tests.conformance.run import run_case


def test_the_list_is_what_vectors_and_registry_give() -> None:
    assert TARGET.read_text(encoding="utf-8") == text()


def test_no_model_case_is_planned_wrongly() -> None:
    """A case agrees in every figure, or kvplan says that it can't plan it; nothing between."""
    wrong = []
    for case in model_cases():
        lines = run_case(case)
        honest = len(lines) == 1 and lines[0].startswith(f"{UnplannableError.__name__}: ")
        if lines and not honest:
            wrong += [f"{architecture_of(case)} {case['name']}: {line}" for line in lines[:3]]
    assert wrong == []
