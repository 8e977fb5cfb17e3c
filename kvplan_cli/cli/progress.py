"""A bar on stderr, where that is a terminal and the work takes long enough to read it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

# Fewer points are done before a bar could be read.
_FROM: Final = 200


@contextmanager
def bar(*, quiet: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """What is told how many points are done, and of how many; None where nothing is shown."""
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    with ExitStack() as stack:
        shown: list[tuple[Any, Any]] = []

        def tell(done: int, total: int) -> None:
            if total < _FROM:
                return
            if not shown:
                shown.append(_started(stack, total))
            progress, task = shown[0]
            progress.update(task, completed=done)

        yield tell


def _started(stack: ExitStack, total: int) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    progress = Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    stack.enter_context(progress)
    return progress, progress.add_task("", total=total)
