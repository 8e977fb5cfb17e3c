"""Layers a pipeline stage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan_cli.errors import EngineRefusalError
from kvplan_cli.settings.pipeline import stage_layers


@pytest.mark.parametrize(
    ("layers", "stages", "partition", "counts"),
    [
        (80, 1, None, [80]),
        (80, 2, None, [40, 40]),
        (81, 2, None, [41, 40]),
        (80, 3, None, [27, 27, 26]),
        (62, 4, None, [15, 16, 16, 15]),
        (63, 4, None, [16, 16, 16, 15]),
        (61, 4, None, [15, 15, 16, 15]),
        (2, 4, None, [0, 1, 1, 0]),
        (80, 2, "30,50", [30, 50]),
        (80, 3, "26, 27,27", [26, 27, 27]),
    ],
)
def test_counts(layers: int, stages: int, partition: str | None, counts: list[int]) -> None:
    shares = stage_layers(layers, stages, partition)
    assert [len(share) for share in shares] == counts


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        ("40,39", "sum(partitions)=79 does not match num_hidden_layers=80."),
        ("1,2,3", "len(partitions)=3 does not match pp_size=2."),
        ("a,b", "Invalid partition string: a,b"),
        ("", "Invalid partition string: "),
    ],
)
def test_partitions_that_do_not_add_up(partition: str, message: str) -> None:
    with pytest.raises(EngineRefusalError) as caught:
        stage_layers(80, 2, partition)
    error = caught.value
    assert (error.stage, error.error_type, error.message) == ("model_error", "ValueError", message)


@given(layers=st.integers(0, 200), stages=st.integers(1, 16))
def test_every_layer_is_in_one_stage(layers: int, stages: int) -> None:
    shares = stage_layers(layers, stages)
    assert len(shares) == stages
    assert [index for share in shares for index in share] == list(range(layers))


@given(layers=st.integers(0, 200), stages=st.integers(1, 16))
def test_stages_differ_by_one_layer_at_most_and_the_last_is_short(layers: int, stages: int) -> None:
    counts = [len(share) for share in stage_layers(layers, stages)]
    assert max(counts) - min(counts) <= 1
    assert counts[-1] == min(counts)
