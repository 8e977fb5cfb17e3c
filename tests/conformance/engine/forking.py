"""A function in a child process: what it changes, and what it may crash, stays there."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable
from typing import Any


def forked(function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """('ok', result), or ('error', its words, its traceback)."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            data = pickle.dumps(("ok", function(*args)))
        except BaseException as error:
            words = f"{type(error).__name__}: {error}"
            data = pickle.dumps(("error", words, traceback.format_exc()))
        with os.fdopen(write, "wb") as stream:
            stream.write(data)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        data = stream.read()
    os.waitpid(child, 0)
    if not data:
        return ("error", "the process died", "")
    result: tuple[Any, ...] = pickle.loads(data)
    return result
