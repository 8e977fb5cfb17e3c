"""Plan files for the gate's tests. All memory is given, so that no estimate can move them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Final

BASE: Final = """
base-only: true
model: llama-3.1-8b
serve:
  max-model-len: 32768
kv-mem: 40GiB
expect:
  min-concurrency: 8
  max-gpus: 2
"""
CHAT: Final = """
extends: base.yaml
serve:
  tensor-parallel-size: 2
environments:
  prod:
    expect:
      min-kv-tokens: 600k
      min-longest-context: 100K
      min-kv-mem: 40GiB
  dev:
    kv-mem: 10GiB
    expect:
      min-concurrency: 6
      requests: {4096: 10, 32768: 2}
"""
MANY: Final = """
kv-mem: 20GiB
expect:
  min-concurrency: 2
deployments:
  small:
    model: qwen3-8b
  wide:
    model: gemma-3-27b
    expect:
      min-num-blocks: 10000
      min-kv-tokens: 131072
      requests: {131072: 1}
  long:
    model: llama-3.1-70b
    serve:
      max-model-len: 128k
"""
BROKEN: Final = "model: [\n"
FILES: Final[Mapping[str, str]] = {
    "base.yaml": BASE,
    "chat.yaml": CHAT,
    "many.yaml": MANY,
    "broken.yaml": BROKEN,
}


def write_files(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    """The files in a folder, which is returned."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
    return folder
