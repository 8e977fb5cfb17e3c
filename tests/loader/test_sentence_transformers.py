"""Modules of sentence-transformers folders, as far as a plan feels them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan_cli.errors import InputError
from kvplan_cli.loader.folder import read_folder

POOLING = "sentence_transformers.models.Pooling"


def folder(path: Path, modules: Any, **files: Any) -> Path:
    config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (path / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    for name, value in files.items():
        (path / name).mkdir()
        (path / name / "config.json").write_text(json.dumps(value), encoding="utf-8")
    return path


def test_a_pooling_modules_config_comes_along(tmp_path: Path) -> None:
    modules = [
        {"type": "sentence_transformers.models.Transformer", "path": ""},
        {"type": POOLING, "path": "pool"},
        {"type": "sentence_transformers.models.Normalize", "path": "norm"},
    ]
    source = read_folder(folder(tmp_path, modules, pool={"pooling_mode_lasttoken": True}, norm={}))
    assert source.extra_files == {
        "modules.json": modules,
        "pool/config.json": {"pooling_mode_lasttoken": True},
    }


@pytest.mark.parametrize("modules", [{}, ["Pooling"], [{"type": POOLING, "path": "absent"}]])
def test_what_is_not_there_is_not_read(tmp_path: Path, modules: Any) -> None:
    assert read_folder(folder(tmp_path, modules)).extra_files == {"modules.json": modules}


@pytest.mark.parametrize("inside", ["../other", "/etc", "a/../../b", "..\\x"])
def test_a_module_stays_in_the_folder(tmp_path: Path, inside: str) -> None:
    with pytest.raises(InputError, match="leads out of the folder"):
        read_folder(folder(tmp_path, [{"type": POOLING, "path": inside}]))
