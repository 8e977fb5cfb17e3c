"""What the engine's own argument parser takes: ``python -m tests.conformance.engine.serve_flags``.

Prints JSON: the release, each option of ``vllm serve`` with its other spellings, how many words
it takes and its default where that is a plain value, and the environment variables it reads.
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import importlib.metadata
import json
import sys
import tempfile
from typing import Any

from tests.conformance.engine import machine
from tests.conformance.engine.card import Card

CARD = Card("NVIDIA H100 80GB HBM3", (9, 0), 85520809984)
WORDS = {None: "one", "+": "some", "?": "perhaps"}


def main() -> None:
    """Ask the parser, and print what it says."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(sys.stderr):
        machine.pose(CARD, scratch)
        from vllm import envs
        from vllm.entrypoints.common.cli_args import make_arg_parser
        from vllm.utils.argparse_utils import FlexibleArgumentParser

        parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
        flags = dict(_flag(parser, action) for action in parser._actions if action.option_strings)
    flags.pop("help")
    document = {
        "release": importlib.metadata.version("vllm"),
        "flags": flags,
        "environment": [name for name in envs.environment_variables if name.startswith("VLLM_")],
    }
    print(json.dumps(document))


def _flag(parser: Any, action: argparse.Action) -> tuple[str, dict[str, Any]]:
    spellings = [s for s, other in parser._option_string_actions.items() if other is action]
    long = next(spelling for spelling in spellings if spelling.startswith("--"))
    described: dict[str, Any] = {"takes": _takes(action)}
    short = [spelling for spelling in spellings if not spelling.startswith("--")]
    if short:
        described["short"] = short
    default = _plain(action.default)
    if default is not None:
        described["default"] = default
    return long.removeprefix("--"), described


def _takes(action: argparse.Action) -> str:
    """switch and set take no word; a switch has spellings that turn it off."""
    if action.nargs == 0:
        return "switch" if isinstance(action, argparse.BooleanOptionalAction) else "set"
    return WORDS[action.nargs]  # type: ignore[index]


def _plain(default: Any) -> str | int | float | bool | None:
    value = default.value if isinstance(default, enum.Enum) else default
    if value == argparse.SUPPRESS or not isinstance(value, str | int | float):
        return None
    return value


if __name__ == "__main__":
    main()
