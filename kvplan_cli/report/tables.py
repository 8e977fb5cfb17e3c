"""A fit for people: text from the document, never printed here.

One input line, the groups, the budget as a subtraction ladder, the workers, the capacity,
warnings, and last the answer in one sentence.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from kvplan_cli.report.answer import answer
from kvplan_cli.report.capacity import capacity_table, workers_table
from kvplan_cli.report.document import FitDocument, SettingsDocument
from kvplan_cli.report.grid import Page
from kvplan_cli.report.groups_table import groups_table
from kvplan_cli.report.ladder import memory_section
from kvplan_cli.report.measured_table import measured_table
from kvplan_cli.report.origins_text import origin_lines
from kvplan_cli.report.sheet import console_on, text_of
from kvplan_cli.report.words import count, printable

_ANSWER_STYLES: Final = {"fits": "bold green", "does_not_fit": "bold red", "depends": "bold yellow"}


def render(document: FitDocument, page: Page, *, verbose: bool = False) -> str:
    """The whole text, ending in a line feed. verbose: with the origin of every input."""
    buffer = io.StringIO()
    console = console_on(page, buffer)
    sentences = not page.wrap_sentences
    console.print(Text(input_line(document)), soft_wrap=sentences)
    for section in _sections(document, page):
        console.print()
        console.print(section)
    if verbose:
        console.print()
        for sentence in origin_lines(document):
            console.print(Text(sentence.text), soft_wrap=sentences)
    if document.notices:
        console.print()
    for notice in sorted(document.notices, key=lambda notice: notice.kind):
        line = Text(f"{notice.kind.capitalize()}: {printable(notice.message)}")
        if notice.kind == "warning":
            line.stylize("yellow", 0, len("Warning"))
        console.print(line, soft_wrap=sentences)
    console.print()
    style = _ANSWER_STYLES[document.verdict.answer]
    console.print(Text(answer(document), style=style), soft_wrap=sentences)
    return text_of(buffer)


def _sections(document: FitDocument, page: Page) -> Iterator[RenderableType]:
    if document.groups:
        yield groups_table(document, page)
    if document.measured is not None:
        yield measured_table(document.measured, page)
    yield from memory_section(document, page)
    if document.plan is not None and len(document.plan.workers) > 1:
        yield workers_table(document.plan, page)
    yield capacity_table(document, page)


def input_line(document: FitDocument) -> str:
    """What was planned, under what, in one line."""
    parts = [document.model.architecture]
    if document.settings is not None:
        parts += _settings(document.settings, _copies(document))
    if document.gpu is not None:
        assumed = " (assumed)" if document.gpu.assumed else ""
        parts.append(f"{document.gpu.name}{assumed}")
    parts.append(f"vLLM {document.engine.release}")
    return f"{printable(document.model.name)}: {printable(', '.join(parts))}"


def _copies(document: FitDocument) -> int:
    """Copies of the engine, each with a cache of its own: an input, for no plan holds it."""
    given = (each.value for each in document.inputs if each.key == "data_parallel_size")
    return next((value for value in given if isinstance(value, int)), 1)


def _settings(settings: SettingsDocument, copies: int) -> Iterator[str]:
    yield settings.dtype
    kv = settings.kv_cache_dtype
    yield f"KV {settings.dtype} (auto)" if kv == "auto" else f"KV {kv}"
    if settings.quantization:
        yield settings.quantization
    sizes = (
        ("TP", settings.tensor_parallel_size),
        ("PP", settings.pipeline_parallel_size),
        ("DCP", settings.decode_context_parallel_size),
        ("PCP", settings.prefill_context_parallel_size),
        ("DP", copies),
    )
    yield from (f"{name} {size}" for name, size in sizes if size > 1 or name == "TP")
    if settings.enable_expert_parallel:
        yield "EP"
    auto = "auto, up to " if settings.auto_fit_max_model_len else ""
    yield f"max_model_len {auto}{count(settings.max_model_len_tokens)}"
    yield f"max_num_batched_tokens {count(settings.max_num_batched_tokens)}"
    yield f"max_num_seqs {count(settings.max_num_seqs)}"
