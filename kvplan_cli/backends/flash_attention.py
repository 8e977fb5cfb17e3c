"""Which FlashAttention version serves a layer, and what that version can cache.

Source: vLLM 0.33.0 ``vllm/v1/attention/backends/fa_utils.py`` and
``vllm/vllm_flash_attn/flash_attn_interface.py``; a wheel with all versions is assumed.
"""

from __future__ import annotations

from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.quant_modes import is_quantized
from kvplan_cli.gpus import runs_flash_attention_4
from kvplan_cli.values import dataclass

# The Blackwell kernel for head size 256 takes one 128-token page a tile.
HD256_PAGE_SIZE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionQuery:
    """The features that decide the version. kv_cache_block_size: None where not given.

    takes_hd256_kernel: whether the asker can use Blackwell's own kernel for head size 256.
    """

    alibi: bool = False
    head_size: int | None = None
    head_size_v: int | None = None
    has_sinks: bool = False
    soft_cap: bool = False
    kv_cache_block_size: int | None = None
    takes_hd256_kernel: bool = False


def is_version_supported(version: int, facts: Facts) -> bool:
    """Whether the card runs this FlashAttention version."""
    if version == 2:
        return facts.capability >= (8, 0)
    if version == 3:
        return facts.major == 9
    return runs_flash_attention_4(facts.capability)


def flash_attn_version(facts: Facts, query: VersionQuery) -> int | None:
    """The FlashAttention version for ``query``; None where none can be used."""
    version = _without_alibi_conflict(_wanted_version(facts), facts, query)
    if version == 3 and is_version_supported(4, facts) and _needs_version_4(facts, query):
        version = 4
    if version == 4 and facts.batch_invariant:
        version = 2
    if version == 4 and not _blackwell_can_run(facts, query):
        version = 2
    return version if is_version_supported(version, facts) else None


def _wanted_version(facts: Facts) -> int:
    forced = facts.config.flash_attn_version if facts.config else None
    if forced is not None:
        return forced
    return {9: 3, 10: 4}.get(facts.major, 2)


def _without_alibi_conflict(version: int, facts: Facts, query: VersionQuery) -> int:
    if facts.major >= 10 and version == 3:
        version = 4 if is_version_supported(4, facts) else 2
    return 2 if query.alibi else version


def _needs_version_4(facts: Facts, query: VersionQuery) -> bool:
    if query.head_size is not None and query.head_size > 256:
        return True
    diff_kv = None not in (query.head_size, query.head_size_v) and (
        query.head_size != query.head_size_v
    )
    if query.has_sinks and diff_kv:
        return True
    return facts.config is not None and facts.config.is_diffusion


def uses_hd256_kernel(facts: Facts, head_size: int | None, head_size_v: int | None = None) -> bool:
    """Whether version 4 would use Blackwell's own kernel for head size 256."""
    return head_size == 256 and head_size_v in (None, 256) and facts.major in (10, 11)


def _blackwell_can_run(facts: Facts, query: VersionQuery) -> bool:
    if uses_hd256_kernel(facts, query.head_size, query.head_size_v):
        return query.takes_hd256_kernel and not _hd256_conflict(facts, query)
    if facts.major < 10 or query.head_size is None or query.head_size <= 128:
        return True
    return query.head_size == 192 and query.head_size_v == 128


def _hd256_conflict(facts: Facts, query: VersionQuery) -> bool:
    if query.has_sinks or query.soft_cap:
        return True
    if query.kv_cache_block_size is not None and query.kv_cache_block_size % HD256_PAGE_SIZE:
        return True
    config = facts.config
    return config is not None and (
        config.logits_soft_cap
        or is_quantized(config.cache_dtype)
        or config.mm_prefix_lm
        or config.rswa
        or config.decode_context_parallel_size > 1
    )


def supports_kv_cache_dtype(facts: Facts, kv_cache_dtype: str, query: VersionQuery) -> bool:
    """Whether FlashAttention reads a quantized cache of this dtype for ``query``."""
    if kv_cache_dtype == "fp8_e5m2":
        return False
    version = flash_attn_version(facts, query)
    if facts.major == 9:
        return version == 3 or (version == 4 and query.head_size in (None, 512))
    return version == 4 and facts.major == 10


def supports_sinks(facts: Facts) -> bool:
    """Whether FlashAttention takes learned attention sinks on this card."""
    return flash_attn_version(facts, VersionQuery()) in (3, 4)
