"""Sizes and lengths as people and the engine write them; bytes and tokens as integers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Final

from kvplan_cli.engine_args import AUTO_MAX_MODEL_LEN
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.problems import Problems, shown
from kvplan_cli.units import MIB

# Decimal by hand: the usual parsers (humanfriendly 10.0, pydantic's ByteSize) multiply floats
# and truncate, so that "1.001GB" becomes 1000999999 bytes.
_EXACT: Final = Context(prec=60)
_PREFIXES: Final = "kmgtp"
_SIZE: Final = re.compile(r"(?P<number>\d{1,30}(?:\.\d{0,30})?)\s*(?P<unit>[A-Za-z]*)", re.ASCII)
_ENGINE_INTEGER: Final = re.compile(
    r"(?P<number>\d{1,30}(?:\.\d{1,30})?)(?P<suffix>[kKmMgGtT])", re.ASCII
)
_PLAIN_INTEGER: Final = re.compile(r"[+-]?\d{1,30}", re.ASCII)
_LONGEST_TEXT: Final = 80

MAX_SIZE_BYTES: Final = 1 << 60
MAX_LENGTH_TOKENS: Final = 1 << 40
SIZE_FORMS: Final = "write it as 80GiB, 80GB, 1.5TB or in plain bytes"
LENGTH_FORMS: Final = "write it as 131072, 128k (128,000), 128K (131,072), auto or -1"


def _fault(where: str, reason: str, way_out: str | None) -> InputError:
    return InputError(Problem(where=where, reason=reason, way_out=way_out))


def _unit_bytes(unit: str) -> int | None:
    """Bytes of a unit; None for what is none.

    A letter alone is read as the engine reads it: K M G T binary, k m g t decimal.
    """
    if unit in ("", "b", "B", "byte", "bytes"):
        return 1
    prefix, rest = unit[0], unit[1:]
    if prefix.lower() not in _PREFIXES:
        return None
    power = _PREFIXES.index(prefix.lower()) + 1
    if rest == "":
        return int(1024**power if prefix.isupper() else 1000**power)
    if rest in ("iB", "IB") or (unit.islower() and rest == "ib"):
        return int(1024**power)
    if rest == "B" or (unit.islower() and rest == "b"):
        return int(1000**power)
    return None


def parse_size(value: object, where: str) -> int:
    """Bytes of ``80GiB``, ``80GB``, ``1.5TB`` or a plain number of bytes (str, int or float).

    A part of a byte is dropped. InputError for anything else: no number, zero, negative,
    NaN, above 2**60, an unknown unit, or a number without unit below one mebibyte.
    """
    text = _number_text(value, where, "a size", SIZE_FORMS)
    match = _SIZE.fullmatch(text)
    if match is None:
        raise _fault(where, f"{shown(text)} is not a size", _sign_hint(text) or SIZE_FORMS)
    unit = match["unit"]
    factor = _unit_bytes(unit)
    if factor is None:
        raise _fault(where, f"{shown(unit)} is not a unit of bytes", _unit_hint(match["number"]))
    number = Decimal(match["number"])
    size = int(_EXACT.multiply(number, Decimal(factor)).to_integral_value(ROUND_FLOOR))
    _check_size(size, match["number"], unit, where)
    return size


def _check_size(size: int, number: str, unit: str, where: str) -> None:
    if Decimal(number) == 0:
        raise _fault(where, "a size must be more than zero", SIZE_FORMS)
    if not unit and size < MIB:
        raise _fault(
            where,
            f"{number} without a unit is bytes, and less than one mebibyte holds no cache",
            f"if you mean gibibytes, write {number}GiB",
        )
    if size == 0:
        raise _fault(where, f"{number}{unit} is less than one byte", SIZE_FORMS)
    if size > MAX_SIZE_BYTES:
        raise _fault(where, f"{number}{unit} is more memory than any machine has", SIZE_FORMS)


def _sign_hint(text: str) -> str | None:
    if text.startswith("-"):
        return "a size can't be negative"
    if text.lower().lstrip("+") in ("nan", "inf", "infinity"):
        return "a size is a finite number"
    return None


def _unit_hint(number: str) -> str:
    return f"write {number}GiB (1024-based) or {number}GB (1000-based)"


def _number_text(value: object, where: str, what: str, forms: str) -> str:
    """The text to parse of a str, int or whole float; InputError for other values."""
    if isinstance(value, str):
        text = value.strip()
        if not text:
            raise _fault(where, f"{what} is missing", forms)
        if len(text) > _LONGEST_TEXT:
            raise _fault(where, f"{shown(text)} is too long for {what}", forms)
        return text
    if isinstance(value, float) and value.is_integer() and abs(value) < MAX_SIZE_BYTES * 2:
        value = int(value)
    if isinstance(value, float) and abs(value) < MIB:
        return repr(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _fault(where, f"{shown(value)} is not {what}", forms)
    if abs(value) > 10**30:
        raise _fault(where, f"a number of that many digits is not {what}", forms)
    return str(value)


def parse_sizes(value: object, where: str) -> tuple[int, ...]:
    """One size, or several (a list, or text with commas) for unequal ranks; in order."""
    if isinstance(value, str) and "," in value:
        value = value.split(",")
    if not isinstance(value, Sequence) or isinstance(value, str):
        return (parse_size(value, where),)
    if not 0 < len(value) <= 4096:
        raise _fault(where, f"a list of {len(value)} sizes", "give one size for each rank")
    problems, sizes = Problems(), []
    for index, item in enumerate(value):
        with problems.collecting():
            sizes.append(parse_size(item, f"{where}[{index}]"))
    problems.finish()
    return tuple(sizes)


def is_engine_integer(value: object) -> bool:
    """Whether a text is a number with one of the engine's suffixes, such as ``8k`` or ``8K``."""
    return isinstance(value, str) and _ENGINE_INTEGER.fullmatch(value.strip()) is not None


def parse_engine_integer(value: object, where: str) -> int:
    """An integer as the engine's flags take it: 8192, 8k (8,000), 8K (8,192).

    Source: vLLM 0.33.0 ``vllm/utils/argparse_utils.py:human_readable_int``.
    """
    forms = "write it as 8192, 8k (8,000) or 8K (8,192)"
    text = _number_text(value, where, "a number", forms)
    match = _ENGINE_INTEGER.fullmatch(text)
    if match is None:
        if _PLAIN_INTEGER.fullmatch(text) is None:
            raise _fault(where, f"{shown(text)} is not a whole number", forms)
        return int(text)
    number, suffix = match["number"], match["suffix"]
    power = _PREFIXES.index(suffix.lower()) + 1
    if suffix.islower():
        # The engine's own float arithmetic, so that the figure is the one it plans with.
        return int(float(number) * 1000**power)
    if "." in number:
        raise _fault(
            where,
            f"a decimal point does not go with the binary suffix {suffix}",
            f"the engine takes {number}{suffix.lower()} (decimal) or a whole number",
        )
    return int(number) * int(1024**power)


def parse_length(value: object, where: str) -> int:
    """Tokens of ``131072``, ``128k``, ``1M``; -1 for ``auto`` (the longest that fits).

    Source: vLLM 0.33.0 ``vllm/utils/argparse_utils.py:human_readable_int_or_auto``.
    """
    if isinstance(value, str) and value.strip().lower() == "auto":
        return AUTO_MAX_MODEL_LEN
    try:
        length = parse_engine_integer(value, where)
    except InputError as error:
        raise _fault(where, error.problems[0].reason, LENGTH_FORMS) from None
    if length == AUTO_MAX_MODEL_LEN:
        return length
    if length <= 0:
        raise _fault(where, f"a length of {length} tokens", f"at least 1; {LENGTH_FORMS}")
    if length > MAX_LENGTH_TOKENS:
        raise _fault(where, f"no model reads {shown(value)} tokens", LENGTH_FORMS)
    return length
