"""Files: whatever stands in one, the end is a value or an InputError, soon."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan_cli.errors import InputError
from kvplan_cli.loader.documents import MAX_BYTES, read_object, read_value
from kvplan_cli.loader.json_text import MAX_DEPTH, parse_json
from kvplan_cli.loader.yaml_text import MAX_NODES, parse_yaml
from tests.loader.faults import problem

_LETTERS = "abcdefghij"


def _bomb(merge: bool = False) -> str:
    """Nine levels of nine aliases: hundreds of millions of values, once they are followed."""
    lines = ["a: &a {k: x}" if merge else f"a: &a [{', '.join('x' * 9)}]"]
    for inner, outer in itertools.pairwise(_LETTERS):
        aliases = ", ".join([f"*{inner}"] * 9)
        body = f"{{<<: [{aliases}]}}" if merge else f"[{aliases}]"
        lines.append(f"{outer}: &{outer} {body}")
    return "\n".join(lines)


def _file(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_json_and_yaml_are_told_apart(tmp_path: Path) -> None:
    assert read_object(_file(tmp_path, "a.json", '{"a": [1, 2.5, null, true]}')) == {
        "a": [1, 2.5, None, True]
    }
    assert read_object(_file(tmp_path, "a.yaml", "a: 1\nb: {c: x}")) == {"a": 1, "b": {"c": "x"}}
    assert read_object(_file(tmp_path, "config", ' {"a": 1}')) == {"a": 1}
    assert read_object(_file(tmp_path, "plan", "a: 1")) == {"a": 1}
    assert read_object(_file(tmp_path, "bom.json", b'\xef\xbb\xbf{"a": 1}')) == {"a": 1}


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("list.json", "[1, 2]", "expected an object, got a list"),
        ("text.yaml", "hello", "expected an object, got text"),
        ("null.json", "null", "expected an object, got null"),
        ("empty.json", "", "the file is empty"),
        ("blank.yaml", " \n\t\n", "the file is empty"),
        ("binary.json", b"\x89PNG\0\0\0", "a binary file"),
        ("latin.json", '{"a": "é"}'.encode("latin-1"), "not UTF-8"),
        ("utf16.json", '{"a": 1}'.encode("utf-16"), "not UTF-8"),
        ("prose.json", "I am not JSON", "not JSON"),
        ("cut.json", '{"a": ', "not JSON"),
        ("comma.json", '{"a": 1,}', "not JSON"),
        ("tail.json", '{"a": 1} x', "not JSON"),
        ("twice.json", '{"a": 1, "a": 2}', "the key 'a' stands there twice"),
        ("nan.json", '{"a": NaN}', "NaN is not a value"),
        ("minus.json", '{"a": [-Infinity]}', "-Infinity is not a value"),
        ("inf.json", '{"a": Infinity}', "Infinity is not a value"),
        ("huge.json", '{"a": 1e999}', "too large"),
        ("digits.json", '{"a": ' + "9" * 5000 + "}", "absurd length"),
        ("surrogate.json", '{"a": "\\ud800"}', "not valid Unicode"),
        ("deep.json", "[" * 200_000, f"more than {MAX_DEPTH} levels"),
        ("nested.json", '{"a":' * 100 + "1" + "}" * 100, f"more than {MAX_DEPTH} levels"),
        ("bomb.yaml", _bomb(), f"more than {MAX_NODES} values"),
        ("merge.yaml", _bomb(merge=True), f"more than {MAX_NODES} values"),
        ("many.yaml", "a:\n" + "- x\n" * 200_000, f"more than {MAX_NODES} values"),
        ("deep.yaml", "a: " + "[" * 100_000, ""),
        ("deepest.yaml", "- " * 100_000 + "x", f"more than {MAX_DEPTH} levels"),
        ("self.yaml", "a: &a [*a]", "no complete anchor"),
        ("dangling.yaml", "a: *b", "no complete anchor"),
        ("twice.yaml", "a: 1\na: 2", "stands there twice, line 2"),
        ("nan.yaml", "a: .nan", "not a value that a plan can use"),
        ("inf.yaml", "a: -.inf", "not a value that a plan can use"),
        ("digits.yaml", "a: " + "9" * 5000, "absurd length"),
        ("sexagesimal.yaml", "a: " + "1:" * 500_000 + "1", "absurd length"),
        ("code.yaml", "a: !!python/object/apply:os.system [x]", "the tag"),
        ("set.yaml", "a: !!set {x}", "the tag"),
        ("bytes.yaml", "a: !!binary aGk=", "the tag"),
        ("int.yaml", "a: !!int abc", "does not fit its tag"),
        ("key.yaml", "x: 1\n? [a]\n: 1", "a key in line 2 is not text"),
        ("tab.yaml", "a:\n\t- b", "not YAML"),
        ("documents.yaml", "a: 1\n---\nb: 2", "several YAML documents"),
        ("control.yaml", "a: \x07", "not YAML"),
    ],
)
def test_a_wrong_file_says_where_and_why(
    tmp_path: Path, name: str, content: bytes | str, reason: str
) -> None:
    started = time.monotonic()
    found = problem(read_object, _file(tmp_path, name, content), error=InputError)
    assert name in found.where
    assert reason in found.reason
    assert found.reason.isprintable()
    assert time.monotonic() - started < 5


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = _file(tmp_path, "config.json", "")
    os.truncate(path, 200_000_000)
    started = time.monotonic()
    found = problem(read_object, path)
    assert "190.7 MiB" in found.reason
    assert f"{MAX_BYTES >> 20} MiB" in found.reason
    assert time.monotonic() - started < 0.5


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert problem(read_value, tmp_path / "absent.json").reason == "no such file"
    assert "a folder" in problem(read_value, tmp_path).reason
    assert "not a regular file" in problem(read_value, tmp_path / "pipe").reason
    assert "symbolic links" in problem(read_value, tmp_path / "loop").reason
    assert "not a regular file" in problem(read_value, Path("/dev/zero")).reason
    assert "null byte" in problem(read_value, tmp_path / "a\0b").reason
    assert "too long" in problem(read_value, tmp_path / ("x" * 400)).reason


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    path = _file(tmp_path, "config.json", "{}")
    path.chmod(0)
    assert "permission" in problem(read_value, path).reason


def test_control_characters_of_a_path_are_not_printed(tmp_path: Path) -> None:
    found = problem(read_value, tmp_path / "\x1b[31mred\n.json")
    assert found.where.isprintable()


def test_a_range_of_a_config_may_be_open(tmp_path: Path) -> None:
    path = _file(tmp_path, "config.json", '{"time_step_limit": [0.0, Infinity]}')
    assert read_object(path) == {"time_step_limit": [0.0, float("inf")]}


def test_yaml_aliases_and_merges_that_stay_small_work() -> None:
    text = "base: &b {x: 1}\nuse: {<<: *b, y: 2}\nlist: [*b, *b]"
    assert parse_yaml(text, "f")["use"] == {"x": 1, "y": 2}


def test_yaml_keys_and_dates_stay_text() -> None:
    assert parse_yaml("on: 1\n2: b\nday: 2026-01-02", "f") == {
        "on": 1,
        "2": "b",
        "day": "2026-01-02",
    }


@given(st.text(max_size=200))
def test_any_text_ends_in_a_value_or_an_input_error(text: str) -> None:
    for parse in (parse_json, parse_yaml):
        with contextlib.suppress(InputError):
            parse(text, "f")
