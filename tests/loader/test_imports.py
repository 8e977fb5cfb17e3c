"""A local config pays for no heavy library."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.loader.builders import CONFIG, write_json

_HEAVY = ("transformers", "huggingface_hub", "yaml", "pydantic", "numpy", "safetensors")
_LOAD = """
import json, sys
from kvplan_cli.loader.load import load
load(sys.argv[1])
print(json.dumps(sorted(name for name in sys.argv[2:] if name in sys.modules)))
"""


def _imported(model: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _LOAD, model, *_HEAVY],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    names: list[str] = json.loads(done.stdout)
    return names


def test_a_local_config_imports_nothing_heavy(tmp_path: Path) -> None:
    assert _imported(str(write_json(tmp_path / "config.json", CONFIG))) == []


def test_a_bundled_model_imports_nothing_heavy() -> None:
    assert _imported("llama-3.3-70b") == []


def test_a_yaml_plan_imports_yaml_alone(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("model: qwen3-8b")
    assert _imported(str(path)) == ["yaml"]
