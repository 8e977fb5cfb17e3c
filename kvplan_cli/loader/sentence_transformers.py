"""Files that make a sentence-transformers model of a folder: its modules, and how one pools.

Source: vLLM 0.33.0 ``vllm/transformers_utils/config.py:get_pooling_config``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.documents import place, read_object, read_value
from kvplan_cli.loader.problems import shown

MODULES: Final = "modules.json"
_POOLING: Final = "Pooling"
_CONFIG: Final = "config.json"


def read_modules(fetch: Callable[[str], Path | None]) -> dict[str, Any]:
    """``modules.json`` and the config of its pooling modules, by name; empty without it.

    fetch: from a name in the model's folder to the file, or None. InputError for a module whose
    path leads out of the folder.
    """
    path = fetch(MODULES)
    if path is None:
        return {}
    modules = read_value(path)
    files: dict[str, Any] = {MODULES: modules}
    for module in modules if isinstance(modules, list) else ():
        name = _config_name(module, path)
        found = None if name is None else fetch(name)
        if name is not None and found is not None:
            files[name] = read_object(found)
    return files


def _config_name(module: object, path: Path) -> str | None:
    """The name of a pooling module's config; None for other modules."""
    if not isinstance(module, Mapping) or not str(module.get("type", "")).endswith(_POOLING):
        return None
    inside = str(module.get("path", ""))
    parts = PurePosixPath(inside)
    if parts.is_absolute() or ".." in parts.parts or "\\" in inside:
        reason = f"the path of a module leads out of the folder: {shown(inside)}"
        raise InputError(Problem(where=place(path), reason=reason))
    return f"{inside}/{_CONFIG}"
