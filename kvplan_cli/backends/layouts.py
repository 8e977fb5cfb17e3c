"""The KV cache layouts that all backends of a worker read.

Source: vLLM 0.33.0 ``vllm/v1/attention/backends/utils.py:get_supported_kv_cache_layouts``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kvplan_cli.backends.backend import Backend, Layouts
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.layouts import KVCacheLayout

# Best first, where no backend has a say.
DEFAULT_LAYOUTS: Layouts = (
    KVCacheLayout.LBNHC,
    KVCacheLayout.LBHNC,
    KVCacheLayout.BLNHC,
    KVCacheLayout.BLHNC,
    KVCacheLayout.BHLNC,
    KVCacheLayout.LHBNC,
)


def shared_layouts(backends: Iterable[Backend], facts: Facts) -> Layouts:
    """Layouts that every backend reads, best first; a refusal where there is none.

    Backends that agree keep their order; otherwise the layout that most put first wins.
    """
    declared = [
        layouts for backend in backends if (layouts := backend.layouts(facts)) is not None
    ] or [DEFAULT_LAYOUTS]
    if all(layouts == declared[0] for layouts in declared[1:]):
        return declared[0]
    votes = Counter(layouts[0] for layouts in declared)
    common = [layout for layout in KVCacheLayout if all(layout in layouts for layouts in declared)]
    if not common:
        names = [[layout.name for layout in layouts] for layouts in declared]
        raise model_refusal(
            "ValueError", f"No KV cache layout satisfies every supported set: {names}."
        )
    return tuple(sorted(common, key=lambda layout: votes[layout], reverse=True))
