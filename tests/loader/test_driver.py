"""Cards as the driver tells them; the driver itself is never asked."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from kvplan_cli.errors import InputError
from kvplan_cli.loader.driver import driver_cards
from kvplan_cli.units import MIB

H100 = "NVIDIA H100 80GB HBM3, 9.0, 81559, 551"
UNKNOWN = "NVIDIA Next 48GB, 13.0, 49140, 540"


def _answers(monkeypatch: pytest.MonkeyPatch, text: str, code: int = 0, error: str = "") -> None:
    def run(arguments: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        assert options["timeout"] > 0
        return subprocess.CompletedProcess(arguments, code, text, error)

    monkeypatch.setattr(subprocess, "run", run)


def _fails(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(subprocess, "run", run)


def test_a_known_card_has_the_catalogues_total(monkeypatch: pytest.MonkeyPatch) -> None:
    _answers(monkeypatch, H100 + "\n")
    (card,) = driver_cards()
    assert card.known
    assert card.gpu.total_memory_bytes == 85_029_615_042


def test_another_has_what_the_driver_does_not_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    _answers(monkeypatch, f"{H100}\n{UNKNOWN}\n")
    _, card = driver_cards()
    assert not card.known
    assert card.gpu.capability == (13, 0)
    assert card.gpu.total_memory_bytes == 48_600 * MIB


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError(), "there is no nvidia-smi here"),
        (subprocess.TimeoutExpired("nvidia-smi", 10), "did not answer in 10 s"),
        (PermissionError(13, "Permission denied"), "can't be run: Permission denied"),
    ],
)
def test_without_a_driver_the_input_is_wrong(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    _fails(monkeypatch, error)
    with pytest.raises(InputError, match=said):
        driver_cards()


@pytest.mark.parametrize("text", ["", "what?", "NVIDIA X, nine, 1, 2"])
def test_an_answer_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    _answers(monkeypatch, text)
    with pytest.raises(InputError, match="--gpu auto"):
        driver_cards()


def test_a_driver_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    _answers(monkeypatch, "", code=9, error="couldn't communicate with the driver\nmore")
    with pytest.raises(InputError, match="couldn't communicate"):
        driver_cards()
