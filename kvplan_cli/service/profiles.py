"""Keep what a log measured, and hold a kept profile against what a plan asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.loader.profiles import fingerprint, profile_path, write_profile
from kvplan_cli.logs.releases import release_of
from kvplan_cli.memory.measured import Profile
from kvplan_cli.results import Notice, NoticeKind
from kvplan_cli.service.inputs import Inputs
from kvplan_cli.units import GIB, MIB

SAVE: Final = "--save-profile"
_SAME_CARD: Final = 50 * MIB


def save_profile(reference: str, inputs: Inputs, architecture: str) -> Notice:
    """Write the profile; where it stands, as a note.

    Raises: InputError where nothing was measured, or the log does not tell its release.
    """
    told = inputs.told
    if told is None or not told.measured.has_available:
        raise _fault("the log does not tell the memory for the cache", None)
    if inputs.source is None:
        raise _fault("layer specs given outright are no model", "give MODEL")
    if told.measured.release is None:
        raise _fault("the log does not tell the engine's release", "give the log from its start on")
    path = profile_path(reference, SAVE)
    profile = Profile(
        model=told.model or inputs.name,
        architecture=architecture,
        fingerprint=fingerprint(inputs.source.config),
        card=inputs.gpu.name,
        total_memory_bytes=inputs.gpu.total_memory_bytes,
        measured=told.measured,
    )
    write_profile(profile, path, SAVE)
    return Notice(
        kind=NoticeKind.NOTE,
        code="profile_kept",
        message=f"What {told.measured.origin} measured is kept in {path}.",
    )


def check_profile(profile: Profile, inputs: Inputs) -> None:
    """InputError with every difference between what was measured and what is planned."""
    differences = tuple(_differences(profile, inputs))
    if differences:
        raise InputError(
            Problem(
                where="--profile",
                reason=f"was measured with {before}, the plan is for {after}",
                way_out="measure this one: --from-log FILE --save-profile NAME",
            )
            for before, after in differences
        )


def _differences(profile: Profile, inputs: Inputs) -> Iterator[tuple[str, str]]:
    config = {} if inputs.source is None else inputs.source.config
    if profile.fingerprint != fingerprint(config):
        yield f"{profile.model} ({profile.architecture})", f"{inputs.name}, another config"
    if profile.card != inputs.gpu.name:
        yield profile.card, inputs.gpu.name
    elif abs(profile.total_memory_bytes - inputs.gpu.total_memory_bytes) > _SAME_CARD:
        yield _gib(profile.total_memory_bytes), _gib(inputs.gpu.total_memory_bytes)
    release = inputs.rules.release
    if release_of(profile.measured.release) != release_of(release):
        yield f"vLLM {profile.measured.release}", f"vLLM {release}"


def _gib(size: int) -> str:
    return f"{size / GIB:.2f} GiB"


def _fault(reason: str, way_out: str | None) -> InputError:
    return InputError(Problem(where=SAVE, reason=reason, way_out=way_out))
