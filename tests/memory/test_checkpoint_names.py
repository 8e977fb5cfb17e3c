"""The sharing rules know the modules of real checkpoints by their names."""

from __future__ import annotations

import pytest

from kvplan_cli.memory.weights.stored import Share, share_of
from tests.memory.checkpoint_names import told


@pytest.mark.parametrize(("error", "floor"), [(0.001, 110), (0.01, 138), (0.03, 148)])
def test_rules_alone_meet_what_the_engine_built(error: float, floor: int) -> None:
    assert sum(each.error <= error for each in told()) >= floor


def test_few_checkpoints_have_modules_that_no_rule_names() -> None:
    assert sum(not each.unknown for each in told()) >= 130


@pytest.mark.parametrize(
    ("name", "share"),
    [
        # From indices of checkpoints on GitHub, see tests/data/memory/README.md.
        ("transformer.h.7.self_attention.dense.weight", Share.ROW),
        ("gpt_neox.layers.3.attention.dense.bias", Share.ROW),
        ("gpt_neox.embed_in.weight", Share.VOCABULARY),
        ("model.layers.0.attention.wqkv.weight", Share.COLUMN),
        ("model.layers.0.attention.wo.weight", Share.ROW),
        ("model.tok_embeddings.weight", Share.VOCABULARY),
        ("output.weight", Share.VOCABULARY),
        ("model.transformer.blocks.0.att_proj.weight", Share.COLUMN),
        ("encoder.layer.0.attention.output.dense.weight", Share.ROW),
        ("encoder.layer.0.intermediate.dense.weight", Share.COLUMN),
        ("pooler.dense.weight", Share.WHOLE),
        ("predictions.transform.dense.weight", Share.UNKNOWN),
    ],
)
def test_names_of_real_checkpoints(name: str, share: Share) -> None:
    assert share_of(name) is share
