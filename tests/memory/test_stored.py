"""Weights from a checkpoint's headers, its index, and the config, against each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kvplan_cli.loader import hub_tensors as hub
from kvplan_cli.memory.budget import Estimate, Source
from kvplan_cli.memory.weights.stored import Share, module_of, share_of
from kvplan_cli.results import FitRequest
from kvplan_cli.service.inputs import read_inputs
from kvplan_cli.service.target import find_target
from kvplan_cli.service.weights import rank_weights
from tests.memory.headers import LLAMA, MOE, llama, moe, write_checkpoint, write_index

Flags = dict[str, Any]
SPLITS: tuple[Flags, ...] = (
    {},
    {"tensor_parallel_size": 2},
    {"tensor_parallel_size": 4},
    {"pipeline_parallel_size": 2},
    {"tensor_parallel_size": 2, "pipeline_parallel_size": 4},
)


def _weights(folder: Path, **flags: Any) -> tuple[Estimate, ...]:
    inputs = read_inputs(FitRequest(model=str(folder), flags=flags, gpu="h100"))
    target = find_target(inputs)
    assert target.source is not None
    assert target.model is not None
    return rank_weights(inputs, target.source, target.model)


def _low(folder: Path, flags: Mapping[str, Any]) -> list[int]:
    return [estimate.low for estimate in _weights(folder, **flags)]


def _config_only(folder: Path, config: Mapping[str, Any]) -> Path:
    write_index(folder, config, {})
    (folder / "model.safetensors.index.json").unlink()
    return folder


@pytest.mark.parametrize("flags", SPLITS, ids=str)
def test_headers_and_count_agree_to_the_byte(tmp_path: Path, flags: Flags) -> None:
    stored = write_checkpoint(tmp_path / "stored", LLAMA, llama())
    counted = _config_only(tmp_path / "counted", LLAMA)
    assert _low(stored, flags) == _low(counted, flags)


@pytest.mark.parametrize(
    "flags",
    [*SPLITS, {"tensor_parallel_size": 4, "enable_expert_parallel": True}],
    ids=str,
)
def test_experts_agree_to_the_byte(tmp_path: Path, flags: Flags) -> None:
    stored = write_checkpoint(tmp_path / "stored", MOE, moe())
    counted = _config_only(tmp_path / "counted", MOE)
    assert _low(stored, flags) == _low(counted, flags)


def test_headers_that_sum_up_to_the_count_are_shared_out_as_it_is(tmp_path: Path) -> None:
    renamed = {name.replace("q_proj", "query_part"): shape for name, shape in llama().items()}
    folder = write_checkpoint(tmp_path / "m", LLAMA, renamed)
    counted = _config_only(tmp_path / "counted", LLAMA)
    flags = {"tensor_parallel_size": 2}
    (weights,) = _weights(folder, **flags)
    assert [weights.low] == _low(counted, flags)
    assert "sum up to it" in weights.note


def test_headers_are_exact_and_say_so(tmp_path: Path) -> None:
    (weights,) = _weights(write_checkpoint(tmp_path / "m", LLAMA, llama()))
    assert weights.source is Source.EXACT
    assert "headers of 39 tensors" in weights.note


def test_a_config_that_ties_the_head_wins_over_a_checkpoint_that_has_one(tmp_path: Path) -> None:
    config = {**LLAMA, "tie_word_embeddings": True}
    apart = write_checkpoint(tmp_path / "apart", config, llama())
    tied = write_checkpoint(tmp_path / "tied", config, llama(tied=True))
    assert _low(apart, {}) == _low(tied, {})
    flags = {"pipeline_parallel_size": 2}
    assert _low(apart, flags) == _low(tied, flags)


def test_a_model_that_pools_builds_no_head(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "m", LLAMA, llama())
    generates, pools = _low(folder, {})[0], _low(folder, {"runner": "pooling"})[0]
    assert generates - pools == 1024 * 256 * 2


def test_types_that_the_engine_widens_do_not_keep_headers_from_agreeing(tmp_path: Path) -> None:
    glm = {
        **MOE,
        "architectures": ["Glm4MoeForCausalLM"],
        "model_type": "glm4_moe",
        "n_routed_experts": 6,
        "n_shared_experts": 0,
        "first_k_dense_replace": 0,
        "use_qk_norm": True,
        "partial_rotary_factor": 0.5,
    }
    biases = {f"model.layers.{index}.mlp.gate.e_score_correction_bias": (6,) for index in range(4)}
    stored = write_checkpoint(tmp_path / "stored", glm, moe() | biases)
    (weights,) = _weights(stored)
    assert [weights.low] == _low(_config_only(tmp_path / "counted", glm), {})
    assert "sum up to it" in weights.note


def test_what_the_engine_quantizes_as_it_loads_is_counted_so(tmp_path: Path) -> None:
    flags = {"quantization": "fp8"}
    stored = write_checkpoint(tmp_path / "stored", LLAMA, llama())
    counted = _config_only(tmp_path / "counted", LLAMA)
    assert _low(stored, flags) == _low(counted, flags) < _low(stored, {})


def test_an_order_of_columns_is_not_loaded(tmp_path: Path) -> None:
    orders = {f"model.layers.{index}.mlp.up_proj.g_idx": (256,) for index in range(4)}
    more = write_checkpoint(tmp_path / "more", LLAMA, llama() | orders)
    assert _low(more, {}) == _low(write_checkpoint(tmp_path / "m", LLAMA, llama()), {})


def test_tied_embedding_stands_on_the_first_and_the_last_stage(tmp_path: Path) -> None:
    config = {**LLAMA, "tie_word_embeddings": True}
    folder = write_checkpoint(tmp_path / "m", config, llama(tied=True))
    counted = _config_only(tmp_path / "counted", config)
    flags = {"pipeline_parallel_size": 2}
    assert _low(folder, flags) == _low(counted, flags)


def test_float32_checkpoint_is_cast_to_the_model_dtype(tmp_path: Path) -> None:
    wide = write_checkpoint(tmp_path / "wide", LLAMA, llama(), dtype="F32")
    assert _low(wide, {}) == _low(write_checkpoint(tmp_path / "m", LLAMA, llama()), {})


def test_drafter_layers_behind_the_last_are_not_loaded(tmp_path: Path) -> None:
    shapes = llama() | {
        "model.layers.4.mlp.up_proj.weight": (512, 256),
        "mtp.layers.0.mlp.up_proj.weight": (512, 256),
    }
    more = write_checkpoint(tmp_path / "more", LLAMA, shapes)
    assert _low(more, {}) == _low(write_checkpoint(tmp_path / "m", LLAMA, llama()), {})


def test_names_without_a_rule_are_counted_whole_and_told(tmp_path: Path) -> None:
    shapes = llama() | {"model.layers.0.mystery.weight": (64, 64)}
    folder = write_checkpoint(tmp_path / "m", LLAMA, shapes)
    plain = write_checkpoint(tmp_path / "plain", LLAMA, llama())
    flags = {"tensor_parallel_size": 2}
    (weights,) = _weights(folder, **flags)
    assert weights.low - _low(plain, flags)[0] == 64 * 64 * 2
    assert weights.source is Source.COMPUTED
    assert "no rule names them: mystery" in weights.note


@pytest.mark.parametrize("flags", SPLITS, ids=str)
def test_an_index_shares_its_total_out_as_the_count(tmp_path: Path, flags: Flags) -> None:
    indexed = _weights(write_index(tmp_path / "indexed", LLAMA, llama()), **flags)
    counted = _weights(_config_only(tmp_path / "counted", LLAMA), **flags)
    for one, other in zip(indexed, counted, strict=True):
        # Padding of the vocabulary, in the count alone, does not keep them from agreeing.
        assert one.low == other.low
        assert "index's total" in one.note


def test_an_index_that_does_not_agree_scales_the_count(tmp_path: Path) -> None:
    more = llama() | {"model.layers.0.mystery.weight": (640, 640)}
    (indexed,) = _weights(write_index(tmp_path / "indexed", LLAMA, more))
    (counted,) = _weights(_config_only(tmp_path / "counted", LLAMA))
    assert indexed.low > counted.low
    assert "shared out as the config's count" in indexed.note


class _Info:
    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        self.shape, self.dtype = list(shape), dtype


class _File:
    def __init__(self, tensors: dict[str, _Info]) -> None:
        self.tensors = tensors


class _Metadata:
    def __init__(self, file: _File) -> None:
        self.files_metadata = {"model.safetensors": file}


def test_hub_headers_come_through_the_hub_library(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None]] = []

    def metadata(repo_id: str, *, revision: str | None = None) -> _Metadata:
        asked.append((repo_id, revision))
        return _Metadata(_File({"a.weight": _Info((4, 8), "BF16")}))

    monkeypatch.setattr("huggingface_hub.get_safetensors_metadata", metadata)
    tensors = hub.hub_tensors("org/model", "main")
    assert tensors is not None
    assert tensors["a.weight"].size_bytes == 64
    assert asked == [("org/model", "main")]


@pytest.mark.parametrize("dtype", ["BF16", "X9"])
def test_hub_headers_that_can_not_be_had_are_none(
    monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    def metadata(repo_id: str, *, revision: str | None = None) -> _Metadata:
        if dtype == "BF16":
            raise OSError("no network")
        return _Metadata(_File({"a.weight": _Info((4, 8), dtype)}))

    monkeypatch.setattr("huggingface_hub.get_safetensors_metadata", metadata)
    assert hub.hub_tensors("org/model", None) is None


@pytest.mark.parametrize(
    ("name", "module", "share"),
    [
        ("model.layers.0.self_attn.q_proj.weight", "q_proj", Share.COLUMN),
        ("model.layers.0.self_attn.v_proj.bias", "v_proj", Share.KEY_VALUE),
        ("model.layers.0.mlp.experts.3.down_proj.qweight", "down_proj", Share.ROW),
        ("model.layers.0.mlp.gate.weight", "gate", Share.WHOLE),
        ("model.layers.0.input_layernorm.weight", "input_layernorm", Share.WHOLE),
        ("model.layers.0.mlp.experts.gate_up_proj_blocks", "gate_up_proj_blocks", Share.COLUMN),
        ("lm_head.weight", "lm_head", Share.VOCABULARY),
        ("model.layers.0.odd.weight", "odd", Share.UNKNOWN),
    ],
)
def test_names_tell_how_modules_are_shared_out(name: str, module: str, share: Share) -> None:
    assert module_of(name) == module
    assert share_of(name) is share
