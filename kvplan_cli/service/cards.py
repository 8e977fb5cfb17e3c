"""The cards that a request names: one for all stages, one a stage, or what the driver finds."""

from __future__ import annotations

from typing import Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.gpus import Gpu
from kvplan_cli.loader.catalogue import find_gpu
from kvplan_cli.results import Notice, NoticeKind
from kvplan_cli.units import GIB
from kvplan_cli.values import dataclass

AUTO: Final = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedCards:
    """The cards, one or one a pipeline stage, and what is to be said of them."""

    gpus: tuple[Gpu, ...]
    notices: tuple[Notice, ...] = ()

    @property
    def first(self) -> Gpu:
        """The card whose rules decide: the engine resolves its settings on the first rank."""
        return self.gpus[0]


def named_cards(names: str, stages: int) -> NamedCards:
    """The cards of ``--gpu``: a name, one a stage joined with commas, or ``auto``.

    Raises: InputError for an unknown name, a number that is not the stages', no driver.
    """
    if names.strip().lower() == AUTO:
        return _found(stages)
    listed = [name.strip() for name in names.split(",")]
    gpus = tuple(find_gpu(name).gpu for name in listed)
    if len(gpus) not in (1, stages):
        raise InputError(
            Problem(
                where="--gpu",
                reason=f"{len(gpus)} cards for {stages} pipeline stages",
                way_out="name one card, or one a stage; ranks of a stage have the same card",
            )
        )
    return NamedCards(gpus=gpus, notices=_unlike(gpus))


def _found(stages: int) -> NamedCards:
    from kvplan_cli.loader.driver import driver_cards

    cards = driver_cards()
    first = cards[0]
    notices = [_found_notice(first.gpu, first.known)]
    if len({card.gpu for card in cards}) > 1:
        notices.append(
            Notice(
                kind=NoticeKind.WARNING,
                code="unlike_cards",
                message="The driver names unlike cards: the first is planned for. Name one a "
                "pipeline stage with --gpu a,b.",
            )
        )
    return NamedCards(gpus=(first.gpu,), notices=tuple(notices))


def _found_notice(gpu: Gpu, known: bool) -> Notice:
    size = f"{gpu.total_memory_bytes / GIB:.2f} GiB"
    if known:
        message = f"The driver names {gpu.name}: CUDA reports {size} on it."
        return Notice(kind=NoticeKind.NOTE, code="gpu_found", message=message)
    return Notice(
        kind=NoticeKind.WARNING,
        code="gpu_found",
        message=f"The driver names {gpu.name}, which kvplan does not know: {size} is what the "
        "driver does not keep for itself; CUDA may report a little less.",
    )


def _unlike(gpus: tuple[Gpu, ...]) -> tuple[Notice, ...]:
    if len({gpu.capability for gpu in gpus}) == 1:
        return ()
    return (
        Notice(
            kind=NoticeKind.WARNING,
            code="unlike_cards",
            message=f"The cards are of different kinds: batch limits and attention backends are "
            f"those of the first, {gpus[0].name}.",
        ),
    )
