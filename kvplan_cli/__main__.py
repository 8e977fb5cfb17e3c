"""Every ending of the program and its exit code."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import Final

_INTERRUPTED: Final = 130
# Objects between two searches for cycles. Modules make tens of thousands that all stay; a short
# process need not look through them again and again.
_COLLECTION_THRESHOLD: Final = 50_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the process's exit code."""
    gc.set_threshold(_COLLECTION_THRESHOLD)
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(words)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:
        from kvplan_cli.cli.endings import tell

        return tell(error, words)


def _run(words: list[str]) -> int:
    # A shell that completes a line says so in the environment, as click's programs have it.
    asked = os.environ.get("_KVPLAN_COMPLETE")
    if asked:
        from kvplan_cli.cli.completion import run

        return run(asked, os.environ)
    from kvplan_cli.cli.app import app

    # The parser would drop the dashes that part a serve command from the rest.
    end = words.index("--") if "--" in words else len(words)
    behind_dashes = words[end + 1 :] if end < len(words) else None
    ending = app(args=words[:end], obj=behind_dashes, prog_name="kvplan", standalone_mode=False)
    return ending if isinstance(ending, int) else 0


if __name__ == "__main__":
    sys.exit(main())
