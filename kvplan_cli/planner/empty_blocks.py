"""Blocks shorter than one compressed state: the engine divides by their pages, which are empty."""

from __future__ import annotations

from collections.abc import Iterable

from kvplan_cli.grouping.group import KVCacheGroup, Refusal, RefusalKind, RefusedError
from kvplan_cli.specs import KVCacheSpec


def check_strides(groups: Iterable[KVCacheGroup]) -> None:
    """Refuse kernel blocks without a state, whose page no distance is a multiple of."""
    for spec in _specs(groups):
        if spec.stride_alignment_bytes() == 0:
            raise RefusedError(_refusal(spec))


def check_pages(groups: Iterable[KVCacheGroup]) -> None:
    """Refuse blocks without a state. Asked once a request's blocks are counted."""
    for spec in _specs(groups):
        if spec.page_size_bytes == 0:
            raise RefusedError(_refusal(spec))


def _specs(groups: Iterable[KVCacheGroup]) -> Iterable[KVCacheSpec]:
    return (spec for group in groups for spec in group.layers_by_spec)


def _refusal(spec: KVCacheSpec) -> Refusal:
    return Refusal(
        kind=RefusalKind.EMPTY_BLOCK,
        error_type="ZeroDivisionError",
        message="integer division or modulo by zero",
        explanation=f"blocks of {spec.block_size} tokens hold no compressed state of some layers; "
        "leave --block-size out",
    )
