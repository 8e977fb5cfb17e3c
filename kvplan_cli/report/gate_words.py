"""A gate's figures, names and sentences, as all of its formats say them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from kvplan_cli.report.gate_document import (
    DeploymentDocument,
    ExpectationDocument,
    FaultDocument,
    Figure,
    GateDocument,
)
from kvplan_cli.report.words import UNKNOWN, plural, printable
from kvplan_cli.units import GIB

# How a file is named from the root of the repository.
Naming = Callable[[str], str]

UNPLANNED: Final = {
    "wrong_input": "the input is wrong",
    "engine_refuses": "vLLM refuses",
    "cannot_plan": "it can't be planned",
    "defect": "a defect in kvplan",
}
_UNITS: Final = {"bytes": "GiB"}
# Units whose figures are not whole: two decimals, never more than there is.
_DECIMALS: Final = {"requests": 1, "bytes": GIB, "fraction": 1}


def title(deployment: DeploymentDocument) -> str:
    """``deploy/chat.yaml: small (prod)``."""
    name = "" if deployment.deployment is None else f": {deployment.deployment}"
    environment = "" if deployment.environment is None else f" ({deployment.environment})"
    return printable(f"{deployment.path}{name}{environment}")


def label(expectation: ExpectationDocument) -> str:
    """Its name, and the unit where that is not plain, for a table."""
    unit = "blocks" if expectation.name == "requests" else _UNITS.get(expectation.unit)
    return expectation.name if unit is None else f"{expectation.name}, {unit}"


def figure(value: Figure, unit: str) -> str:
    """A figure for a table; nothing is rounded up."""
    if value is None:
        return UNKNOWN
    if unit == "answer":
        return "yes" if value else "no"
    if unit not in _DECIMALS:
        return f"{value:,}"
    return f"{floored(value / _DECIMALS[unit]):,.2f}"


def with_unit(value: Figure, unit: str) -> str:
    """A figure for a sentence."""
    return f"{figure(value, unit)} {_UNITS[unit]}" if unit in _UNITS else figure(value, unit)


def floored(value: float) -> float:
    """To two decimals, downwards: an actual figure just below the required one looks so.

    Figures that people wrote with two decimals stay what they are.
    """
    return round(value, 2) if abs(value - round(value, 2)) < 1e-9 else math.floor(value * 100) / 100


def margin(expectation: ExpectationDocument) -> str:
    """What is to spare or missing, signed."""
    value = expectation.margin
    if value is None:
        return ""
    sign = "-" if value < 0 else "+"
    if expectation.unit not in _DECIMALS:
        return f"{sign}{abs(value):,}"
    shown = floored(value / _DECIMALS[expectation.unit])
    return f"{sign}{abs(shown):,.2f}"


def percent(expectation: ExpectationDocument) -> str:
    """The margin as a part of what is required."""
    ratio = expectation.margin_ratio
    if ratio is None:
        return ""
    shown = abs(math.floor(ratio * 1000 + 1e-6) / 10)
    sign = "-" if ratio < 0 else "+"
    return f"{sign}{shown:,.0f} %" if shown >= 100 else f"{sign}{shown:.1f} %"


def verdict(expectation: ExpectationDocument) -> str:
    """``holds``, ``fails``, or at which better end of the memory it would hold."""
    if expectation.holds:
        return "holds"
    better = [end for end in ("likely", "high") if end in expectation.holds_on]
    return f"fails (holds on {better[0]})" if better else "fails"


def missed(expectation: ExpectationDocument) -> str:
    """Why it fails, as a sentence without its end."""
    if expectation.name == "fits":
        return f"does not fit: {expectation.remark}" if expectation.remark else "does not fit"
    unit = expectation.unit
    word = "at most" if expectation.comparison == "at_most" else "at least"
    need = f"{word} {with_unit(expectation.required, unit)}"
    text = f"{expectation.name}: {with_unit(expectation.actual, unit)}, expected {need}"
    if expectation.required is None:
        text = f"{expectation.name}: no plan for {expectation.remark}"
    elif expectation.actual is None:
        text = f"{expectation.name}: no figure without a plan, expected {need}"
    elif expectation.remark is not None:
        text += f" ({expectation.remark})"
    better = [end for end in ("likely", "high") if end in expectation.holds_on]
    if better:
        text += f"; it holds on the {better[0]} end of the memory estimate"
    return text


def fault_text(fault: FaultDocument) -> str:
    """One fault in one line."""
    way_out = f" ({fault.way_out})" if fault.way_out else ""
    return printable(" ".join(f"{fault.where}: {fault.reason}{way_out}".split("\n")))


def answer(document: GateDocument) -> str:
    """The last sentence: how many hold, and which do not."""
    total = len(document.deployments)
    fail, broken = document.deployments_fail, document.deployments_not_planned
    if not fail and not broken:
        if total == 1:
            return "Passed: the deployment holds what its file expects."
        return f"Passed: all {total:,} deployments hold what their files expect."
    failing = [each for each in document.deployments if each.state == "fails"]
    if total == fail == 1:
        first = next(each for each in failing[0].expectations if not each.holds)
        return f"Failed: {title(failing[0])}: {printable(missed(first))}."
    parts = []
    if fail:
        misses = "misses an expectation" if fail == 1 else "miss an expectation"
        parts.append(f"{fail:,} of {plural(total, 'deployment')} {misses}: {_some(failing)}")
    if broken:
        unplanned = [each for each in document.deployments if each.planned is None]
        are = "is" if broken == 1 else "are"
        parts.append(f"{broken:,} {are} not planned: {_some(unplanned)}")
    return f"Failed: {'; '.join(parts)}."


def _some(deployments: Sequence[DeploymentDocument], most: int = 3) -> str:
    shown = [_with_missed(each) for each in deployments[:most]]
    more = len(deployments) - most
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def _with_missed(deployment: DeploymentDocument) -> str:
    names = [each.name for each in deployment.expectations if not each.holds]
    return f"{title(deployment)} [{', '.join(names)}]" if names else title(deployment)
