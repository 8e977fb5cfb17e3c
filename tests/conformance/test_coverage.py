"""What ``kvplan models`` claims is what the vectors show."""

from __future__ import annotations

from tests.conformance.coverage import TARGET, text


def test_the_list_is_what_vectors_and_registry_give() -> None:
    assert TARGET.read_text(encoding="utf-8") == text()
