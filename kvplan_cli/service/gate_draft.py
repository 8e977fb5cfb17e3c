"""A first plan file: what is asked for today, with today's figures as expectations."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from kvplan_cli.engine_args import AUTO_MAX_MODEL_LEN
from kvplan_cli.engine_rules import TokenLine
from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.documents import place
from kvplan_cli.loader.flag_values import COMMAND_LINE, read_flags
from kvplan_cli.loader.known_memory import MEMORY_FIELDS
from kvplan_cli.loader.model_source import OriginKind
from kvplan_cli.loader.plan_chain import read_chain
from kvplan_cli.planner.results import Plan, Refusal
from kvplan_cli.results_gate import Draft, DraftExpectation, DraftRequest
from kvplan_cli.results_solve import Needs
from kvplan_cli.service.fit import Answer, answer_for
from kvplan_cli.service.inputs import Inputs, known_of, read_inputs
from kvplan_cli.service.needs import unmet
from kvplan_cli.units import GIB, MIB

_PATHS: Final = ("from-log", "profile")


def draft(request: DraftRequest) -> Draft:
    """Plan what is asked for, and write down what it holds, less a margin.

    Raises: InputError, also where it does not fit, UnplannableError, EngineRefusalError.
    """
    inputs = read_inputs(request.fit)
    _check_one_plan(inputs, request)
    answer = answer_for(inputs)
    outcome: Plan | Refusal = getattr(answer, request.on.value)
    if isinstance(outcome, Refusal):
        raise _does_not_fit(answer, outcome, request)
    folder = request.path.absolute().parent
    extends = inputs.path
    certain = all(estimate.is_certain for estimate in answer.available)
    return Draft(
        path=request.path,
        extends=None if extends is None else _beside(extends, folder),
        model=_model(inputs, folder) if extends is None else None,
        service=request.fit.service,
        keys=dict(_keys(inputs, request, folder)),
        serve=_serve(inputs, request),
        env=dict(inputs.args.env) if extends is None else {},
        asked=" ".join(request.fit.command),
        expectations=tuple(_expectations(inputs, answer, outcome, request.margin)),
        margin=request.margin,
        decided_on=None if certain else request.on,
    )


def _check_one_plan(inputs: Inputs, request: DraftRequest) -> None:
    """A file of several plans has no one figure to expect, and none extends itself.

    Raises: InputError.
    """
    if inputs.path is None:
        return
    if inputs.path.resolve() == request.path.resolve():
        reason = "the file would extend itself"
        raise InputError(
            Problem(where=f"--init {place(request.path)}", reason=reason, way_out="another name")
        )
    chain = read_chain(inputs.path)
    if chain.deployments() or chain.environments(None):
        raise InputError(
            Problem(
                where=place(inputs.path),
                reason="it holds several deployments or environments",
                way_out="write expect: beneath each of them; kvplan gate then checks them all",
            )
        )


def _does_not_fit(answer: Answer, outcome: Refusal, request: DraftRequest) -> InputError:
    lacks = unmet(answer.target, outcome, Needs())
    reason = "it does not fit" if lacks is None else lacks.message
    return InputError(
        Problem(
            where=f"{place(request.path)}: expect",
            reason=f"there is nothing to expect: {reason}",
            way_out="kvplan fit says what would fit; --on likely takes the likely memory",
        )
    )


def _beside(path: Path, folder: Path) -> str:
    """A file as one in ``folder`` names it."""
    name = Path(os.path.relpath(path.absolute(), folder)).as_posix()
    return name if name.startswith("../") else f"./{name}"


def _model(inputs: Inputs, folder: Path) -> str:
    assert inputs.source is not None
    origin = inputs.source.origin
    if origin.kind is OriginKind.FILE:
        return _beside(Path(origin.place), folder)
    return origin.place


def _keys(inputs: Inputs, request: DraftRequest, folder: Path) -> Iterator[tuple[str, str | int]]:
    """The plan's keys of memory and release. Over a file only what the request adds."""
    extends = inputs.path is not None
    memory = known_of(request.fit) if extends else inputs.memory
    for key, field in MEMORY_FIELDS.items():
        value = getattr(memory, field)
        if value in (None, ()):
            continue
        if key in _PATHS:
            value = _file(key, value, folder)
        yield key, _size(value) if not isinstance(value, str) else value
    if request.fit.engine_version is not None or not extends:
        yield "engine-version", inputs.rules.release


def _file(key: str, name: str, folder: Path) -> str:
    if name == "-":
        reason = "what came from stdin can't be named in a file"
        raise InputError(Problem(where=f"--{key}", reason=reason, way_out="give the log's file"))
    # A profile may be known by its name alone.
    return _beside(Path(name), folder) if Path(name).exists() else name


def _size(value: int | tuple[int, ...]) -> str | int:
    """Bytes as a person writes them, where that is exact."""
    if isinstance(value, tuple):
        texts = [str(_size(each)) for each in value]
        return texts[0] if len(texts) == 1 else ",".join(texts)
    for unit, size in (("GiB", GIB), ("MiB", MIB)):
        if value % size == 0:
            return f"{value // size}{unit}"
    return value


def _serve(inputs: Inputs, request: DraftRequest) -> Mapping[str, Any]:
    """The engine's flags by dashed names, as given. Over a file only what the request adds."""
    values = dict(inputs.stated.values)
    if inputs.path is not None:
        values = dict(read_flags(request.fit.flags, COMMAND_LINE).values)
    if inputs.args.hf_overrides and (inputs.path is None or request.fit.hf_overrides):
        values["hf_overrides"] = dict(inputs.args.hf_overrides)
    if values.get("max_model_len") == AUTO_MAX_MODEL_LEN:
        values["max_model_len"] = "auto"
    return {name.replace("_", "-"): value for name, value in values.items()}


def _expectations(
    inputs: Inputs, answer: Answer, plan: Plan, margin: Fraction
) -> Iterator[DraftExpectation]:
    """What a change should not take away unseen."""
    left = 1 - margin
    have = plan.max_concurrency
    model = answer.target.model
    if have is not None:
        limit = math.inf if model is None else model.settings.max_num_seqs
        most = min(have, limit)
        kept = math.floor(Fraction(most) * left * 100) / 100
        if kept > 0:
            yield DraftExpectation(name="min-concurrency", value=kept, today=most)
    length = plan.max_model_len
    if answer.target.settings.auto_fit:
        kept_length = math.floor(length * left)
        yield DraftExpectation(name="min-max-model-len", value=kept_length, today=length)
    else:
        yield DraftExpectation(name="min-max-model-len", value=length)
    by_blocks = inputs.rules.token_line is TokenLine.BY_BLOCKS
    tokens = plan.kv_cache_size_tokens_by_blocks if by_blocks else plan.kv_cache_size_tokens
    if tokens is not None:
        yield DraftExpectation(name="min-kv-tokens", value=math.floor(tokens * left), today=tokens)
    if answer.budgets and inputs.args.kv_cache_memory_bytes is None:
        utilization = inputs.args.gpu_memory_utilization
        yield DraftExpectation(name="max-gpu-memory-utilization", value=utilization)
    yield DraftExpectation(name="max-gpus", value=inputs.args.num_gpus)
