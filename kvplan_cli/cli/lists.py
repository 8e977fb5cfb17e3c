"""``kvplan models`` and ``kvplan gpus``."""

from __future__ import annotations

from kvplan_cli.cli.streams import page, write
from kvplan_cli.report.json_form import dumps
from kvplan_cli.report.lists import gpus_document, models_document, render_gpus, render_models
from kvplan_cli.service.lists import known_gpus, known_models


def show_models(*, as_json: bool) -> int:
    """Put what is planned on stdout."""
    document = models_document(known_models())
    write(f"{dumps(document)}\n" if as_json else render_models(document, page()))
    return 0


def show_gpus(*, as_json: bool) -> int:
    """Put the cards on stdout."""
    document = gpus_document(known_gpus())
    write(f"{dumps(document)}\n" if as_json else render_gpus(document, page()))
    return 0
