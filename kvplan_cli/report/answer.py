"""The answer in one sentence, with the closest way out where it does not fit."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan_cli.planner.results import RefusalKind
from kvplan_cli.report.document import (
    EstimateDocument,
    FitDocument,
    OutcomeDocument,
    PlanDocument,
    RefusalDocument,
)
from kvplan_cli.report.words import count, gib, gib_unit, printable, requests


def answer(document: FitDocument) -> str:
    """``Fits: ...``, ``Does not fit: ...`` or ``Depends: ...``."""
    verdict = document.verdict.answer
    if verdict == "depends":
        settled = f". What settles it: {document.verdict.settled_by}"
        return f"Depends: {_depends(document)}{_way_out(document)}{settled}."
    if document.plan is not None:
        return f"Fits: {_fits(document, document.plan)}."
    if document.refusal is None:
        raise ValueError("a document has a plan or a refusal")
    return f"Does not fit: {_refused(document, document.refusal)}{_way_out(document)}."


def _fits(document: FitDocument, plan: PlanDocument) -> str:
    if plan.max_concurrency_requests is None:
        return "this model keeps no KV cache"
    length = count(plan.max_model_len_tokens)
    capacity = f"{count(plan.kv_cache_size_tokens)} tokens, {count(plan.num_blocks)} blocks"
    many = requests(plan.max_concurrency_requests)
    noun = "request" if many == "1.00" else "requests"
    sentence = f"{many} {noun} of {length} tokens at a time ({capacity})"
    if document.settings is not None and document.settings.auto_fit_max_model_len:
        sentence = f"the longest context is {length} tokens; {sentence}"
    return sentence + _over_the_range(document)


def _over_the_range(document: FitDocument) -> str:
    low = document.verdict.at_low.max_concurrency_requests
    high = document.verdict.at_high.max_concurrency_requests
    if low is None or high is None or requests(low) == requests(high):
        return ""
    return f"; {requests(low)} to {requests(high)} over the range of the memory estimate"


def _refused(document: FitDocument, refusal: RefusalDocument) -> str:
    match RefusalKind(refusal.kind):
        case RefusalKind.NO_MEMORY:
            return f"no memory is left for the KV cache ({_left(document)})"
        case RefusalKind.REQUEST_TOO_LARGE:
            return _too_large(refusal)
        case RefusalKind.CANNOT_AUTO_FIT:
            return f"not even the shortest context fits{_need(refusal)}"
        case RefusalKind.HOST_POOL_TOO_SMALL:
            return (
                f"the host pool needs {count(refusal.needed_blocks)} blocks, "
                f"{count(refusal.available_blocks)} are there"
            )
        case RefusalKind.TOO_FEW_STATES:
            return (
                f"{count(refusal.needed_blocks)} requests at a time need a state each, "
                f"{count(refusal.available_blocks)} blocks are there"
            )
        case _:
            first_line = printable(refusal.message.strip().split("\n")[0]).rstrip(".")
            return f"vLLM refuses this cache whatever the memory: {first_line}"


def _left(document: FitDocument) -> str:
    left = least_available(document.available_bytes_per_worker, document.verdict.decided_on)
    return f"{gib_unit(-left)} short" if left < 0 else gib_unit(left)


def _too_large(refusal: RefusalDocument) -> str:
    length = refusal.max_model_len_tokens
    what = "one request" if length is None else f"one request of {count(length)} tokens"
    where = "" if not refusal.worker else f" on worker {refusal.worker}"
    if refusal.needed_bytes is None or refusal.available_bytes is None:
        return f"{what} needs more than is available{where}"
    needed, available = _apart(refusal.needed_bytes, refusal.available_bytes)
    return f"{what} needs {needed}{where}, {available} are available"


def _need(refusal: RefusalDocument) -> str:
    if refusal.needed_bytes is None or refusal.available_bytes is None:
        return ""
    needed, available = _apart(refusal.needed_bytes, refusal.available_bytes)
    return f": it needs {needed}, {available} are available"


def _apart(first: int, second: int) -> tuple[str, str]:
    """Both sizes in GiB; in bytes where two decimals would not tell them apart."""
    if gib(first) != gib(second):
        return gib_unit(first), gib_unit(second)
    return f"{count(first)} bytes", f"{count(second)} bytes"


def _depends(document: FitDocument) -> str:
    """The likely answer, and the end of the range at which it turns."""
    verdict = document.verdict
    turned, end = (verdict.at_low, "low") if verdict.at_likely.fits else (verdict.at_high, "high")
    available = document.available_bytes_per_worker
    return (
        f"with the likely {gib_unit(least_available(available, 'likely'))} "
        f"{_does(verdict.at_likely)}, with the {end} "
        f"{gib_unit(least_available(available, end))} {_does(turned)}"
    )


def _does(outcome: OutcomeDocument) -> str:
    if not outcome.fits:
        return "it does not fit"
    if outcome.max_concurrency_requests is None:
        return "it fits"
    return (
        f"it fits ({requests(outcome.max_concurrency_requests)} requests of "
        f"{count(outcome.max_model_len_tokens)} tokens at a time)"
    )


def least_available(workers: Sequence[EstimateDocument], end: str) -> int:
    """The available bytes of the worker that has least, at one end of the range."""
    return min((int(getattr(worker, end)) for worker in workers), default=0)


def _way_out(document: FitDocument) -> str:
    way_out = document.way_out
    if way_out is None:
        return ""
    longest, change = document.longest_context_tokens, f"{way_out.flag} {way_out.value}"
    if way_out.flag == "--max-model-len" and way_out.value == str(longest):
        fits = f"the longest context that fits{_at_which_end(document)}"
        return f"; {fits} is {count(longest)} tokens ({printable(change)})"
    return f"; with {printable(change)}: {printable(way_out.effect)}"


def _at_which_end(document: FitDocument) -> str:
    """Of which memory a length is the longest, where the memory is a range."""
    workers, end = document.available_bytes_per_worker, document.verdict.decided_on
    certain = all(worker.low == worker.high for worker in workers)
    return "" if certain else f" with the {end} memory"
