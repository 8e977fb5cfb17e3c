"""What ``diff`` asks: two answers side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan_cli.results import FitRequest
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two. name: as the user gave it. request: what to plan; its model may name a
    saved answer instead. has_options: whether something was asked beside the model.
    has_own: whether of this side only.
    """

    name: str
    request: FitRequest
    has_options: bool = False
    has_own: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRequest:
    """One question. exit_code: whether a difference alone ends with 1."""

    a: Side
    b: Side
    exit_code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One side's answer. document: in the form that ``fit --json`` prints. saved: read, not
    planned.
    """

    name: str
    saved: bool
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffResult:
    """Both answers."""

    a: Compared
    b: Compared
    exit_code: bool
