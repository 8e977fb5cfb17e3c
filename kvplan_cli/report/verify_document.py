"""The JSON contract of ``kvplan verify``; see ``document`` for the rules of all contracts."""

from typing import Annotated, Literal, NamedTuple

from kvplan_cli import __version__
from kvplan_cli.report.document import (
    SCHEMA_VERSION,
    InputDocument,
    ModelDocument,
    NoticeDocument,
)
from kvplan_cli.report.json_form import dumps
from kvplan_cli.results_verify import Comparison, Unit, VerifyResult

# Hundredths are how prints are compared; a document has the figures themselves.
_HUNDREDTHS = {Unit.HUNDREDTH_REQUESTS: "requests", Unit.HUNDREDTH_PERCENT: "percent"}


class LogDocument(NamedTuple):
    """The log that was read."""

    name: Annotated[str, "The file, or stdin."]
    release: Annotated[str | None, "The engine's release as the log prints it."]
    rules: Annotated[str, "The release whose rules the prediction follows."]


class RangeDocument(NamedTuple):
    """Values from low to high; the same where there is one."""

    low: Annotated[int | float, "The least."]
    likely: Annotated[int | float, "The likely one."]
    high: Annotated[int | float, "The largest."]


class ComparisonDocument(NamedTuple):
    """One printed figure beside the predicted one."""

    figure: Annotated[str, "available, weights, tokens, concurrency and others."]
    process: Annotated[str, "Who printed it, where it is of one rank; else empty."]
    unit: Annotated[str, "bytes, tokens, blocks, requests, percent or layers."]
    line: Annotated[int, "The log's line, from 1."]
    printed: Annotated[str, "As it stands there."]
    printed_range: Annotated[RangeDocument, "All that prints so."]
    predicted: Annotated[RangeDocument | None, "Null where nothing is predicted."]
    agreement: Annotated[
        Literal["equal", "within_rounding", "in_range", "off", "not_predicted"],
        "in_range: inside the range of an estimate.",
    ]
    reason: Annotated[str | None, "Why it is off, or under which rules it agrees."]


class VerifyDocument(NamedTuple):
    """The whole answer of ``kvplan verify``."""

    schema_version: Annotated[Literal[1], "Raised when a key changes its meaning or goes."]
    command: Annotated[Literal["verify"], "The command that made it."]
    kvplan_version: Annotated[str, "The program's version."]
    log: Annotated[LogDocument, "What was read."]
    model: Annotated[ModelDocument, "What was planned."]
    inputs: Annotated[tuple[InputDocument, ...], "Flags, and the lines they were read from."]
    comparisons: Annotated[tuple[ComparisonDocument, ...], "In the log's order."]
    all_agree: Annotated[bool, "Nothing is off."]
    exit_code: Annotated[int, "The process's exit code."]
    notices: Annotated[tuple[NoticeDocument, ...], "Warnings and notes."]

    def to_json(self) -> str:
        """The text that the command prints with ``--json``."""
        return dumps(self)


def verify_document(result: VerifyResult) -> VerifyDocument:
    """The contract's form of ``result``."""
    return VerifyDocument(
        schema_version=SCHEMA_VERSION,
        command="verify",
        kvplan_version=__version__,
        log=LogDocument(name=result.log, release=result.log_release, rules=result.rules_release),
        model=ModelDocument(
            name=result.model, origin=result.model_origin, architecture=result.architecture
        ),
        inputs=tuple(
            InputDocument(key=origin.key, value=origin.value, origin=origin.source)
            for origin in result.origins
        ),
        comparisons=tuple(_comparison(each) for each in result.comparisons),
        all_agree=result.all_agree,
        exit_code=int(result.exit_code),
        notices=tuple(
            NoticeDocument(kind=notice.kind.value, code=notice.code, message=notice.message)
            for notice in result.notices
        ),
    )


def _comparison(each: Comparison) -> ComparisonDocument:
    predicted = None
    if each.predicted_low is not None:
        predicted = _range(
            each.unit, each.predicted_low, each.predicted_likely, each.predicted_high
        )
    middle = (each.printed_low + each.printed_high) // 2
    return ComparisonDocument(
        figure=each.figure,
        process=each.of,
        unit=_HUNDREDTHS.get(each.unit, each.unit.value),
        line=each.line,
        printed=each.printed,
        printed_range=_range(each.unit, each.printed_low, middle, each.printed_high),
        predicted=predicted,
        agreement=each.agreement.value,
        reason=each.reason,
    )


def _range(unit: Unit, low: int, likely: int | None, high: int | None) -> RangeDocument:
    ends = (low, low if likely is None else likely, low if high is None else high)
    if unit in _HUNDREDTHS:
        return RangeDocument(*(end / 100 for end in ends))
    return RangeDocument(*ends)
