"""Sizes and lengths: exact, and wrong ones say why."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan_cli.loader.sizes import (
    MAX_SIZE_BYTES,
    parse_engine_integer,
    parse_length,
    parse_size,
    parse_sizes,
)
from tests.loader.faults import problem, problems


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80GiB", 80 << 30),
        ("80GB", 80 * 10**9),
        ("1.5TB", 1_500_000_000_000),
        ("1.001GB", 1_001_000_000),
        ("42.1GiB", 45_204_530_790),
        ("0.1GiB", 107_374_182),
        (" 80 gib ", 80 << 30),
        ("80gb", 80 * 10**9),
        ("80G", 80 << 30),
        ("80g", 80 * 10**9),
        ("512MiB", 512 << 20),
        ("1PiB", 1 << 50),
        ("42949672960", 42_949_672_960),
        ("1000000B", 1_000_000),
        (42_949_672_960, 42_949_672_960),
        (8.0e10, 80_000_000_000),
    ],
)
def test_a_size_is_exact_to_the_byte(text: Any, size: int) -> None:
    assert parse_size(text, "--kv-mem") == size


@given(st.integers(1 << 20, MAX_SIZE_BYTES))
def test_plain_bytes_are_what_they_say(size: int) -> None:
    assert parse_size(str(size), "x") == parse_size(size, "x") == size


@given(st.integers(1, 999_999), st.integers(0, 6))
def test_a_decimal_point_never_loses_a_byte(digits: int, places: int) -> None:
    text = f"{digits / 10**places:.{places}f}"
    assert parse_size(f"{text}TB", "x") == digits * 10 ** (12 - places)


@pytest.mark.parametrize("value", ["80", 80, 80.5, "1048575", "0.5"])
def test_a_bare_small_number_says_why_and_how(value: Any) -> None:
    found = problem(parse_size, value, "--gpu-mem")
    assert found.where == "--gpu-mem"
    assert "less than one mebibyte" in found.reason
    assert found.way_out is not None
    assert f"{value}GiB" in found.way_out


@pytest.mark.parametrize(
    "value",
    [
        *["-1", "-80GiB", "nan", "inf", "NaN", "1e9GB", "80GiB GiB", "eighty", "", "  ", "GiB"],
        *["80Gb", "80Gib", "80xB", "80 gigs", "0", "0GiB", "2EiB", "9" * 25 + "GB", "9" * 500],
        *[float("nan"), float("inf"), -1, True, None, [1], {"a": 1}, 10**40, "1_000GiB", "٣GiB"],
    ],
)
def test_a_wrong_size_is_an_input_error(value: Any) -> None:
    assert problem(parse_size, value, "--kv-mem").where == "--kv-mem"


def test_bits_are_not_taken_for_bytes() -> None:
    found = problem(parse_size, "80Gb", "x")
    assert found.way_out == "write 80GiB (1024-based) or 80GB (1000-based)"


def test_several_sizes_for_unequal_ranks() -> None:
    assert parse_sizes("40GiB,41GiB", "x") == (40 << 30, 41 << 30)
    assert parse_sizes(["40GiB", 2**30], "x") == (40 << 30, 2**30)
    assert parse_sizes("40GiB", "x") == (40 << 30,)


def test_all_wrong_sizes_of_a_list_are_named() -> None:
    found = problems(parse_sizes, ["1GiB", "80", "x"], "kv-mem")
    assert [item.where for item in found] == ["kv-mem[1]", "kv-mem[2]"]
    assert problem(parse_sizes, [], "kv-mem")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("131072", 131_072),
        ("128k", 128_000),
        ("128K", 131_072),
        ("25.6k", 25_600),
        ("1M", 1_048_576),
        ("1m", 1_000_000),
        ("auto", -1),
        ("AUTO", -1),
        ("-1", -1),
        (-1, -1),
        (8192, 8192),
        # The engine's own float arithmetic: it plans with this figure too.
        ("1.001k", 1000),
    ],
)
def test_a_length_is_read_as_the_engine_reads_it(text: Any, tokens: int) -> None:
    assert parse_length(text, "--max-model-len") == tokens


@pytest.mark.parametrize(
    "value",
    [*["0", "-2", "1.5", "1.5K", "k", "128kk", "nan", "", "9T9", "5000T"], 0, 1.5, True, None, []],
)
def test_a_wrong_length_shows_the_forms(value: Any) -> None:
    found = problem(parse_length, value, "--max-model-len")
    assert "131072" in (found.way_out or "")


def test_a_number_with_the_engines_suffix() -> None:
    assert parse_engine_integer("8k", "x") == 8000
    assert parse_engine_integer("8K", "x") == 8192
    assert "decimal point" in problem(parse_engine_integer, "1.5K", "x").reason
