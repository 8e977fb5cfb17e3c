"""What is to be said of the inputs of a plan, beside its figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from kvplan_cli.loader.catalogue import marketing_gpu
from kvplan_cli.loader.environment import PROCESS, GivenEnvironment
from kvplan_cli.loader.flag_values import GivenFlags
from kvplan_cli.results import Notice, NoticeKind
from kvplan_cli.units import GIB

ASSUMED_CARD: Final = Notice(
    kind=NoticeKind.NOTE,
    code="gpu_assumed",
    message=(
        "No card was named: batch limits and attention backends are those of an "
        "H100; --gpu NAME follows another card's rules."
    ),
)


def marketing_notice(size: int | None) -> tuple[Notice, ...]:
    card = None if size is None else marketing_gpu(size)
    if card is None:
        return ()
    return (
        Notice(
            kind=NoticeKind.WARNING,
            code="marketing_memory",
            message=(
                f"A card sold with {card.marketing_gb} GB has less: CUDA reports "
                f"{card.gpu.total_memory_bytes / GIB:.2f} GiB on {card.name}. "
                f"Use --gpu {card.name}, or --gpu-mem with what CUDA reports."
            ),
        ),
    )


def flag_notices(flags: GivenFlags, estimated: bool) -> tuple[Notice, ...]:
    """What is to be said of flags that are not modelled. estimated: whether memory is."""
    ignored = flags.ignored if estimated else (*flags.ignored, *flags.unestimated)
    messages = [("flag_not_modelled", note) for note in flags.notes]
    if estimated:
        messages += [
            ("flag_not_estimated", f"{place}: the estimate of the memory is made without it.")
            for place in flags.unestimated
        ]
    if ignored:
        names = (f"--{place.rpartition(': ')[2].removeprefix('--')}" for place in ignored)
        messages.append(("flags_ignored", f"Without effect on the plan: {', '.join(names)}."))
    return tuple(
        Notice(kind=NoticeKind.NOTE, code=code, message=message) for code, message in messages
    )


def environment_notices(env: GivenEnvironment) -> Iterator[Notice]:
    used = [f"{name}={env.values[name]}" for name in env.values if env.origins[name] == PROCESS]
    if used:
        message = f"From the environment: {', '.join(used)}."
        yield Notice(kind=NoticeKind.NOTE, code="environment", message=message)
    for message in env.unread:
        yield Notice(kind=NoticeKind.NOTE, code="variable_not_read", message=message)


def expectation_notice(expect: Mapping[str, object]) -> tuple[Notice, ...]:
    if not expect:
        return ()
    return (
        Notice(
            kind=NoticeKind.NOTE,
            code="expectations_not_checked",
            message=f"The file expects {', '.join(expect)}: kvplan gate checks it.",
        ),
    )


def file_notices(notes: Iterable[str]) -> tuple[Notice, ...]:
    """What the loader found worth saying of a file that deploys the engine."""
    return tuple(Notice(kind=NoticeKind.NOTE, code="deployment", message=note) for note in notes)
