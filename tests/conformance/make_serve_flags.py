"""Writes the table of the engine's options and variables, as an installed engine has them.

    python tests/conformance/make_serve_flags.py --engine-python PATH [--out FILE]

PATH: an interpreter that has vLLM and what it imports, without a card. Exits 0 when the table
was as written already, 1 when it changed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "kvplan_cli" / "loader" / "engine_flags.json"


def main(arguments: Sequence[str]) -> int:
    """Ask, write, compare; the process's exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--engine-python", required=True, metavar="PATH")
    parser.add_argument("--out", type=Path, default=TABLE, metavar="FILE")
    options = parser.parse_args(arguments)
    command = [options.engine_python, "-m", "tests.conformance.engine.serve_flags"]
    answer = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    text = table_text(json.loads(answer.stdout))
    before = options.out.read_text(encoding="utf-8") if options.out.exists() else ""
    options.out.write_text(text, encoding="utf-8")
    return 0 if text == before else 1


def table_text(document: Mapping[str, Any]) -> str:
    """The table with a line for each option, so that a release's changes can be read."""
    flags = document["flags"]
    lines = [f"  {json.dumps(name)}: {json.dumps(flags[name])}" for name in sorted(flags)]
    head = (
        f'"origin": "vLLM {document["release"]}: vllm serve --help=all, vllm/envs.py",\n'
        f'"release": {json.dumps(document["release"])},\n'
    )
    names = ",\n".join(f"  {json.dumps(name)}" for name in sorted(document["environment"]))
    flags_text = '"flags": {\n' + ",\n".join(lines) + "\n},\n"
    return "{\n" + head + flags_text + '"environment": [\n' + names + "\n]\n}\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
