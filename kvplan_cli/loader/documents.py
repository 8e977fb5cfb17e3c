"""Bounded reading of JSON and YAML files: a wrong file is an InputError, never a hang."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.json_text import parse_json
from kvplan_cli.loader.problems import kind_of, printable
from kvplan_cli.units import MIB

MAX_BYTES: Final = 16 * MIB
YAML_SUFFIXES: Final = frozenset({".yaml", ".yml"})
_WANTED: Final = "kvplan reads a config.json, a plan file or serve YAML"


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON or YAML file. InputError for every other content."""
    value = read_value(path)
    if not isinstance(value, dict):
        raise _fault(path, f"expected an object, got {kind_of(value)}", _WANTED)
    return value


def read_value(path: Path) -> Any:
    """Whatever value a file holds: YAML by its suffix, else JSON where it begins like it."""
    text = _filled(path)
    if _is_json(path, text):
        return parse_json(text, place(path))
    # Imported only here: a config.json needs no YAML.
    from kvplan_cli.loader.yaml_text import parse_yaml

    return parse_yaml(text, place(path))


def read_documents(path: Path) -> list[Any]:
    """The same for a file that may hold several YAML documents; empty ones are left out."""
    text = _filled(path)
    if _is_json(path, text):
        return [parse_json(text, place(path))]
    from kvplan_cli.loader.yaml_text import parse_documents

    return [value for value in parse_documents(text, place(path)) if value is not None]


def _filled(path: Path) -> str:
    text = read_text(path)
    if not text.strip():
        raise _fault(path, "the file is empty", _WANTED)
    return text


def _is_json(path: Path, text: str) -> bool:
    suffix = path.suffix.lower()
    looks_like_json = text.lstrip()[0] in "{["
    return not (suffix in YAML_SUFFIXES or (suffix != ".json" and not looks_like_json))


def read_text(path: Path) -> str:
    """The file's UTF-8 text. InputError where it is none, or larger than MAX_BYTES."""
    data = read_bounded(path, MAX_BYTES, f"no config is that large; {_WANTED}")
    if b"\0" in data[:4096] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _fault(path, "a binary file", _WANTED)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reason = f"not UTF-8 text: byte {error.start} can't be read"
        raise _fault(path, reason, "save it as UTF-8") from None


def read_bounded(path: Path, most: int, way_out: str) -> bytes:
    """The bytes of a regular file of at most ``most``. InputError for others.

    way_out: what to do about a file that is larger.
    """
    try:
        # Not to block on a pipe without a writer: the kind is looked at before any read.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise _fault(path, "not a regular file", "write its content to a file first")
            if status.st_size > most:
                raise _too_large(path, status.st_size, most, way_out)
            data = file.read(most + 1)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    if len(data) > most:
        raise _too_large(path, len(data), most, way_out)
    return data


def unreadable(path: Path, error: OSError | ValueError) -> InputError:
    """The InputError for a path that the system will not open."""
    if isinstance(error, FileNotFoundError):
        return _fault(path, "no such file", None)
    if isinstance(error, IsADirectoryError):
        return _fault(path, "a folder where a file is needed", None)
    if isinstance(error, PermissionError):
        return _fault(path, "no permission to read it", None)
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return _fault(path, f"can't be read: {printable(reason or str(error))}", None)


def place(path: Path) -> str:
    """A path as errors name it: printable, on one line."""
    return printable(str(path), 200)


def _too_large(path: Path, size: int, most: int, way_out: str) -> InputError:
    reason = f"{size / MIB:.1f} MiB; kvplan reads files of up to {most // MIB} MiB"
    return _fault(path, reason, way_out)


def _fault(path: Path, reason: str, way_out: str | None) -> InputError:
    return InputError(Problem(where=place(path), reason=reason, way_out=way_out))
