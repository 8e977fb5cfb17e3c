"""How many heads a layer has, and how wide they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kvplan_cli.models.language import Language
from kvplan_cli.models.reach import Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Heads of one layer of the whole model; sizes in elements.

    head_size_v: None, as head_size.
    """

    num_attention_heads: int
    num_kv_heads: int
    head_size: int
    head_size_v: int | None = None


HeadRule = Callable[[Language, int, Reach], Heads]


def grouped_heads(language: Language, index: int, reach: Reach) -> Heads:
    """Grouped queries, with ``head_dim`` where there is one."""
    return Heads(
        num_attention_heads=language.num_attention_heads,
        num_kv_heads=language.num_kv_heads,
        head_size=language.head_dim,
    )


def split_heads(language: Language, index: int, reach: Reach) -> Heads:
    """Grouped queries; the head size is the hidden size over the heads, whatever head_dim says."""
    return Heads(
        num_attention_heads=language.num_attention_heads,
        num_kv_heads=language.num_kv_heads,
        head_size=language.split_head_dim,
    )


def equal_heads(language: Language, index: int, reach: Reach) -> Heads:
    """As many KV heads as attention heads."""
    return Heads(
        num_attention_heads=language.num_attention_heads,
        num_kv_heads=language.num_attention_heads,
        head_size=language.split_head_dim,
    )
