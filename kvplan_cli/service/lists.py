"""What kvplan knows: bundled models, architectures and cards."""

from __future__ import annotations

from kvplan_cli.engine_rules import NEWEST
from kvplan_cli.loader import catalogue
from kvplan_cli.loader.coverage import architecture_support
from kvplan_cli.results import BundledCard, BundledModel, KnownModels


def known_models() -> KnownModels:
    """The catalogue and the engine's registry."""
    return KnownModels(
        engine_release=NEWEST,
        models=tuple(
            BundledModel(
                name=model.name,
                hub_id=model.hub_id,
                architecture=next(iter(model.config.get("architectures") or []), None),
            )
            for model in catalogue.models()
        ),
        architectures=architecture_support(),
    )


def known_gpus() -> tuple[BundledCard, ...]:
    """The bundled cards."""
    return tuple(
        BundledCard(
            name=card.name, gpu=card.gpu, marketing_gb=card.marketing_gb, origin=card.origin
        )
        for card in catalogue.gpus()
    )
