"""The cards of this machine, as NVIDIA's driver tells them."""

from __future__ import annotations

from typing import Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.gpus import Gpu
from kvplan_cli.loader.catalogue import gpus
from kvplan_cli.loader.problems import printable
from kvplan_cli.units import MIB
from kvplan_cli.values import dataclass

_PROGRAM: Final = "nvidia-smi"
_TIMEOUT_SECONDS: Final = 10
_FIELDS: Final = ("name", "compute_cap", "memory.total", "memory.reserved")


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverCard:
    """A card of this machine. known: CUDA's total is the catalogue's own figure for it."""

    gpu: Gpu
    known: bool


def driver_cards() -> tuple[DriverCard, ...]:
    """All cards, in the driver's order.

    InputError where no driver answers, or it answers otherwise than asked.
    """
    cards = tuple(_card(line) for line in _ask().splitlines() if line.strip())
    if not cards:
        raise _absent("the driver names no card")
    return cards


def _ask() -> str:
    import subprocess

    query = f"--query-gpu={','.join(_FIELDS)}"
    try:
        answer = subprocess.run(
            [_PROGRAM, query, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise _absent(f"there is no {_PROGRAM} here") from None
    except subprocess.TimeoutExpired:
        raise _absent(f"{_PROGRAM} did not answer in {_TIMEOUT_SECONDS} s") from None
    except OSError as error:
        raise _absent(f"{_PROGRAM} can't be run: {error.strerror}") from None
    if answer.returncode:
        said = printable((answer.stderr or answer.stdout).strip().partition("\n")[0])
        raise _absent(f"{_PROGRAM} failed: {said or answer.returncode}")
    return answer.stdout


def _card(line: str) -> DriverCard:
    """A card from its line; CUDA's total is what the driver does not keep for itself."""
    parts = [part.strip() for part in line.split(",")]
    try:
        name, capability, total, reserved = parts
        major, minor = (int(part) for part in capability.split("."))
        size = (int(total) - int(reserved)) * MIB
    except ValueError:
        raise _absent(f"{_PROGRAM} answered {printable(line)[:80]!r}") from None
    for card in gpus():
        if card.gpu.name == name and card.gpu.capability == (major, minor):
            return DriverCard(gpu=card.gpu, known=True)
    gpu = Gpu(name=name, capability=(major, minor), total_memory_bytes=size)
    return DriverCard(gpu=gpu, known=False)


def _absent(reason: str) -> InputError:
    return InputError(
        Problem(
            where="--gpu auto",
            reason=reason,
            way_out="name the card, as in --gpu h100 (kvplan gpus lists them)",
        )
    )
