"""What the loader's tests share: the problems that a call ends with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvplan_cli.errors import KvplanError, Problem


def problems(
    call: Callable[..., Any], *args: Any, error: type[KvplanError] | None = None, **kwargs: Any
) -> tuple[Problem, ...]:
    """The problems of the error that ``call`` raises; it must raise one."""
    with pytest.raises(error or KvplanError) as caught:
        call(*args, **kwargs)
    assert caught.value.problems
    return caught.value.problems


def problem(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Problem:
    """The same, where exactly one is expected."""
    found = problems(call, *args, **kwargs)
    assert len(found) == 1, [str(item) for item in found]
    return found[0]
