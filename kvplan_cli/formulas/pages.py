"""Pages: the bytes that one layer of each kind needs for one block."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from kvplan_cli.formulas.arithmetic import (
    Expression,
    floor,
    largest,
    named,
    over,
    plain,
    plus,
    times,
)
from kvplan_cli.formulas.formula import Formula, Unit
from kvplan_cli.formulas.kinds import Kind
from kvplan_cli.specs import AttentionSpec, KVCacheSpec, MambaSpec

INTERFACE: Final = "vllm/v1/kv_cache_interface.py"


def page_formula(kind: Kind) -> Formula:
    """The page of one kind of layers."""
    spec = kind.spec
    content = content_expression(spec)
    return Formula(
        name="page",
        of=kind.label,
        expression=content if spec.padded_page is None else _padded(spec, content),
        result=spec.page_size_bytes,
        unit=Unit.BYTES,
        source=f"{INTERFACE}:{_page_class(spec)}.page_size_bytes",
        note="" if spec.padded_page is None else "raised, so that it fits beside other pages",
    )


def content_expression(spec: KVCacheSpec) -> Expression:
    """Bytes of the page that hold something, as the spec's fields make them."""
    if isinstance(spec, AttentionSpec):
        return times(_slots(spec), _states(spec), _state_content(spec))
    if isinstance(spec, MambaSpec):
        return plus(
            *(
                times(*(named("shape", size) for size in shape), named("bytes", dtype.itemsize))
                for shape, dtype in zip(spec.shapes, spec.dtypes, strict=True)
            )
        )
    return named("page_size", spec.page_size_bytes)


def _padded(spec: KVCacheSpec, content: Expression) -> Expression:
    assert spec.padded_page is not None
    return largest(content, named("page_size_padded", spec.padded_page))


def _page_class(spec: KVCacheSpec) -> str:
    """The engine's class whose function makes the page."""
    return "AttentionSpec" if isinstance(spec, AttentionSpec) else type(spec).__name__


def _slots(spec: AttentionSpec) -> Expression:
    if spec.num_head_slots is not None:
        return named("head slots", spec.num_head_slots)
    return named("num_kv_heads", spec.num_kv_heads)


def _states(spec: AttentionSpec) -> Expression:
    block, tokens = named("block_size", spec.block_size), Fraction(spec.tokens_per_state)
    if tokens == 1:
        return block
    if tokens.numerator == 1:
        return times(block, named("states a token", tokens.denominator))
    if tokens.denominator == 1:
        return floor(over(block, named("tokens a state", tokens.numerator)))
    return floor(over(times(block, plain(tokens.denominator)), plain(tokens.numerator)))


def _state_content(spec: AttentionSpec) -> Expression:
    if spec.state_content_bytes is not None:
        return named(
            "bytes a token" if spec.tokens_per_state == 1 else "bytes a state",
            spec.state_content_bytes,
        )
    key, element = named("head_size", spec.head_size), named("bytes", spec.dtype.itemsize)
    if not spec.head_size_v:
        return times(key, element)
    return times(plus(key, named("head_size_v", spec.head_size_v)), element)


def heads_formula(kind: Kind, ranks: int, heads: int | None) -> Formula | None:
    """KV heads of a rank, where tensor parallel ranks share them out or repeat them.

    heads: of the whole model, where that is known.
    """
    spec = kind.spec
    if ranks == 1 or heads is None or not isinstance(spec, AttentionSpec):
        return None
    if spec.num_kv_heads != max(1, heads // ranks):
        return None
    shared = floor(over(named("KV heads", heads), named("TP", ranks)))
    return Formula(
        name="num_kv_heads",
        of=kind.label,
        expression=largest(plain(1), shared),
        result=spec.num_kv_heads,
        unit=Unit.HEADS,
        source="vllm/config/model.py:ModelConfig.get_num_kv_heads",
        note=f"{ranks // heads} ranks keep each" if ranks > heads else "",
    )
