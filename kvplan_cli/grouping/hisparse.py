"""Host-backed sparse MLA: the source on the host, hot and resident pages on the device.

Source: vLLM 0.33.0 ``v1/hisparse/layout.py`` and ``runtime.py:ResolvedHiSparseConfig``.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan_cli.grouping.group import GroupRole, KVCacheGroup, RefusalKind, RefusedError, refuse
from kvplan_cli.grouping.settings import HiSparseSettings, PlannerSettings
from kvplan_cli.specs import (
    HiSparseHotSpec,
    HiSparseResidentSpec,
    KVCacheSpec,
    MLAAttentionSpec,
    SparseCacheRole,
)
from kvplan_cli.specs.bundle import LayerSpecs, UniformTypeKVCacheSpecs, is_uniform_type
from kvplan_cli.units import cdiv

HOT_SUFFIX = ".hisparse_hot"
RESIDENT_SUFFIX = ".hisparse_resident"
# Hot rows are addressed by int16.
MAX_DEVICE_BUFFER_SIZE = 1 << 15

_MLALayers = Mapping[str, MLAAttentionSpec]


def _refused(message: str) -> RefusedError:
    return refuse(RefusalKind.HISPARSE, message)


def hisparse_groups(
    layers: LayerSpecs, settings: PlannerSettings
) -> tuple[tuple[KVCacheGroup, ...], LayerSpecs]:
    """The groups of the MLA layers, and the layers that are grouped as usual.

    Order: source (host), indexer, all residents, all hots. No groups without an MLA layer.
    Raises: RefusedError where the engine refuses.
    """
    assert settings.hisparse is not None
    mla = {n: s for n, s in layers.items() if isinstance(s, MLAAttentionSpec)}
    derived = (HiSparseHotSpec, HiSparseResidentSpec)
    rest = {n: s for n, s in layers.items() if n not in mla and not isinstance(s, derived)}
    if not mla:
        return (), rest
    source, indexer = _source_and_indexer(mla)
    block_size = _one_block_size(mla)
    top_k = max(
        settings.hisparse.top_k if spec.topk_buffer_width is None else spec.topk_buffer_width
        for spec in source.values()
    )
    speculative = settings.speculative
    query = 1 if speculative is None else 1 + speculative.num_speculative_tokens
    hot_blocks = cdiv(device_buffer_size(settings.hisparse, top_k, query), block_size)
    indexer_page = sum(spec.page_size_bytes for spec in indexer.values())
    residents, hots = [], []
    for run in _packed_runs(source, indexer_page):
        page_size = _one_page_size(run)
        resident = HiSparseResidentSpec(block_size=block_size, page_size=page_size)
        hot = HiSparseHotSpec(
            block_size=block_size, page_size=page_size, blocks_per_request=hot_blocks
        )
        residents.append(_derived_group(run, RESIDENT_SUFFIX, resident))
        hots.append(_derived_group(run, HOT_SUFFIX, hot))
    groups = (
        KVCacheGroup(
            layer_names=tuple(source),
            spec=UniformTypeKVCacheSpecs(kv_cache_specs=source),
            role=GroupRole.HISPARSE_SOURCE,
            host_resident=True,
        ),
        KVCacheGroup(
            layer_names=tuple(indexer),
            spec=UniformTypeKVCacheSpecs(kv_cache_specs=indexer),
            role=GroupRole.HISPARSE_INDEXER,
        ),
        *residents,
        *hots,
    )
    return groups, rest


def device_buffer_size(hisparse: HiSparseSettings, top_k: int, max_decode_query_len: int) -> int:
    """Hot rows a request on the device.

    Raises: RefusedError when the given size cannot hold a decode step, or cannot be addressed.
    """
    least = max_decode_query_len * top_k
    size = hisparse.device_buffer_size
    if size is None:
        size = (max_decode_query_len + 1) * top_k
    if size < least:
        raise _refused(
            "HiSparse device_buffer_size must cover every decode query's index_topk rows. Got "
            f"device_buffer_size={size}, max_decode_query_len={max_decode_query_len}, "
            f"index_topk={top_k}; expected at least {least}."
        )
    if size > MAX_DEVICE_BUFFER_SIZE:
        raise _refused(
            f"HiSparse device_buffer_size exceeds the int16 slot-index limit: got {size}, "
            f"maximum is {MAX_DEVICE_BUFFER_SIZE}."
        )
    return size


def _source_and_indexer(
    mla: dict[str, MLAAttentionSpec],
) -> tuple[dict[str, MLAAttentionSpec], dict[str, MLAAttentionSpec]]:
    if not is_uniform_type(mla):
        raise _refused("HiSparse requires uniform sparse-MLA cache specs.")
    if any(spec.model_version == "deepseek_v4" for spec in mla.values()):
        raise _refused("HiSparse does not support DeepSeek V4.")
    source = {n: s for n, s in mla.items() if s.cache_role is SparseCacheRole.SPARSE}
    indexer = {n: s for n, s in mla.items() if s.cache_role is SparseCacheRole.INDEXER}
    if not source or not indexer:
        raise _refused("HiSparse requires sparse-MLA and indexer cache specs.")
    return source, indexer


def _one_block_size(mla: _MLALayers) -> int:
    block_sizes = {spec.block_size for spec in mla.values()}
    if len(block_sizes) != 1:
        raise _refused("HiSparse requires one resolved GPU block size.")
    return block_sizes.pop()


def _one_page_size(run: _MLALayers) -> int:
    page_sizes = {spec.page_size_bytes for spec in run.values()}
    if len(page_sizes) != 1:
        raise _refused(
            f"HiSparse hot-cache groups require one page size, got {sorted(page_sizes)}."
        )
    return page_sizes.pop()


def _packed_runs(source: _MLALayers, indexer_page: int) -> list[dict[str, MLAAttentionSpec]]:
    """Runs behind an index-group leader, joined while their pages fit the indexer's page."""
    units: list[dict[str, MLAAttentionSpec]] = []
    for name, spec in source.items():
        if spec.is_index_group_leader or not units:
            units.append({})
        units[-1][name] = spec
    runs: list[dict[str, MLAAttentionSpec]] = []
    filled = 0
    for unit in units:
        page = sum(spec.page_size_bytes for spec in unit.values())
        if not runs or filled + page > indexer_page:
            runs.append({})
            filled = 0
        runs[-1].update(unit)
        filled += page
    return runs


def _derived_group(run: _MLALayers, suffix: str, spec: KVCacheSpec) -> KVCacheGroup:
    names = tuple(f"{name}{suffix}" for name in run)
    return KVCacheGroup(layer_names=names, spec=spec, enable_kv_transfer=False)
