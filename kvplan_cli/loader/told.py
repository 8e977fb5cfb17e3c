"""What a start-up log or a profile tells beside a model: settings, and measured memory."""

from __future__ import annotations

from dataclasses import field

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.catalogue import model_of_hub_id
from kvplan_cli.loader.flag_values import GivenFlags
from kvplan_cli.loader.problems import shown
from kvplan_cli.loader.profiles import read_profile
from kvplan_cli.loader.sources import existing_path, is_path_like
from kvplan_cli.loader.startup_log import LoadedLog, load_log
from kvplan_cli.memory.measured import FIXED_FLAGS, MOVED_FLAGS, MeasuredMemory, Profile
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A start that was measured.

    model: as it was named there. flags: settings that the start told. log, profile: which of
    the two it is.
    """

    where: str
    model: str | None
    measured: MeasuredMemory
    flags: GivenFlags = field(default_factory=GivenFlags)
    log: LoadedLog | None = None
    profile: Profile | None = None


def read_told(from_log: str | None, profile: str | None) -> Told | None:
    """What the one or the other tells; None where neither is given.

    Raises: InputError.
    """
    if from_log is not None and profile is not None:
        raise InputError(
            Problem(
                where="--from-log and --profile",
                reason="both say what was measured",
                way_out="drop one",
            )
        )
    if from_log is not None:
        return told_by_log(load_log(from_log))
    if profile is None:
        return None
    known = read_profile(profile)
    # What was measured holds for these; lengths and cache types are the next plan's own.
    shaping = {*FIXED_FLAGS, *MOVED_FLAGS}
    flags = {key: value for key, value in known.measured.flags.items() if key in shaping}
    origin = known.measured.origin
    return Told(
        where="--profile",
        model=known.model,
        measured=known.measured,
        flags=GivenFlags(values=flags, origins=dict.fromkeys(flags, origin)),
        profile=known,
    )


def told_by_log(loaded: LoadedLog) -> Told:
    """What a log tells."""
    return Told(
        where="--from-log",
        model=loaded.model,
        measured=loaded.measured,
        flags=loaded.flags,
        log=loaded,
    )


def model_reference(told: Told) -> str:
    """A MODEL for the name that was told: a path that is here, a bundled model, a hub id.

    InputError where none is told, or it is a path of another machine.
    """
    if told.model is None:
        reason = f"is missing, and {told.measured.origin} does not name one"
        raise InputError(Problem(where="MODEL", reason=reason, way_out="give it before the flags"))
    if existing_path(told.model, told.where) is not None:
        return told.model
    bundled = model_of_hub_id(told.model)
    if bundled is not None:
        return bundled.name
    if is_path_like(told.model):
        raise InputError(
            Problem(
                where="MODEL",
                reason=f"{told.measured.origin} names {shown(told.model)}, which is not here",
                way_out="give MODEL: its config.json, a hub id or a catalogue name",
            )
        )
    return told.model
