"""kvplan: what vLLM will plan for a model's KV cache, before any GPU is rented.

The commands are calls of the same names: ``kvplan_cli.fit("llama-3.1-8b", kv_mem="40GiB")``.
See ``kvplan_cli.library`` for what each takes and gives. Importing this costs nothing; the first
call imports what it needs.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvplan_cli.errors import (
        EngineRefusalError,
        InputError,
        KvplanError,
        MissingFieldError,
        UnplannableError,
    )
    from kvplan_cli.library import diff, explain, fit, gate, request, solve, sweep, verify

__version__ = "0.1.0"

__all__ = [
    "EngineRefusalError",
    "InputError",
    "KvplanError",
    "MissingFieldError",
    "UnplannableError",
    "__version__",
    "diff",
    "explain",
    "fit",
    "gate",
    "request",
    "solve",
    "sweep",
    "verify",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = "kvplan_cli.errors" if name.endswith("Error") else "kvplan_cli.library"
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__
