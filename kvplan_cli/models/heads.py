"""How many heads a layer has, and how wide they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kvplan_cli.models.language import Language
from kvplan_cli.models.reach import Reach
from kvplan_cli.values import dataclass


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


def multi_query_heads(language: Language, index: int, reach: Reach) -> Heads:
    """GPT-BigCode: one KV head, unless ``multi_query`` is off."""
    multi_query = language.config.optional_boolean("multi_query") is not False
    heads = language.num_attention_heads
    return Heads(
        num_attention_heads=heads,
        num_kv_heads=1 if multi_query else heads,
        head_size=language.split_head_dim,
    )


def falcon_heads(language: Language, index: int, reach: Reach) -> Heads:
    """Falcon: KV heads of its own number only in the new decoder architecture.

    Source: vLLM 0.33.0 ``models/falcon.py:FalconAttention``, ``configs/falcon.py:RWConfig``.
    """
    config, heads = language.config, language.num_attention_heads
    # The engine's class for the first checkpoints turns it on by the hidden size.
    old_class = config.optional_text("model_type") in ("RefinedWeb", "RefinedWebModel")
    new = config.optional_boolean("new_decoder_architecture") or (
        old_class and language.hidden_size == 8192
    )
    key = "num_kv_heads" if config.has("num_kv_heads") else "n_head_kv"
    if new:
        absent = 1 if old_class else heads
        kv_heads = config.optional_integer(key, minimum=1) or absent
    else:
        kv_heads = heads if config.optional_boolean("multi_query") is False else 1
    return Heads(
        num_attention_heads=heads, num_kv_heads=kv_heads, head_size=language.split_head_dim
    )


def chatglm_heads(language: Language, index: int, reach: Reach) -> Heads:
    """ChatGLM: ``multi_query_group_num`` KV heads, where ``multi_query_attention`` is on."""
    heads = language.num_attention_heads
    grouped = language.config.boolean("multi_query_attention")
    return Heads(
        num_attention_heads=heads,
        num_kv_heads=language.config.positive("multi_query_group_num") if grouped else heads,
        head_size=language.split_head_dim,
    )


def dbrx_heads(language: Language, index: int, reach: Reach) -> Heads:
    """DBRX keeps its KV heads in ``attn_config``."""
    return Heads(
        num_attention_heads=language.num_attention_heads,
        num_kv_heads=language.config.section("attn_config").positive("kv_n_heads"),
        head_size=language.split_head_dim,
    )


def step1_heads(language: Language, index: int, reach: Reach) -> Heads:
    """Step 1: ``num_attention_groups`` KV heads; none given means one."""
    config = language.config
    key = "num_attention_groups" if "num_attention_groups" in config.values else _KV_HEADS
    return Heads(
        num_attention_heads=language.num_attention_heads,
        num_kv_heads=max(1, config.optional_integer(key) or 1),
        head_size=language.split_head_dim,
    )


_KV_HEADS: Final = "num_key_value_heads"


def single_kv_head(language: Language, index: int, reach: Reach) -> Heads:
    """Step 3: one KV head."""
    return Heads(
        num_attention_heads=language.num_attention_heads,
        num_kv_heads=1,
        head_size=language.config.positive("head_dim"),
    )


def minicpm3_heads(language: Language, index: int, reach: Reach) -> Heads:
    """MiniCPM3 caches keys and values unfolded: a head for each query head.

    Source: vLLM 0.33.0 ``models/minicpm3.py:MiniCPM3Attention``.
    """
    config, heads = language.config, language.num_attention_heads
    head_size = config.positive("qk_nope_head_dim") + config.positive("qk_rope_head_dim")
    return Heads(num_attention_heads=heads, num_kv_heads=heads, head_size=head_size)
