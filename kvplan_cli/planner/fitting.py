"""Does one request fit, and how long may it be: the checks before anything is allocated.

Source: vLLM 0.33.0 ``v1/core/kv_cache_planning.py`` (``_check_enough_kv_cache_memory``,
``_estimate_max_model_len_from_groups``, ``_auto_fit_max_model_len``).
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan_cli.grouping.group import KVCacheGroup, Refusal, RefusalKind, RefusedError
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.planner.empty_blocks import check_pages
from kvplan_cli.planner.host_pool import host_pool_blocks
from kvplan_cli.planner.sizing import request_blocks
from kvplan_cli.units import format_gib, largest_fitting
from kvplan_cli.values import dataclass

_SEE = "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerMemory:
    """One worker's groups and memory.

    available_bytes: what allocation may use. null_block_bytes: what checks leave out of it; 0 in
    releases that check against all of it. checkable_bytes: what one request must fit.
    """

    index: int
    groups: tuple[KVCacheGroup, ...]
    bytes_per_block: int
    available_bytes: int
    null_block_bytes: int

    @property
    def checkable_bytes(self) -> int:
        """Available bytes less the null block, which the engine never hands out."""
        return self.available_bytes - self.null_block_bytes

    def need_bytes(self, max_model_len: int, settings: PlannerSettings) -> int:
        """Bytes that one request of this length needs on this worker."""
        blocks = request_blocks(self.groups, max_model_len, settings.request_limits)
        return blocks * self.bytes_per_block


def longest_fitting(
    worker: WorkerMemory, budget_bytes: int, settings: PlannerSettings, upper: int
) -> int:
    """Tokens of the longest request up to ``upper`` that fits the budget; 0 if none does."""
    limits = settings.request_limits

    def fits(max_model_len: int) -> bool:
        if settings.hisparse is not None and not _host_fits(worker, max_model_len, settings):
            return False
        blocks = request_blocks(worker.groups, max_model_len, limits)
        return blocks * worker.bytes_per_block <= budget_bytes

    return largest_fitting(fits, upper)


def _host_fits(worker: WorkerMemory, max_model_len: int, settings: PlannerSettings) -> bool:
    try:
        host_pool_blocks(worker.groups, max_model_len, settings)
    except RefusedError:
        return False
    return True


def check_request_fits(worker: WorkerMemory, max_model_len: int, settings: PlannerSettings) -> None:
    """Make sure that one request of ``max_model_len`` fits beside the null block.

    Raises: RefusedError with the engine's figures.
    """
    available = worker.checkable_bytes
    if available <= 0:
        raise RefusedError(no_memory(worker, max_model_len))
    check_pages(worker.groups)
    needed = worker.need_bytes(max_model_len, settings)
    if needed > available:
        estimate = longest_fitting(worker, available, settings, max_model_len)
        raise RefusedError(too_large(worker, max_model_len, needed, available, estimate))


def no_memory(worker: WorkerMemory, max_model_len: int) -> Refusal:
    """The refusal when nothing is left once the null block is taken off."""
    return Refusal(
        kind=RefusalKind.NO_MEMORY,
        error_type="ValueError",
        message=(
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` "
            "when initializing the engine (this flag also controls CPU memory reservation on "
            f"the CPU backend, despite its name). {_SEE}"
        ),
        max_model_len=max_model_len,
        available_bytes=worker.checkable_bytes,
        worker=worker.index,
        bytes_per_block=worker.bytes_per_block,
    )


def too_large(
    worker: WorkerMemory, max_model_len: int, needed: int, available: int, estimate: int
) -> Refusal:
    """The refusal when one request does not fit; ``estimate`` 0 means no length does."""
    hint = ""
    if estimate > 0:
        hint = f"Based on the available memory, the estimated maximum model length is {estimate}. "
    return Refusal(
        kind=RefusalKind.REQUEST_TOO_LARGE,
        error_type="ValueError",
        message=(
            f"To serve at least one request with the model's max seq len ({max_model_len}), "
            f"({format_gib(needed)} GiB KV cache is needed, which is larger than the available "
            f"KV cache memory ({format_gib(available)} GiB). {hint}Try increasing "
            "`gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or "
            f"decreasing `max_model_len` when initializing the engine. {_SEE}"
        ),
        max_model_len=max_model_len,
        needed_bytes=needed,
        available_bytes=available,
        estimated_max_model_len=estimate or None,
        worker=worker.index,
        bytes_per_block=worker.bytes_per_block,
    )


def auto_fit_max_model_len(
    workers: Sequence[WorkerMemory], settings: PlannerSettings
) -> tuple[int, int | None]:
    """The longest length that fits every worker, and the index of the one that limits it.

    The limiting worker is None where the model's full length fits.
    Raises: RefusedError when not one token fits.
    """
    longest, limiting = settings.max_model_len, None
    for worker in workers:
        if not worker.groups:
            continue
        # A worker that takes the shortest length so far cannot lower it.
        fitting = longest_fitting(worker, worker.checkable_bytes, settings, longest)
        if fitting < longest:
            longest, limiting = fitting, worker.index
    if longest > 0:
        return longest, limiting
    raise RefusedError(
        Refusal(
            kind=RefusalKind.CANNOT_AUTO_FIT,
            error_type="ValueError",
            message=(
                "Cannot auto-fit max_model_len: not enough GPU memory available to serve even "
                "a single token. Try increasing `gpu_memory_utilization`."
            ),
            max_model_len=settings.max_model_len,
            available_bytes=workers[limiting or 0].checkable_bytes,
            worker=limiting,
            bytes_per_block=workers[limiting or 0].bytes_per_block,
        )
    )
