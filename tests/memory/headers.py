"""Tensors of small checkpoints by the names that they have on the hub, and files of them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, Final

Shapes = Mapping[str, tuple[int, ...]]

LLAMA: Final[dict[str, Any]] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_hidden_layers": 4,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "torch_dtype": "bfloat16",
}
MOE: Final[dict[str, Any]] = {
    **LLAMA,
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 128,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "norm_topk_prob": True,
}


def attention(layer: str, qk_norm: bool) -> dict[str, tuple[int, ...]]:
    norms: dict[str, tuple[int, ...]] = (
        {f"{layer}.self_attn.{part}_norm.weight": (32,) for part in "qk"} if qk_norm else {}
    )
    return {
        f"{layer}.self_attn.q_proj.weight": (256, 256),
        f"{layer}.self_attn.k_proj.weight": (64, 256),
        f"{layer}.self_attn.v_proj.weight": (64, 256),
        f"{layer}.self_attn.o_proj.weight": (256, 256),
        f"{layer}.input_layernorm.weight": (256,),
        f"{layer}.post_attention_layernorm.weight": (256,),
        **norms,
    }


def gated(path: str, inner: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{path}.gate_proj.weight": (inner, 256),
        f"{path}.up_proj.weight": (inner, 256),
        f"{path}.down_proj.weight": (256, inner),
    }


def _ends(tied: bool) -> dict[str, tuple[int, ...]]:
    head: dict[str, tuple[int, ...]] = {} if tied else {"lm_head.weight": (1000, 256)}
    return {"model.embed_tokens.weight": (1000, 256), "model.norm.weight": (256,), **head}


def llama(*, tied: bool = False) -> dict[str, tuple[int, ...]]:
    """The tensors of ``LLAMA``."""
    shapes = _ends(tied)
    for index in range(4):
        layer = f"model.layers.{index}"
        shapes |= attention(layer, qk_norm=False) | gated(f"{layer}.mlp", 512)
    return shapes


def moe() -> dict[str, tuple[int, ...]]:
    """The tensors of ``MOE``."""
    shapes = _ends(tied=False)
    for index in range(4):
        layer = f"model.layers.{index}"
        shapes |= attention(layer, qk_norm=True) | {f"{layer}.mlp.gate.weight": (6, 256)}
        for expert in range(6):
            shapes |= gated(f"{layer}.mlp.experts.{expert}", 128)
    return shapes


def write_checkpoint(
    folder: Path, config: Mapping[str, Any], shapes: Shapes, dtype: str = "BF16"
) -> Path:
    """A folder with a config and one safetensors file, its data left out but for their length."""
    itemsize = {"BF16": 2, "F32": 4}[dtype]
    header: dict[str, Any] = {}
    offset = 0
    for name, shape in shapes.items():
        end = offset + prod(shape) * itemsize
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)
    return folder


def write_index(folder: Path, config: Mapping[str, Any], shapes: Shapes) -> Path:
    """A folder with a config and an index of shards that are not there."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    total = sum(2 * prod(shape) for shape in shapes.values())
    index = {
        "metadata": {"total_size": total},
        "weight_map": dict.fromkeys(shapes, "model-00001-of-00001.safetensors"),
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
