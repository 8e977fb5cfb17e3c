"""What kvplan knows - architectures, bundled models, cards - as documents and as tables."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Final, Literal, NamedTuple

from rich.console import RenderableType

from kvplan_cli.report.document import SCHEMA_VERSION
from kvplan_cli.report.grid import Column, Page, grid
from kvplan_cli.report.sheet import drawn
from kvplan_cli.report.words import count, gib
from kvplan_cli.results import BundledCard, KnownModels


class ArchitectureDocument(NamedTuple):
    """One architecture of the engine's registry."""

    name: Annotated[str, "The engine's class."]
    part: Annotated[str, "What the engine serves it as."]
    support: Annotated[Literal["exact", "unproved", "refused"], "Whether plans are proved."]
    vectors: Annotated[int, "Answers of the engine that its plans equal."]
    reason: Annotated[str | None, "Why it is refused."]


class BundledModelDocument(NamedTuple):
    """One model of the catalogue."""

    name: Annotated[str, "As MODEL."]
    hub_id: Annotated[str, "The repository that it stands for."]
    architecture: Annotated[str | None, "The class that its config names."]


class ModelsDocument(NamedTuple):
    """The whole answer of ``kvplan models``."""

    schema_version: Annotated[Literal[1], "Raised when a key changes its meaning or goes."]
    command: Annotated[Literal["models"], "The command that made it."]
    engine_release: Annotated[str, "The release whose registry this is."]
    models: Annotated[tuple[BundledModelDocument, ...], "The catalogue."]
    architectures: Annotated[tuple[ArchitectureDocument, ...], "The engine's registry."]


class CardDocument(NamedTuple):
    """One card of the catalogue."""

    name: Annotated[str, "As --gpu."]
    device_name: Annotated[str, "The driver's name."]
    compute_capability: Annotated[str, "Major.minor."]
    total_memory_bytes: Annotated[int, "What CUDA calls total."]
    marketing_gb: Annotated[int, "The size in its name, which is more."]
    origin: Annotated[str, "Where the total comes from."]


class GpusDocument(NamedTuple):
    """The whole answer of ``kvplan gpus``."""

    schema_version: Annotated[Literal[1], "Raised when a key changes its meaning or goes."]
    command: Annotated[Literal["gpus"], "The command that made it."]
    cards: Annotated[tuple[CardDocument, ...], "The catalogue."]


def models_document(known: KnownModels) -> ModelsDocument:
    """The contract's form of what is planned."""
    return ModelsDocument(
        schema_version=SCHEMA_VERSION,
        command="models",
        engine_release=known.engine_release,
        models=tuple(
            BundledModelDocument(
                name=model.name,
                hub_id=model.hub_id,
                architecture=model.architecture,
            )
            for model in known.models
        ),
        architectures=tuple(
            ArchitectureDocument(
                name=entry.name,
                part=entry.part,
                support=entry.support.value,
                vectors=entry.vectors,
                reason=entry.reason,
            )
            for entry in known.architectures
        ),
    )


def gpus_document(cards: Sequence[BundledCard]) -> GpusDocument:
    """The contract's form of the cards."""
    return GpusDocument(
        schema_version=SCHEMA_VERSION,
        command="gpus",
        cards=tuple(
            CardDocument(
                name=card.name,
                device_name=card.gpu.name,
                compute_capability=".".join(map(str, card.gpu.capability)),
                total_memory_bytes=card.gpu.total_memory_bytes,
                marketing_gb=card.marketing_gb,
                origin=card.origin,
            )
            for card in cards
        ),
    )


_MODEL_COLUMNS: Final = (
    Column(title="name", align="left"),
    Column(title="architecture", figures=False),
)
_ARCHITECTURE_COLUMNS: Final = (
    Column(title="architecture", align="left"),
    Column(title="plans", align="left"),
    Column(title="vectors"),
    Column(title="reason", figures=False),
)
_CARD_COLUMNS: Final = (
    Column(title="name", align="left"),
    Column(title="GiB"),
    Column(title="capability"),
    Column(title="device", figures=False),
)


def render_models(document: ModelsDocument, page: Page) -> str:
    """The catalogue, then the engine's registry by part, then the count in one sentence."""
    sections = [
        grid(
            f"Bundled models ({len(document.models)})",
            _MODEL_COLUMNS,
            [(m.name, m.architecture or "-") for m in document.models],
            page,
        ),
        *_architecture_tables(document.architectures, page),
    ]
    supports = Counter(entry.support for entry in document.architectures)
    sentence = (
        f"Of {len(document.architectures)} architectures of vLLM {document.engine_release}, "
        f"{supports['exact']} are planned exactly, {supports['unproved']} by rules without a "
        f"vector of their own, {supports['refused']} are refused."
    )
    return drawn(sections, sentence, page)


def _architecture_tables(
    entries: Sequence[ArchitectureDocument], page: Page
) -> list[RenderableType]:
    parts = dict.fromkeys(entry.part for entry in entries)
    return [
        grid(
            f"Architectures: {part}",
            _ARCHITECTURE_COLUMNS,
            [
                (entry.name, entry.support, count(entry.vectors), entry.reason or "")
                for entry in entries
                if entry.part == part
            ],
            page,
        )
        for part in parts
    ]


def render_gpus(document: GpusDocument, page: Page) -> str:
    """The cards, and what their memory is."""
    rows = [
        (card.name, gib(card.total_memory_bytes), card.compute_capability, card.device_name)
        for card in document.cards
    ]
    sentence = "Memory is what CUDA reports as total, which is less than the size in the name."
    return drawn([grid("Cards", _CARD_COLUMNS, rows, page)], sentence, page)
