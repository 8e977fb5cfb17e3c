"""The JSON contract of ``kvplan sweep``: one document, or one row a line."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, NamedTuple

from kvplan_cli import __version__
from kvplan_cli.report.document import (
    SCHEMA_VERSION,
    InputDocument,
    ModelDocument,
    NoticeDocument,
    Scalar,
)
from kvplan_cli.report.json_form import dumps
from kvplan_cli.results_sweep import Row, Selection, SweepResult


class AxisDocument(NamedTuple):
    """One thing that was varied."""

    name: Annotated[str, "The engine's flag, or gpu, gpu_mem, kv_mem, weights."]
    values: Annotated[tuple[Scalar, ...], "In order; bytes for memory; null: the default."]


class RowDocument(NamedTuple):
    """One point."""

    values: Annotated[Mapping[str, Scalar], "Axis to its value; bytes for memory."]
    state: Annotated[
        Literal["fits", "does_not_fit", "refused", "unplannable", "wrong_input"],
        "What came of it; refused: the engine takes no such flags.",
    ]
    reason: Annotated[str | None, "Why it does not fit."]
    best: Annotated[bool, "Whether it is the best row."]
    gpus: Annotated[int, "Cards of the deployment: TP x PP x PCP x DP."]
    available_bytes: Annotated[int | None, "For the cache, on the worker that has least."]
    max_model_len_tokens: Annotated[int | None, "Length of a request, after auto-fit."]
    num_blocks: Annotated[int | None, "Blocks of every worker."]
    kv_cache_size_tokens: Annotated[int | None, "Token capacity."]
    max_concurrency_requests: Annotated[float | None, "Requests of that length at a time."]


class SweepDocument(NamedTuple):
    """The whole answer of ``kvplan sweep``."""

    schema_version: Annotated[Literal[1], "Raised when a key changes its meaning or goes."]
    command: Annotated[Literal["sweep"], "The command that made it."]
    kvplan_version: Annotated[str, "The program's version."]
    engine_release: Annotated[str, "The vLLM release whose rules the plans follow."]
    model: Annotated[ModelDocument | None, "What was planned; null where no point was."]
    inputs: Annotated[tuple[InputDocument, ...], "What all points share, and where it came from."]
    axes: Annotated[tuple[AxisDocument, ...], "What was varied."]
    decided_on: Annotated[
        Literal["given", "low", "likely", "high"], "The memory: given, or this end of its estimate."
    ]
    points_total: Annotated[int, "Points asked for."]
    points_done: Annotated[int, "Points planned; fewer after an interrupt."]
    interrupted: Annotated[bool, "Whether the user ended it early."]
    rows: Annotated[tuple[RowDocument, ...], "Those that passed --where, sorted."]
    exit_code: Annotated[int, "The process's exit code."]
    notices: Annotated[tuple[NoticeDocument, ...], "Warnings and notes."]

    def to_json(self) -> str:
        """The text that the command prints with ``--json``."""
        return dumps(self)


# As a shell ends a process that was interrupted.
INTERRUPTED: Final = 130


def sweep_document(result: SweepResult, selection: Selection) -> SweepDocument:
    """The contract's form of the selected rows."""
    names = [axis.name for axis in result.axes]
    return SweepDocument(
        schema_version=SCHEMA_VERSION,
        command="sweep",
        kvplan_version=__version__,
        engine_release=result.engine_release,
        model=_model(result),
        inputs=tuple(
            InputDocument(key=origin.key, value=origin.value, origin=origin.source)
            for origin in result.origins
        ),
        axes=tuple(AxisDocument(name=axis.name, values=axis.values) for axis in result.axes),
        decided_on=result.on.value if result.estimated else "given",
        points_total=result.total,
        points_done=len(result.rows),
        interrupted=result.interrupted,
        rows=tuple(
            _row(row, names, best=index == selection.best)
            for index, row in enumerate(selection.rows)
        ),
        exit_code=INTERRUPTED if result.interrupted else int(selection.exit_code),
        notices=tuple(
            NoticeDocument(kind=notice.kind.value, code=notice.code, message=notice.message)
            for notice in result.notices
        ),
    )


def _model(result: SweepResult) -> ModelDocument | None:
    if result.architecture is None:
        return None
    return ModelDocument(
        name=result.model, origin=result.model_origin, architecture=result.architecture
    )


def _row(row: Row, names: list[str], *, best: bool) -> RowDocument:
    return RowDocument(
        values=dict(zip(names, row.values, strict=True)),
        state=row.state.value,
        reason=row.reason,
        best=best,
        gpus=row.gpus,
        available_bytes=row.available_bytes,
        max_model_len_tokens=row.max_model_len,
        num_blocks=row.num_blocks,
        kv_cache_size_tokens=row.kv_cache_size_tokens,
        max_concurrency_requests=row.max_concurrency,
    )
