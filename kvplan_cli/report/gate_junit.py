"""A gate as JUnit XML, which CI systems show as tests."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from kvplan_cli.report.gate_document import DeploymentDocument, GateDocument
from kvplan_cli.report.gate_words import Naming, fault_text, missed, title, with_unit
from kvplan_cli.report.words import printable


def junit(document: GateDocument, naming: Naming) -> str:
    """JUnit XML as CI systems read it: a suite a deployment, a case an expectation.

    A missed expectation is a failure, what could not be planned an error.
    """
    not_planned = document.deployments_not_planned
    cases = sum(len(each.expectations) for each in document.deployments) + not_planned
    failures = sum(_failures(each) for each in document.deployments)
    root = ET.Element(
        "testsuites", {"name": "kvplan gate", **_counts(cases, failures, not_planned)}
    )
    for deployment in document.deployments:
        root.append(_suite(deployment, naming))
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _counts(tests: int, failures: int, errors: int) -> dict[str, str]:
    counts = {"tests": tests, "failures": failures, "errors": errors, "skipped": 0, "time": 0}
    return {name: str(count) for name, count in counts.items()}


def _failures(deployment: DeploymentDocument) -> int:
    return sum(not each.holds for each in deployment.expectations)


def _suite(deployment: DeploymentDocument, naming: Naming) -> ET.Element:
    name, planned = title(deployment), deployment.planned
    tests = len(deployment.expectations) or 1
    counts = _counts(tests, _failures(deployment), int(planned is None))
    suite = ET.Element("testsuite", {"name": name, **counts})
    if planned is not None:
        properties = ET.SubElement(suite, "properties")
        for key, value in (
            ("model", planned.model.name),
            ("engine_release", planned.engine_release),
            ("gpu", planned.gpu),
            ("decided_on", planned.decided_on),
        ):
            ET.SubElement(properties, "property", name=key, value=printable(value))
    for each in deployment.expectations:
        case = _case(suite, name, each.name, naming(each.path), each.line)
        if not each.holds:
            message = printable(missed(each))
            failure = ET.SubElement(case, "failure", message=message, type="expectation")
            failure.text = message
        else:
            ET.SubElement(case, "system-out").text = (
                f"required {with_unit(each.required, each.unit)}, "
                f"actual {with_unit(each.actual, each.unit)}"
            )
    if planned is None:
        fault = deployment.faults[0]
        case = _case(suite, name, "plan", naming(fault.path), fault.line)
        lines = [fault_text(each) for each in deployment.faults]
        error = ET.SubElement(case, "error", message=lines[0], type=deployment.state)
        error.text = "\n".join(lines)
    return suite


def _case(suite: ET.Element, classname: str, name: str, file: str, line: int | None) -> ET.Element:
    place = {"file": printable(file), "line": str(line or 1)}
    named = {"classname": classname, "name": name, "time": "0", **place}
    return ET.SubElement(suite, "testcase", named)
