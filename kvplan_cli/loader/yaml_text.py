"""YAML text to plain values, strictly and bounded, before anything is built from it.

The events are counted first: nesting, nodes, and what aliases would multiply. Only then are
values made, of the kinds that JSON has; tags that build anything else are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.json_text import MAX_DEPTH, check_plain
from kvplan_cli.loader.problems import printable, shown

MAX_NODES: Final = 100_000
# Numbers of more characters are mistakes, and PyYAML's reading of them is quadratic.
_MAX_NUMBER_CHARACTERS: Final = 100

# libyaml's parser where it is built in: about ten times as fast.
_BaseLoader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _BadValueError(ValueError):
    """A value that YAML as such would let pass."""


class _StrictLoader(_BaseLoader):  # type: ignore[misc]
    """The safe loader without dates, sets and bytes, and without duplicate keys."""

    # Dates stay the text they are.
    yaml_implicit_resolvers: Final = {
        first: [(tag, pattern) for tag, pattern in resolvers if "timestamp" not in tag]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_plain_mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise _BadValueError(f"a key in line {line} is not text")
            if key.value in seen and key.tag != _MERGE_TAG:
                raise _BadValueError(f"the key {shown(key.value)} stands there twice, line {line}")
            seen.add(key.value)
        self.flatten_mapping(node)
        # Keys are names: 1, on and null as keys stay the text that they are.
        return {key.value: self.construct_object(value, deep=True) for key, value in node.value}

    def construct_plain_int(self, node: yaml.ScalarNode) -> int:
        _check_number(node)
        return int(self.construct_yaml_int(node))

    def construct_plain_float(self, node: yaml.ScalarNode) -> float:
        _check_number(node)
        number = float(self.construct_yaml_float(node))
        if not math.isfinite(number):
            raise _BadValueError(f"{shown(node.value)} is not a value that a plan can use")
        return number

    def refuse(self, node: yaml.Node) -> Any:
        raise _BadValueError(f"the tag {shown(node.tag)} in line {node.start_mark.line + 1}")


_MERGE_TAG: Final = "tag:yaml.org,2002:merge"


def _check_number(node: yaml.ScalarNode) -> None:
    if len(node.value) > _MAX_NUMBER_CHARACTERS:
        raise _BadValueError(f"a number of absurd length in line {node.start_mark.line + 1}")


def _plain_constructors() -> dict[str | None, Any]:
    safe = yaml.SafeLoader.yaml_constructors
    core = "tag:yaml.org,2002:"
    return {
        **{core + name: safe[core + name] for name in ("null", "bool", "str", "seq")},
        core + "int": _StrictLoader.construct_plain_int,
        core + "float": _StrictLoader.construct_plain_float,
        core + "map": _StrictLoader.construct_plain_mapping,
        None: _StrictLoader.refuse,
    }


_StrictLoader.yaml_constructors = _plain_constructors()


def parse_yaml(text: str, where: str) -> Any:
    """The value of a YAML text of one document. InputError with the place and the fault."""
    documents = parse_documents(text, where)
    if len(documents) > 1:
        raise _fault(where, "several YAML documents in one file; kvplan reads one")
    return documents[0] if documents else None


def parse_documents(text: str, where: str) -> list[Any]:
    """The values of a YAML text, document by document. InputError with the place and the fault."""
    try:
        _Bounds(where=where).check(text)
        values = list(yaml.load_all(text, Loader=_StrictLoader))
    except yaml.MarkedYAMLError as error:
        raise _fault(where, f"not YAML: {_marked(error)}", _line(error)) from None
    except yaml.YAMLError as error:
        raise _fault(where, f"not YAML: {printable(str(error))}") from None
    except _BadValueError as error:
        raise _fault(where, str(error)) from None
    except RecursionError:
        raise _too_deep(where) from None
    except (ValueError, TypeError, OverflowError) as error:
        raise _fault(where, f"a value that does not fit its tag: {printable(str(error))}") from None
    check_plain(values, where)
    return values


def key_lines(text: str) -> dict[str, int]:
    """Dotted path of each key of a YAML (or JSON) text to its line, from 1.

    Empty for a text that ``parse_yaml`` would not take.
    """
    lines: dict[str, int] = {}
    try:
        _Bounds(where="").check(text)
        root = yaml.compose(text, Loader=_BaseLoader)
    except (yaml.YAMLError, InputError):
        return lines
    waiting = [("", root)]
    while waiting:
        prefix, node = waiting.pop()
        if not isinstance(node, yaml.MappingNode):
            continue
        for key, value in node.value:
            path = f"{prefix}{key.value}"
            lines[path] = key.start_mark.line + 1
            waiting.append((f"{path}.", value))
    return lines


def _line(error: yaml.MarkedYAMLError) -> int | None:
    mark = error.problem_mark or error.context_mark
    return None if mark is None else mark.line + 1


def _marked(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return printable(f"{error.problem or error.context}{place}")


@dataclass(slots=True)
class _Open:
    """A collection that is being read: what it holds once its aliases are followed."""

    anchor: str | None
    nodes: int = 1
    height: int = 0


@dataclass(slots=True, kw_only=True)
class _Bounds:
    """One pass over the events. Work is linear; aliases count as often as they are used."""

    where: str
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, _Open] = field(default_factory=dict)
    nodes: int = 0

    def check(self, text: str) -> None:
        for event in yaml.parse(text, Loader=_BaseLoader):
            if isinstance(event, yaml.ScalarEvent):
                self._close(_Open(event.anchor))
            elif isinstance(event, yaml.AliasEvent):
                self._close(self._target(event.anchor))
            elif isinstance(event, yaml.CollectionStartEvent):
                self._open(event.anchor)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._close(self.stack.pop())
            elif isinstance(event, yaml.DocumentStartEvent):
                self.anchors.clear()

    def _target(self, anchor: str | None) -> _Open:
        target = self.anchors.get(anchor or "")
        if target is None or target in self.stack:
            raise _fault(self.where, f"the alias {shown(anchor)} has no complete anchor before it")
        return _Open(None, target.nodes, target.height)

    def _open(self, anchor: str | None) -> None:
        if len(self.stack) >= MAX_DEPTH:
            raise _too_deep(self.where)
        self.stack.append(_Open(anchor))

    def _close(self, item: _Open) -> None:
        if item.anchor is not None:
            self.anchors[item.anchor] = item
        if not self.stack:
            # A document's end: its values count beside those of the documents before.
            self.nodes += item.nodes
            self._check_nodes(self.nodes)
            return
        parent = self.stack[-1]
        parent.nodes += item.nodes
        parent.height = max(parent.height, item.height + 1)
        self._check_nodes(parent.nodes)
        if len(self.stack) + item.height > MAX_DEPTH:
            raise _too_deep(self.where)

    def _check_nodes(self, nodes: int) -> None:
        if nodes > MAX_NODES:
            raise InputError(
                Problem(
                    where=self.where,
                    reason=f"more than {MAX_NODES} values, aliases counted as often as used",
                    way_out="no plan needs that many; write the values out",
                )
            )


def _fault(where: str, reason: str, line: int | None = None) -> InputError:
    return InputError(Problem(where=where, reason=reason, line=line))


def _too_deep(where: str) -> InputError:
    return _fault(where, f"nested more than {MAX_DEPTH} levels deep")
