"""``kvplan verify`` as text and as JSON: goldens, the contract, and uncut figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest

from kvplan_cli.report.grid import Page
from kvplan_cli.report.json_form import dumps, plain
from kvplan_cli.report.paths import get_path
from kvplan_cli.report.schema import json_schema
from kvplan_cli.report.verify_document import VerifyDocument, verify_document
from kvplan_cli.report.verify_table import render_verify
from kvplan_cli.results import Notice, NoticeKind, Origin
from kvplan_cli.results_verify import Agreement, Comparison, Unit, VerifyResult
from kvplan_cli.units import GIB

FOLDER = Path(__file__).parent / "golden_verify"


def _size(figure: str, printed: str, low: float, high: float, agreement: Agreement) -> Comparison:
    value = float(printed)
    return Comparison(
        figure=figure,
        of="Worker_TP0",
        unit=Unit.BYTES,
        printed=printed,
        printed_low=int((value - 0.005) * GIB),
        printed_high=int((value + 0.005) * GIB),
        line=11,
        predicted_low=int(low * GIB),
        predicted_likely=int((low + high) / 2 * GIB),
        predicted_high=int(high * GIB),
        agreement=agreement,
        reason="another rank" if agreement is Agreement.OFF else None,
    )


def _count(
    figure: str, unit: Unit, printed: str, low: int, high: int, **more: object
) -> Comparison:
    value = int(printed.replace(",", "").replace(".", ""))
    agreement = Agreement.EQUAL if low == high == value else Agreement.WITHIN_ROUNDING
    return Comparison(
        figure=figure,
        of="",
        unit=unit,
        printed=printed,
        printed_low=value,
        printed_high=value,
        line=12,
        predicted_low=low,
        predicted_likely=(low + high) // 2,
        predicted_high=high,
        agreement=agreement,
        **more,  # type: ignore[arg-type]
    )


def _result(*comparisons: Comparison) -> VerifyResult:
    return VerifyResult(
        log="serve.log",
        log_release="0.31.0",
        rules_release="0.31.0",
        model="llama-3.1-8b",
        model_origin="catalogue",
        architecture="LlamaForCausalLM",
        origins=(Origin(key="max_model_len", value=131072, source="serve.log:6"),),
        comparisons=comparisons,
        notices=(Notice(kind=NoticeKind.NOTE, code="x", message="A note."),),
    )


_TOKENS = _count("tokens", Unit.TOKENS, "460,496", 460_432, 460_512)
_REQUESTS = _count("concurrency", Unit.HUNDREDTH_REQUESTS, "3.51", 351, 351)
_UNKNOWN = Comparison(
    figure="needed",
    of="",
    unit=Unit.BYTES,
    printed="16.0",
    printed_low=15 * GIB,
    printed_high=17 * GIB,
    line=14,
    predicted_low=None,
    predicted_likely=None,
    predicted_high=None,
    agreement=Agreement.NOT_PREDICTED,
    reason="the log does not tell the memory for the cache",
)
CASES = {
    "agrees": _result(
        _size("weights", "7.1217", 7.10, 7.14, Agreement.IN_RANGE),
        _size("available", "56.21", 55.2, 57.4, Agreement.IN_RANGE),
        _TOKENS,
        _REQUESTS,
    ),
    "off": _result(
        _size("available", "56.21", 40.2, 41.4, Agreement.OFF),
        _size("available", "56.31", 40.2, 41.4, Agreement.OFF),
        _TOKENS,
        _UNKNOWN,
    ),
    "nothing": _result(_UNKNOWN),
}


def document(case: str) -> VerifyDocument:
    return verify_document(CASES[case])._replace(kvplan_version="0.0.0")


def outputs(case: str) -> Mapping[str, str]:
    made = document(case)
    return {
        "80.txt": render_verify(made, Page(width=80)),
        "120.txt": render_verify(made, Page(width=120)),
        "verify.json": f"{dumps(made)}\n",
    }


@pytest.mark.parametrize("case", CASES)
def test_output_is_the_golden_one(case: str) -> None:
    for name, text in outputs(case).items():
        assert text == (FOLDER / case / name).read_text(encoding="utf-8"), f"{case}/{name}"


@pytest.mark.parametrize("case", CASES)
def test_documents_follow_the_contract(case: str) -> None:
    jsonschema.validate(plain(document(case)), json_schema(VerifyDocument))


def test_hundredths_become_figures() -> None:
    requests = document("agrees").comparisons[-1]
    assert requests.predicted is not None
    assert (requests.unit, requests.predicted.likely) == ("requests", 3.51)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_no_figure_is_cut(case: str, width: int) -> None:
    text = render_verify(document(case), Page(width=width))
    for each in CASES[case].comparisons:
        assert each.printed in text


def test_paths_reach_into_the_document() -> None:
    assert get_path(document("agrees"), "comparisons.2.predicted.low") == 460_432
    assert get_path(document("nothing"), "comparisons.0.predicted.low") is None


def test_the_exit_code_follows() -> None:
    assert {case: int(made.exit_code) for case, made in CASES.items()} == {
        "agrees": 0,
        "off": 1,
        "nothing": 1,
    }


if __name__ == "__main__":
    for name in CASES:
        (FOLDER / name).mkdir(parents=True, exist_ok=True)
        for file, text in outputs(name).items():
            (FOLDER / name / file).write_text(text, encoding="utf-8")
