"""The commands as calls: the same questions, answered with the same documents.

``import kvplan_cli`` offers these. Flags have the engine's Python names and go by keyword, sizes
are texts as on the command line or integers of bytes, and errors are ``kvplan_cli.KvplanError``
with every fault of a call in ``problems``.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from kvplan_cli.library_question import Model, Question
from kvplan_cli.loader.axes import read_axes
from kvplan_cli.loader.flag_values import COMMAND_LINE, read_flags
from kvplan_cli.loader.problems import Problems
from kvplan_cli.loader.questions import read_concurrency, read_end, read_quantity, read_step
from kvplan_cli.loader.request_mix import read_mix
from kvplan_cli.loader.sizes import parse_size, parse_sizes
from kvplan_cli.results import FitRequest
from kvplan_cli.results_diff import DiffRequest, Side
from kvplan_cli.results_gate import GateRequest
from kvplan_cli.results_solve import Needs, SolveRequest
from kvplan_cli.results_sweep import SweepRequest

if TYPE_CHECKING:
    from kvplan_cli.report.diff_document import DiffDocument
    from kvplan_cli.report.document import FitDocument
    from kvplan_cli.report.explain_document import ExplainDocument
    from kvplan_cli.report.gate_document import GateDocument
    from kvplan_cli.report.solve_document import SolveDocument
    from kvplan_cli.report.sweep_document import SweepDocument
    from kvplan_cli.report.verify_document import VerifyDocument

_SIZES: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "kv_mem": parse_sizes,
    "gpu_mem": parse_size,
    "weights": parse_sizes,
}
_LOW: Final = "low"
# Names of a request whose values are taken as they are.
_PLAIN: Final = (
    "gpu",
    "engine_version",
    "profile",
    "save_profile",
    "environment",
    "deployment",
    "service",
    "env",
)


def request(model: Model = "", **question: Unpack[Question]) -> FitRequest:
    """One question, as the other calls ask it; ``diff`` takes two.

    model: MODEL as on the command line. question: see ``Question``. Raises: InputError with all
    faults.
    """
    given: dict[str, Any] = {name: value for name, value in question.items() if value is not None}
    problems = Problems()
    fields: dict[str, Any] = {}
    for name, read in _SIZES.items():
        with problems.collecting():
            if name in given:
                fields[f"{name}_bytes"] = read(given.pop(name), name)
    fields |= {name: given.pop(name) for name in _PLAIN if name in given}
    command = given.pop("command", ())
    log = given.pop("from_log", None)
    with problems.collecting():
        read_flags(given, COMMAND_LINE)
    problems.finish()
    return FitRequest(
        model=str(model),
        command=tuple(shlex.split(command) if isinstance(command, str) else command),
        from_log=None if log is None else str(log),
        hf_overrides=given.pop("hf_overrides", {}),
        flags=given,
        **fields,
    )


def fit(model: Model = "", **question: Unpack[Question]) -> FitDocument:
    """Does it fit: budget, groups, blocks, tokens, concurrency, longest context.

    question: see ``Question``; at least one of ``kv_mem``, ``gpu``, ``gpu_mem``, ``from_log``,
    ``profile`` or ``kv_cache_memory_bytes``. The answer holds what ``kvplan fit --json`` prints:
    ``answer.verdict.answer``, ``answer.plan.num_blocks`` (plan is None where it does not fit).
    Raises: InputError, UnplannableError, EngineRefusalError.
    """
    from kvplan_cli.report.build import fit_document
    from kvplan_cli.service.fit import fit as service_fit

    return fit_document(service_fit(request(model, **question)))


def explain(model: Model = "", **question: Unpack[Question]) -> ExplainDocument:
    """Why: each figure as formula, values and source, where memory goes, what is wasted.

    question: as for ``fit``; ``answer.fit`` is its answer. Raises: as ``fit``.
    """
    from kvplan_cli.report.explain_document import explain_document
    from kvplan_cli.service.explain import explain as service_explain

    return explain_document(service_explain(request(model, **question)))


def solve(
    model: Model = "",
    quantity: str = "",
    *,
    concurrency: float | str | None = None,
    requests: Mapping[int, int] | str | None = None,
    step: float | str | None = None,
    on: str = _LOW,
    **question: Unpack[Question],
) -> SolveDocument:
    """The least or most of one quantity with which the needs hold; ``answer.value`` holds it.

    quantity: ``"gpu-memory-utilization"``, ``"max-model-len"`` and kin. concurrency: requests of
    max_model_len at a time. requests: tokens to count, or ``"4096:100,131072:2"``. step: grid of
    the answer. on: ``"low"`` or ``"likely"`` end of an estimate. question: see ``Question``.
    Raises: as ``fit``.
    """
    from kvplan_cli.report.solve_document import solve_document
    from kvplan_cli.service.solve import solve as service_solve

    sought = read_quantity(quantity or None)
    mix = requests
    if isinstance(mix, Mapping):
        mix = ",".join(f"{tokens}:{count}" for tokens, count in mix.items())
    needs = Needs(
        concurrency=None if concurrency is None else read_concurrency(str(concurrency)),
        requests=() if mix is None else read_mix(mix, "requests"),
    )
    asked = SolveRequest(
        fit=request(model, **question),
        quantity=sought,
        needs=needs,
        on=read_end(on),
        step=None if step is None else read_step(str(step), sought),
    )
    return solve_document(service_solve(asked))


def sweep(
    model: Model = "",
    vary: Mapping[str, Sequence[Any] | str] | None = None,
    *,
    where: Sequence[str] = (),
    sort: str | None = None,
    on: str = _LOW,
    **question: Unpack[Question],
) -> SweepDocument:
    """Every combination of the varied flags, planned; ``answer.rows`` holds them.

    vary: a flag, ``gpu``, ``gpu_mem``, ``kv_mem`` or ``weights`` to its values: a list, or a text
    such as ``"8k..128k*2"``. where, sort: as on the command line. question: see ``Question``.
    Raises: as ``fit``; a point that the engine would refuse is a row with the reason.
    """
    from kvplan_cli.report.sweep_document import sweep_document
    from kvplan_cli.service.select import read_condition, read_order, select
    from kvplan_cli.service.sweep import sweep as service_sweep

    axes = read_axes([f"{name}={_values(values)}" for name, values in (vary or {}).items()])
    conditions = tuple(read_condition(text, axes) for text in where)
    order = () if sort is None else read_order(sort, axes)
    asked = SweepRequest(fit=request(model, **question), axes=axes, on=read_end(on))
    result = service_sweep(asked)
    return sweep_document(result, select(result.rows, result.axes, conditions, order))


def _values(values: Sequence[Any] | str) -> str:
    return values if isinstance(values, str) else ",".join(str(value) for value in values)


def verify(log: Model, model: Model = "", **question: Unpack[Question]) -> VerifyDocument:
    """A start-up log against the plan: each printed figure beside the predicted one.

    question: see ``Question``, without memory. Raises: as ``fit``.
    """
    from kvplan_cli.report.verify_document import verify_document
    from kvplan_cli.service.verify import verify as service_verify

    question["from_log"] = log
    return verify_document(service_verify(request(model, **question)))


def diff(a: Model | FitRequest, b: Model | FitRequest) -> DiffDocument:
    """What changes from one plan to another: each a ``request``, or a saved answer's path.

    Raises: as ``fit``; each fault says which of the two it is about.
    """
    from kvplan_cli.report.diff_document import diff_document
    from kvplan_cli.service.diff import diff as service_diff

    return diff_document(service_diff(DiffRequest(a=_side(a), b=_side(b))))


def _side(given: Model | FitRequest) -> Side:
    asked = given if isinstance(given, FitRequest) else request(given)
    name = asked.model or shlex.join(asked.command)
    # A request with nothing but a model may be a saved answer.
    return Side(name=name, request=asked, has_options=asked != FitRequest(model=asked.model))


def gate(
    files: Model | Sequence[Model],
    *,
    environments: Sequence[str] = (),
    deployments: Sequence[str] = (),
    on: str = _LOW,
) -> GateDocument:
    """Plan files held against what they expect, all of them whatever becomes of some.

    files: paths or patterns. environments, deployments: those that are checked, empty for all.
    Raises: InputError where the call itself is wrong.
    """
    from kvplan_cli.report.gate_document import gate_document
    from kvplan_cli.service.gate import gate as service_gate

    named = (files,) if isinstance(files, str | Path) else files
    asked = GateRequest(
        files=tuple(str(name) for name in named),
        environments=tuple(environments),
        deployments=tuple(deployments),
        on=read_end(on),
    )
    return gate_document(service_gate(asked))
