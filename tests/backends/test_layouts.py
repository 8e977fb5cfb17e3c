"""Layouts that all backends of a worker read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kvplan_cli.backends.layouts import DEFAULT_LAYOUTS, shared_layouts
from kvplan_cli.backends.selection import backend_named
from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.layouts import KVCacheLayout
from tests.backends.builders import facts

BLACKWELL = (KVCacheLayout.LBHNC, KVCacheLayout.BLHNC)


@pytest.mark.parametrize(
    ("card", "names", "layouts"),
    [
        ("H100", ("FLASH_ATTN",), DEFAULT_LAYOUTS),
        ("H100", ("FLASH_ATTN", "TURBOQUANT"), (KVCacheLayout.LBNHC,)),
        ("H100", ("FLEX_ATTENTION",), (KVCacheLayout.LBNHC,)),
        ("H100", ("FLASHINFER",), DEFAULT_LAYOUTS),
        ("H100", ("TRITON_FLASH_ATTN",), DEFAULT_LAYOUTS),
        ("B200", ("FLASHINFER",), BLACKWELL),
        ("B200", ("FLASHINFER", "TRITON_ATTN"), BLACKWELL),
        ("B200", ("TRITON_FLASHINFER",), BLACKWELL),
    ],
)
def test_shared(card: str, names: tuple[str, ...], layouts: tuple[KVCacheLayout, ...]) -> None:
    assert shared_layouts([backend_named(name) for name in names], facts(card)) == layouts


def test_most_first_places_win() -> None:
    flex = backend_named("FLEX_ATTENTION")
    both = (KVCacheLayout.LBHNC, KVCacheLayout.LBNHC)
    heads_first = replace(flex, layouts=lambda _facts: both)
    tokens_first = replace(flex, layouts=lambda _facts: both[::-1])
    assert shared_layouts([heads_first, tokens_first, tokens_first], facts()) == both[::-1]


def test_nothing_in_common() -> None:
    backends = [backend_named("FLASHINFER"), backend_named("FLEX_ATTENTION")]
    with pytest.raises(EngineRefusalError) as caught:
        shared_layouts(backends, facts("B200"))
    assert caught.value.message == (
        "No KV cache layout satisfies every supported set: [['LBHNC', 'BLHNC'], ['LBNHC']]."
    )
