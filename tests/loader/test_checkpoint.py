"""Safetensors headers and indexes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kvplan_cli.loader.checkpoint import (
    INDEX_NAME,
    Checkpoint,
    checkpoint_bytes,
    checkpoint_tensors,
    find_checkpoint,
)
from tests.loader.builders import write_json, write_safetensors
from tests.loader.faults import problem


def _found(folder: Path) -> Checkpoint:
    checkpoint = find_checkpoint(folder)
    assert checkpoint is not None
    return checkpoint


def test_headers_are_read_without_the_data(tmp_path: Path) -> None:
    tensors = {"a": ("BF16", [4, 8]), "b": ("F4", [3, 2]), "c": ("F32", [])}
    write_safetensors(tmp_path / "model.safetensors", tensors)
    checkpoint = _found(tmp_path)
    read = checkpoint_tensors(checkpoint)
    assert read is not None
    assert read["a"].shape == (4, 8)
    assert [tensor.size_bytes for tensor in read.values()] == [64, 3, 4]
    assert checkpoint_bytes(checkpoint) == 71


def test_only_the_indexed_shards_count(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model-1.safetensors", {"a": ("BF16", [4])})
    write_safetensors(tmp_path / "model-2.safetensors", {"b": ("BF16", [4])})
    write_safetensors(tmp_path / "other.safetensors", {"c": ("BF16", [4])})
    write_safetensors(tmp_path / "consolidated.safetensors", {"d": ("BF16", [8])})
    weight_map = {"a": "model-1.safetensors", "b": "model-2.safetensors"}
    write_json(tmp_path / INDEX_NAME, {"metadata": {"total_size": 99}, "weight_map": weight_map})
    assert checkpoint_bytes(_found(tmp_path)) == 16


def test_an_index_alone_gives_the_total(tmp_path: Path) -> None:
    weight_map = {"a": "model-1.safetensors"}
    write_json(tmp_path / INDEX_NAME, {"metadata": {"total_size": 99.0}, "weight_map": weight_map})
    checkpoint = _found(tmp_path)
    assert checkpoint_tensors(checkpoint) is None
    assert checkpoint_bytes(checkpoint) == 99
    write_json(tmp_path / INDEX_NAME, {"weight_map": weight_map})
    assert checkpoint_bytes(checkpoint) is None


def test_a_folder_without_weights(tmp_path: Path) -> None:
    assert find_checkpoint(tmp_path) is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "length is impossible"),
        (b"\xff" * 8 + b"{}", "length is impossible"),
        (struct.pack("<Q", 100) + b"{}", "length is impossible"),
        (struct.pack("<Q", 4) + b"\xff\xfe\xfd\xfc", "not text"),
        (struct.pack("<Q", 3) + b"[1]", "is no object"),
        (struct.pack("<Q", 3) + b"{a}", "not JSON"),
        (struct.pack("<Q", 8) + b'{"a": 1}', "no known dtype"),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    assert reason in problem(checkpoint_tensors, _found(tmp_path)).reason


def test_impossible_tensors_are_refused(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "model.safetensors", {"a": ("BF17", [4])})
    assert "no known dtype" in problem(checkpoint_tensors, _found(tmp_path)).reason
    write_safetensors(tmp_path / "model.safetensors", {"a": ("BF16", [-4])})
    assert "impossible shape" in problem(checkpoint_tensors, _found(tmp_path)).reason


def test_a_broken_index_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / INDEX_NAME, {"weight_map": []})
    assert "without a weight_map" in problem(checkpoint_tensors, _found(tmp_path)).reason
