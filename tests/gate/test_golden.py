"""What a gate shows, compared whole; no figure is cut; every format keeps its structure."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from kvplan_cli.report.gate_annotations import github, gitlab
from kvplan_cli.report.gate_document import (
    DeploymentDocument,
    ExpectationDocument,
    FaultDocument,
    GateDocument,
)
from kvplan_cli.report.gate_junit import junit
from kvplan_cli.report.gate_markdown import markdown
from kvplan_cli.report.gate_text import render_gate
from kvplan_cli.report.gate_words import figure
from kvplan_cli.report.grid import Page
from kvplan_cli.report.json_form import dumps
from kvplan_cli.report.schema import json_schema
from tests.gate.golden import CASES, FOLDER, gated, outputs

Validator = pytest.importorskip("jsonschema").Draft202012Validator
WIDTHS = (20, 40, 60, 80, 120)
HOSTILE = "a\x07|b<c>&\"'%\r\n::error::,x:y*z_\ufffe\ud800é"


@pytest.mark.parametrize("case", CASES)
def test_output_is_the_golden_one(case: str) -> None:
    for name, text in outputs(case).items():
        assert text == (FOLDER / case / name).read_text(encoding="utf-8"), f"{case}/{name}"


def test_no_golden_without_a_case() -> None:
    assert {folder.name for folder in FOLDER.iterdir()} == set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_document_keeps_to_its_schema(case: str) -> None:
    Validator(json_schema(GateDocument)).validate(json.loads(dumps(gated(CASES[case]))))


def test_every_key_has_a_text() -> None:
    schema = json_schema(GateDocument)
    Validator.check_schema(schema)
    parts: list[dict[str, Any]] = [schema, *schema["$defs"].values()]
    assert all(key["description"] for part in parts for key in part["properties"].values())


@pytest.mark.parametrize("width", WIDTHS)
def test_no_figure_is_cut(width: int) -> None:
    document = gated(CASES["all"])
    words = render_gate(document, Page(width=width)).split()
    for deployment in document.deployments:
        for each in deployment.expectations:
            assert figure(each.actual, each.unit) in words


@pytest.mark.parametrize("case", CASES)
def test_lines_keep_to_the_width(case: str) -> None:
    for name in ("80.txt", "120.txt"):
        text = (FOLDER / case / name).read_text(encoding="utf-8")
        assert max(map(len, text.splitlines())) <= int(name.removesuffix(".txt"))


def hostile() -> GateDocument:
    """A document in which every text is what a format could take for its own."""
    expectation = ExpectationDocument(
        name="min-concurrency",
        unit="requests",
        comparison="at_least",
        required=8.0,
        actual=7.999,
        margin=-0.001,
        margin_ratio=-0.000125,
        holds=False,
        holds_on=("high",),
        path=HOSTILE,
        line=None,
        remark=HOSTILE,
    )
    fault = FaultDocument(where=HOSTILE, reason=HOSTILE, way_out=HOSTILE, path=HOSTILE, line=3)
    first, *_ = gated("chat.yaml --environment dev").deployments
    held = first._replace(path=HOSTILE, environment=HOSTILE, expectations=(expectation,))
    broken = DeploymentDocument(
        path=HOSTILE,
        deployment=HOSTILE,
        environment=None,
        state="defect",
        exit_code=70,
        planned=None,
        expectations=(),
        faults=(fault, fault),
        notices=(),
    )
    document = gated("chat.yaml --environment dev")
    return document._replace(
        deployments=(held, broken), deployments_fail=1, deployments_not_planned=1, exit_code=70
    )


@pytest.mark.parametrize("document", [gated(CASES["all"]), hostile()], ids=["all", "hostile"])
def test_junit_is_what_ci_systems_read(document: GateDocument) -> None:
    root = ET.fromstring(junit(document, str).encode())
    assert root.tag == "testsuites"
    suites = list(root)
    assert [suite.tag for suite in suites] == ["testsuite"] * len(document.deployments)
    for suite, deployment in zip(suites, document.deployments, strict=True):
        assert suite.get("name")
        cases = suite.findall("testcase")
        counted = {"tests": len(cases), "failures": 0, "errors": 0, "skipped": 0}
        for case in cases:
            assert all(case.get(key) for key in ("classname", "name", "file", "line", "time"))
            outcome = [part for part in case if part.tag in ("failure", "error")]
            assert len(outcome) <= 1
            for part in outcome:
                assert part.get("message")
                assert part.get("type")
                assert part.text
                counted["failures" if part.tag == "failure" else "errors"] += 1
        assert {key: suite.get(key) for key in counted} == {k: str(v) for k, v in counted.items()}
        failed = [case.get("name") for case in cases if case.find("failure") is not None]
        assert failed == [each.name for each in deployment.expectations if not each.holds]
        assert (suite.get("errors") == "1") == (deployment.planned is None)
    for key in ("tests", "failures", "errors"):
        assert int(root.get(key, "")) == sum(int(suite.get(key, "")) for suite in suites)


def _decoded(text: str) -> str:
    for code, sign in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(code, sign)
    return text


@pytest.mark.parametrize("document", [gated(CASES["all"]), hostile()], ids=["all", "hostile"])
def test_github_reads_one_command_a_line(document: GateDocument) -> None:
    lines = github(document, str).split("\n")
    assert lines.pop() == ""
    failing = [each for d in document.deployments for each in d.expectations if not each.holds]
    faults = [fault for d in document.deployments for fault in d.faults]
    assert len(lines) == len(failing) + len(faults)
    for line in lines:
        matched = re.fullmatch(r"::error file=([^,:]*),line=(\d+),title=([^,:]*)::(.*)", line)
        assert matched is not None, line
        assert "\r" not in line
    files = {_decoded(line[len("::error file=") :].partition(",")[0]) for line in lines}
    assert files == {each.path for each in failing} | {fault.path for fault in faults}


@pytest.mark.parametrize("document", [gated(CASES["all"]), hostile()], ids=["all", "hostile"])
def test_gitlab_reads_a_code_quality_report(document: GateDocument) -> None:
    report = json.loads(gitlab(document, str))
    for each in report:
        assert set(each) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert each["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert each["location"]["lines"]["begin"] >= 1
    assert json.loads(gitlab(gated(CASES["passing"]), str)) == []
    once = {each["fingerprint"] for each in json.loads(gitlab(gated(CASES["all"]), str))}
    assert len(once) == len(json.loads(gitlab(gated(CASES["all"]), str)))


def test_a_fingerprint_outlives_figures_and_lines() -> None:
    document = gated("chat.yaml --environment dev")
    (deployment,) = document.deployments
    moved = tuple(each._replace(line=99, remark="else") for each in deployment.expectations)
    later = document._replace(deployments=(deployment._replace(expectations=moved),))

    def prints(made: GateDocument) -> list[str]:
        return [each["fingerprint"] for each in json.loads(gitlab(made, str))]

    assert prints(document) == prints(later)


def test_markdown_keeps_its_columns() -> None:
    lines = markdown(hostile()).split("\n")
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 3
    for line in table:
        assert len(re.findall(r"(?<!\\)\|", line)) == 7
    assert "<c>" not in markdown(hostile()).replace("\\<c>", "")


def test_a_comment_stays_short_enough_and_shows_what_fails() -> None:
    document = gated(CASES["all"])
    many = document._replace(deployments=document.deployments * 300)
    text = markdown(many)
    assert len(text) < 65_536
    rows = [line for line in text.split("\n") if line.startswith("| ")][1:]
    assert len(rows) == 200
    assert all("**fails" in row for row in rows)
    assert "more rows are left out" in text
    assert "more are not planned" in text


def test_a_figure_just_below_never_looks_like_the_required_one() -> None:
    text = render_gate(hostile(), Page(width=120))
    assert "7.99" in text
    assert "-0.01" in text
    assert "fails (holds on high)" in text
