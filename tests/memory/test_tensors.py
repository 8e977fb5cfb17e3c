"""What torch's allocator makes of a tensor's size."""

from __future__ import annotations

import pytest

from kvplan_cli.memory.weights.tensors import Tensor, allocated_bytes, total_bytes
from kvplan_cli.units import MIB


@pytest.mark.parametrize(
    ("nbytes", "booked"),
    [
        (1, 512),
        (512, 512),
        (9 * MIB, 9 * MIB),
        (11 * MIB, 12 * MIB),
        (10 * MIB + 512, 10 * MIB + 512),
        (20 * MIB + 512, 22 * MIB),
        (48 * MIB, 48 * MIB),
    ],
)
def test_large_tensors_fill_segments(nbytes: int, booked: int) -> None:
    assert allocated_bytes([Tensor("weight", nbytes, 1)]) == booked


def test_total_is_the_tensors_own_bytes() -> None:
    assert total_bytes([Tensor("a", 3, 2), Tensor("b", 1, 4)]) == 10
