"""The use cases, in sequence; the command line and the Python API make the same calls."""

from __future__ import annotations

from kvplan_cli.results import FitRequest, FitResult


def fit(request: FitRequest) -> FitResult:
    """Plan one model on one memory.

    Raises: InputError, UnplannableError, EngineRefusalError (kvplan_cli.errors).
    """
    raise NotImplementedError
