"""Settings that the engine prints as Python: ``'key': value`` and ``key=value`` lists.

Nothing is executed: values are literals, and what is none is left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, Final

_OPENING: Final = "([{"
_CLOSING: Final = ")]}"
_DEEPEST: Final = 40
_LONGEST_VALUE: Final = 1 << 14
ABSENT: Final = object()


def dict_items(text: str) -> dict[str, Any]:
    """The literal items of a printed dict without its opening brace; a cut one gives fewer."""
    found = {}
    for item in _items(text, "}"):
        key, colon, value = item.partition(":")
        name = literal(key.strip())
        if colon and isinstance(name, str) and (read := literal(value.strip())) is not ABSENT:
            found[name] = read
    return found


def keyword_items(text: str, closing: str) -> dict[str, Any]:
    """The literal items of ``key=value, ...`` up to ``closing``; bare words are texts."""
    found: dict[str, Any] = {}
    for item in _items(text, closing):
        key, equals, value = item.partition("=")
        key, value = key.strip(), value.strip()
        if not (equals and key.isidentifier()):
            continue
        read = literal(value)
        if read is not ABSENT:
            found[key] = read
        elif _is_word(value):
            found[key] = value
    return found


def literal(text: str) -> Any:
    """The value of a Python literal; ABSENT for what is none, or is too large or too deep."""
    if len(text) > _LONGEST_VALUE or sum(map(text.count, _OPENING)) > _DEEPEST:
        return ABSENT
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return ABSENT


def _is_word(text: str) -> bool:
    return bool(text) and text.isprintable() and not any(c in text for c in "()[]{}<>'\" ,=")


def _items(text: str, closing: str) -> Iterator[str]:
    """Pieces between commas outside of brackets and quotes.

    The last is given only where the list is closed: a cut one may be half.
    """
    depth, start, quote, skip = 0, 0, "", False
    for place, character in enumerate(text):
        if skip:
            skip = False
        elif quote:
            skip, quote = character == "\\", "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in _OPENING:
            depth += 1
        elif character in _CLOSING and depth:
            depth -= 1
        elif character == closing:
            yield text[start:place]
            return
        elif character == "," and not depth:
            yield text[start:place]
            start = place + 1
