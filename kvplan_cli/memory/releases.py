"""What releases account for differently while they find the memory for the cache.

From public start-up logs and the releases' own code; 0.32 and 0.33 were read, not measured.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.values import dataclass

Release = tuple[int, int, int]
# Source: vLLM 0.33.0 ``v1/worker/gpu_worker.py``: "enabled (default since v0.21.0)".
_GRAPHS_FROM: Final[Release] = (0, 21, 0)
_BUFFERS_FROM: Final[Release] = (0, 26, 0)
_PLAIN_SAMPLER: Final = ((0, 26, 0), (0, 33, 0))
_LARGE_COMMUNICATORS_BEFORE: Final[Release] = (0, 26, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRules:
    """One release's accounting.

    takes_graphs: an estimate for CUDA graphs comes off. flashinfer_sampler: the profile run
    samples with FlashInfer's kernels. lasting_buffers: the runner allocates its buffers before
    it measures; in older releases they come with the peak. large_communicators: tensor parallel
    ranks over NVLink keep two GiB outside torch.
    """

    takes_graphs: bool = True
    flashinfer_sampler: bool = True
    lasting_buffers: bool = True
    large_communicators: bool | None = None


NEWEST_MEMORY: Final = MemoryRules()


def memory_rules(release: Release | None) -> MemoryRules:
    """The accounting of a release; the newest one's where none is known.

    large_communicators is None where no log tells.
    """
    if release is None:
        return NEWEST_MEMORY
    first, behind = _PLAIN_SAMPLER
    return MemoryRules(
        takes_graphs=release >= _GRAPHS_FROM,
        flashinfer_sampler=not first <= release < behind,
        lasting_buffers=release >= _BUFFERS_FROM,
        large_communicators=True if release < _LARGE_COMMUNICATORS_BEFORE else None,
    )
