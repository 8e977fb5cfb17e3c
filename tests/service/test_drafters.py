"""A drafter in the use case: its model resolved like MODEL, its layers in the plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from kvplan_cli.errors import InputError
from kvplan_cli.memory.budget import Estimate
from kvplan_cli.planner.results import Plan
from kvplan_cli.results import FitRequest, FitResult
from kvplan_cli.service import fit
from kvplan_cli.units import GIB

HEAD: Final = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "num_hidden_layers": 1,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 4096,
    "max_position_embeddings": 2048,
    "vocab_size": 128256,
}


def ask(speculative: dict[str, Any], **asked: Any) -> FitResult:
    asked = {"model": "llama-3.1-8b", "kv_mem_bytes": (40 * GIB,), **asked}
    return fit(FitRequest(flags={"speculative_config": speculative}, **asked))


def bytes_a_block(result: FitResult) -> int:
    assert isinstance(result.likely, Plan)
    return result.likely.workers[0].bytes_per_block


@pytest.mark.parametrize("form", ["inline", "file", "folder"])
def test_a_head_by_its_config_in_every_form(form: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(HEAD), encoding="utf-8")
    model = {"inline": HEAD, "file": str(tmp_path / "config.json"), "folder": str(tmp_path)}[form]
    result = ask({"method": "eagle3", "num_speculative_tokens": 3, "model": model})
    # 33 layers x 64 KiB: the head's is as large as each of the target's.
    assert bytes_a_block(result) == 33 * 65_536


def test_a_draft_model_by_its_bundled_name() -> None:
    keys = {"method": "draft_model", "num_speculative_tokens": 4, "model": "llama-3.2-1b"}
    assert bytes_a_block(ask(keys)) == 32 * 65_536 + 16 * 32_768


def test_an_unknown_draft_model_names_its_key() -> None:
    keys = {"method": "draft_model", "num_speculative_tokens": 4, "model": "llama-9"}
    with pytest.raises(InputError, match="--speculative-config: model: no model"):
        ask(keys)
    with pytest.raises(InputError, match="neither a name nor a model's config"):
        ask({**keys, "model": {"layers": 3}})


def test_what_a_drafts_config_lacks_comes_from_its_class() -> None:
    head = {key: value for key, value in HEAD.items() if key != "max_position_embeddings"}
    result = ask({"method": "eagle3", "num_speculative_tokens": 3, "model": head})
    assert bytes_a_block(result) == 33 * 65_536


def test_n_grams_cache_nothing() -> None:
    result = ask({"method": "ngram", "num_speculative_tokens": 3})
    assert bytes_a_block(result) == 32 * 65_536


def _weights(result: FitResult) -> Estimate:
    (line,) = [line for line in result.budgets[-1].lines if line.name == "weights"]
    return line.bytes_per_rank


def test_a_heads_weights_are_part_of_the_budget() -> None:
    keys = {"method": "eagle3", "num_speculative_tokens": 3, "model": HEAD}
    alone = _weights(fit(FitRequest(model="llama-3.1-8b", gpu="h100")))
    both = _weights(ask(keys, kv_mem_bytes=(), gpu="h100"))
    # One layer of twice the inputs, the fused states, and no head or embedding of its own.
    assert both.low - alone.low > 400_000_000
    # An embedding and a head over 128,256 words, if its checkpoint brings them.
    assert both.high - both.low > 2 * 128_256 * 4096 * 2


def test_what_weights_alone_ask_of_a_draft_comes_from_its_class() -> None:
    assert "intermediate_size" not in HEAD
    keys = {"method": "eagle3", "num_speculative_tokens": 3, "model": HEAD}
    given = {**keys, "model": {**HEAD, "intermediate_size": 11008}}
    found, stated = (_weights(ask(each, kv_mem_bytes=(), gpu="h100")) for each in (keys, given))
    assert found == stated
