"""A drafter's weights from headers and from its config, against each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from kvplan_cli.errors import UnplannableError
from kvplan_cli.memory.budget import Estimate, Source
from kvplan_cli.results import FitRequest
from kvplan_cli.service.inputs import read_inputs
from kvplan_cli.service.target import find_target
from kvplan_cli.service.weights import rank_weights
from tests.memory.headers import (
    LLAMA,
    Shapes,
    attention,
    gated,
    llama,
    write_checkpoint,
    write_index,
)

SPLITS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"tensor_parallel_size": 2},
    {"tensor_parallel_size": 4},
    {"tensor_parallel_size": 2, "pipeline_parallel_size": 2},
)
HEAD: Final[dict[str, Any]] = {
    **LLAMA,
    "architectures": ["LlamaForCausalLMEagle3"],
    "num_hidden_layers": 1,
    "draft_vocab_size": 320,
}
MIMO: Final[dict[str, Any]] = {
    **LLAMA,
    "architectures": ["MiMoForCausalLM"],
    "model_type": "mimo",
    "num_nextn_predict_layers": 1,
}
MTP: Final = {"method": "mtp", "num_speculative_tokens": 1}


def eagle3(*, words: int = 320, embedding: bool = False, head: bool = True) -> Shapes:
    """The tensors of ``HEAD``."""
    shapes = attention("midlayer", qk_norm=False) | gated("midlayer.mlp", 512)
    shapes |= {f"midlayer.self_attn.{part}_proj.weight": (64, 512) for part in "kv"}
    shapes |= {
        "midlayer.self_attn.q_proj.weight": (256, 512),
        "midlayer.hidden_norm.weight": (256,),
        "fc.weight": (256, 768),
        "norm.weight": (256,),
    }
    if head:
        shapes["lm_head.weight"] = (words, 256)
    if embedding:
        shapes["embed_tokens.weight"] = (1000, 256)
    return shapes


def mimo() -> Shapes:
    """The tensors of ``MIMO``, its module behind the layers."""
    shapes = llama()
    for layer in [*(f"model.layers.{index}" for index in range(4)), "model.mtp_layers.0"]:
        shapes |= {f"{layer}.self_attn.q_proj.bias": (256,)}
        shapes |= {f"{layer}.self_attn.{part}_proj.bias": (64,) for part in "kv"}
    module = "model.mtp_layers.0"
    norms = ("token_layernorm", "hidden_layernorm", "final_layernorm")
    return (
        shapes
        | attention(module, qk_norm=False)
        | gated(f"{module}.mlp", 512)
        | {f"{module}.input_proj.weight": (256, 512)}
        | {f"{module}.{norm}.weight": (256,) for norm in norms}
    )


def _weights(
    model: Path, speculative: Mapping[str, Any] | None, flags: Mapping[str, Any]
) -> tuple[Estimate, ...]:
    asked = dict(flags)
    if speculative is not None:
        asked["speculative_config"] = dict(speculative)
    inputs = read_inputs(FitRequest(model=str(model), flags=asked, gpu="h100"))
    target = find_target(inputs)
    assert target.source is not None
    assert target.model is not None
    return rank_weights(inputs, target.source, target.model)


def _config_only(folder: Path, config: Mapping[str, Any]) -> Path:
    write_checkpoint(folder, config, {"x": (1,)})
    (folder / "model.safetensors").unlink()
    return folder


def _drafter(
    model: Path, speculative: Mapping[str, Any], flags: Mapping[str, Any]
) -> tuple[int, int]:
    """Low and likely bytes that the drafter adds on the last stage."""
    *first, alone = _weights(model, None, flags)
    *others, both = _weights(model, speculative, flags)
    assert others == first
    return both.low - alone.low, both.likely - alone.likely


@pytest.mark.parametrize("flags", SPLITS, ids=str)
def test_modules_of_a_checkpoint_agree_to_the_byte(tmp_path: Path, flags: dict[str, Any]) -> None:
    stored = write_checkpoint(tmp_path / "stored", MIMO, mimo())
    counted = _config_only(tmp_path / "counted", MIMO)
    assert _drafter(stored, MTP, flags) == _drafter(counted, MTP, flags)


def test_modules_of_the_named_target_are_the_same(tmp_path: Path) -> None:
    stored = write_checkpoint(tmp_path / "stored", MIMO, mimo())
    named = {**MTP, "model": str(stored)}
    assert _drafter(stored, named, {}) == _drafter(stored, MTP, {})


def test_modules_are_not_loaded_where_nobody_asks_for_drafts(tmp_path: Path) -> None:
    stored = write_checkpoint(tmp_path / "stored", MIMO, mimo())
    counted = _config_only(tmp_path / "counted", MIMO)
    assert [each.low for each in _weights(stored, None, {})] == [
        each.low for each in _weights(counted, None, {})
    ]


def test_the_modules_of_an_index_are_taken_from_its_total(tmp_path: Path) -> None:
    (indexed,) = _weights(write_index(tmp_path / "indexed", MIMO, mimo()), None, {})
    (counted,) = _weights(_config_only(tmp_path / "counted", MIMO), None, {})
    # Padding of the vocabulary is in the count, not in the index.
    assert indexed.low == pytest.approx(counted.low, rel=0.01)


def test_modules_from_headers_are_exact_and_say_so(tmp_path: Path) -> None:
    stored = write_checkpoint(tmp_path / "stored", MIMO, mimo())
    (weights,) = _weights(stored, MTP, {})
    assert weights.source is Source.EXACT
    assert "with the mtp drafter, from 16 headers" in weights.note


@pytest.mark.parametrize("flags", SPLITS, ids=str)
def test_a_head_agrees_to_the_byte(tmp_path: Path, flags: dict[str, Any]) -> None:
    target = _config_only(tmp_path / "target", LLAMA)
    stored = write_checkpoint(tmp_path / "stored", HEAD, {**eagle3(), "d2t": (320 * 4,)})
    counted = _config_only(tmp_path / "counted", HEAD)
    found, expected = (
        _drafter(
            target,
            {"method": "eagle3", "num_speculative_tokens": 1, "model": str(folder)},
            flags,
        )
        for folder in (stored, counted)
    )
    assert found == expected


def _range(tmp_path: Path, config: Mapping[str, Any], shapes: Shapes) -> tuple[int, ...]:
    target = _config_only(tmp_path / "target", LLAMA)
    draft = write_checkpoint(tmp_path / "draft", config, shapes)
    keys = {"method": "eagle3", "num_speculative_tokens": 1, "model": str(draft)}
    (both,) = _weights(target, keys, {})
    (alone,) = _weights(target, None, {})
    return tuple(getattr(both, at) - getattr(alone, at) for at in ("low", "likely", "high"))


def test_what_a_checkpoint_lacks_is_the_targets(tmp_path: Path) -> None:
    config = {**HEAD, "draft_vocab_size": 1000}
    low, _, high = _range(tmp_path, config, eagle3(head=False))
    assert high - low < 512 * 40  # the allocator's rounding alone


def test_what_both_have_may_be_the_same(tmp_path: Path) -> None:
    config = {**HEAD, "draft_vocab_size": 1000}
    low, likely, high = _range(tmp_path, config, eagle3(words=1000, embedding=True))
    assert likely - low == pytest.approx(1024 * 256 * 2, abs=512 * 40)
    assert high - likely == pytest.approx(1024 * 256 * 2, abs=512 * 40)


def test_a_head_over_other_words_is_its_own(tmp_path: Path) -> None:
    low, likely, high = _range(tmp_path, HEAD, eagle3())
    assert high - low < 512 * 40
    assert low <= likely <= high


def test_a_block_drafter_keeps_its_keys_and_values_twice(tmp_path: Path) -> None:
    config = {
        **LLAMA,
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "dflash_config": {"mask_token_id": 7, "target_layer_ids": [1, 2]},
    }
    target = _config_only(tmp_path / "target", LLAMA)
    draft = _config_only(tmp_path / "draft", config)
    keys = {"method": "dflash", "num_speculative_tokens": 3, "model": str(draft)}
    low, likely = _drafter(target, keys, {"tensor_parallel_size": 2})
    copied, head = 4 * 2 * 32 * 256 * 2, 512 * 256 * 2
    assert likely - low == pytest.approx(copied + head, abs=512 * 60)


def test_a_draft_model_counts_as_a_model(tmp_path: Path) -> None:
    target = write_checkpoint(tmp_path / "target", LLAMA, llama())
    keys = {"method": "draft_model", "num_speculative_tokens": 1, "model": str(target)}
    (alone,) = _weights(target, None, {})
    (both,) = _weights(target, keys, {})
    # Twice the same model, and the rotary table once.
    assert both.low == 2 * alone.low - 2048 * 32 * 2
    assert both.source is Source.EXACT


def test_a_drafter_that_nobody_describes_is_no_zero(tmp_path: Path) -> None:
    config = {**LLAMA, "quantization_config": {"quant_method": "torchao"}}
    target = _config_only(tmp_path / "target", LLAMA)
    draft = _config_only(tmp_path / "draft", config)
    keys = {"method": "draft_model", "num_speculative_tokens": 1, "model": str(draft)}
    with pytest.raises(UnplannableError, match="cannot count the weights"):
        _weights(target, keys, {})
