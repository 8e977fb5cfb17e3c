"""Weights of one rank from a checkpoint's own tensors, under the engine's sharding rules.

Source: vLLM 0.33.0 ``model_executor/layers/{linear,vocab_parallel_embedding}.py`` and
``fused_moe/layer.py``: which modules share rows, columns or whole experts out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from math import prod
from typing import Final

from kvplan_cli.memory.weights.decoder import Stage
from kvplan_cli.memory.weights.ranks import VOCABULARY_PADDING, Site
from kvplan_cli.units import cdiv, round_up
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """A tensor of a checkpoint. dtype: by the safetensors format's name."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int


class Share(Enum):
    """How a module's tensors are shared out over tensor parallel ranks."""

    VOCABULARY = "vocabulary"
    COLUMN = "column"
    KEY_VALUE = "key_value"
    ROW = "row"
    WHOLE = "whole"
    UNKNOWN = "unknown"


class Ends(Enum):
    """Where embedding and head stand: at their ends, on every stage, or the embedding alone."""

    APART = "apart"
    EVERYWHERE = "everywhere"
    EMBEDDING = "embedding"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWeights:
    """What a rank of one stage holds. unknown: modules that no rule names, counted whole."""

    size_bytes: int
    unknown: tuple[str, ...] = ()


LAYER: Final = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_EXPERT: Final = re.compile(r"\.experts\.(\d+)\.")
_TOWER: Final = re.compile(
    r"(?:^|\.)(?:visual|vision\w*|vpm|vit\w*|audio\w*|multi_modal_projector|mm_projector|"
    r"embed_vision|embed_audio|image_newline|connector|resampler|mlp1|mlp_AR|whisper_encoder|"
    r"patch_merge_mlp|vision_projection|sam_model|qwen2_model|qformer|query_tokens|projector|"
    r"language_projection|aligner|vqmodel|embed_tokens_extend|view_seperator)(?:\.|$)"
)
# Modules that draft, beside those that are numbered behind the model's layers.
DRAFTING: Final = re.compile(r"(?:^|\.)mtp(?:_\w+)?\.")
# Other parts that the engine does not load with the model itself, or not to the card: speech
# output, buffers, tables of n-grams in the host's memory.
_NOT_LOADED: Final = re.compile(
    r"(?:^|\.)(?:talker|token2wav|code2wav)\.|rotary_emb\.|\.attn\.bias$|masked_bias$|"
    r"\.ngram_embedding\.(?:shard_\d+\.)?weight|\.engram\.embed(?:_tokens)?\.|"
    r"position_ids$|num_batches_tracked$|g_idx$"
)
_HEADS: Final = ("lm_head", "embed_out", "output_layer", "output")
_KINDS: Final = {
    Share.VOCABULARY: (
        *("embed_tokens", "wte", "embeddings", "word_embeddings", "embed_in", "tok_embeddings"),
        *("embed_tokens_per_layer", *_HEADS),
    ),
    Share.KEY_VALUE: ("k_proj", "v_proj", "key", "value"),
    Share.COLUMN: (
        *("q_proj", "qkv_proj", "query_key_value", "gate_proj", "up_proj", "gate_up_proj"),
        *("w1", "w3", "q_b_proj", "kv_b_proj", "c_fc", "fc1", "dense_h_to_4h", "in_proj"),
        *("in_proj_qkvz", "in_proj_qkv", "in_proj_z", "in_proj_ba", "in_proj_a", "in_proj_b"),
        *("conv1d", "dt_proj", "wq_b", "wo_a", "g_proj", "w13", "input_linear", "qkv", "c_attn"),
        *("f_b_proj", "g_b_proj", "b_proj", "a_proj", "query", "fc_in", "Wqkv", "wqkv", "W_pack"),
        *("Wi", "up_gate_proj", "att_proj", "ff_proj", "gqkv_proj", "v1"),
        *("q_conv1d", "k_conv1d", "v_conv1d", "per_layer_model_projection"),
    ),
    Share.ROW: (
        *("o_proj", "down_proj", "w2", "out_proj", "dense_4h_to_h", "c_proj", "fc2", "x_proj"),
        *("wo_b", "output_linear", "fc_out", "wo", "Wo", "attn_out", "ff_out"),
    ),
    Share.WHOLE: (
        *("gate", "router", "q_a_proj", "kv_a_proj_with_mqa", "shared_expert_gate", "wk"),
        *("weights_proj", "compressor", "wkv", "wgate", "wq_a", "sinks", "e_score_correction_bias"),
        *("fc1_latent_proj", "fc2_latent_proj", "g_a_proj", "f_a_proj"),
        *("mtp_linear_proj", "input_proj", "e_proj", "h_proj", "hc_head_fn", "hc_head_base"),
        *("mask_embedding", "mask_hidden", "d2t", "hidden_projection", "kernel_projection"),
        *("wg", "expert_bias", "router_bias", "gate_bias", "layer_scalar", "score", "classifier"),
        *("wpe", "embed_positions", "position_embeddings", "token_type_embeddings"),
        *("per_layer_input_gate", "per_layer_projection"),
    ),
}
_SHARE_OF: Final = {name: kind for kind, names in _KINDS.items() for name in names}
# Modules that are named alike and told apart by what they stand in.
_DENSE: Final = {
    **dict.fromkeys(("attention", "self_attention", "self_attn", "output"), Share.ROW),
    "intermediate": Share.COLUMN,
    "pooler": Share.WHOLE,
    "classifier": Share.WHOLE,
}
# Vectors that stand a head or a channel: shared out with them.
_PER_HEAD: Final = ("A_log", "A", "D", "dt_bias", "attn_sink")
# The last parts of a tensor's name that belong to its module.
_TENSOR_PARTS: Final = frozenset(
    {"weight", "bias", "weight_scale", "weight_scale_inv", "weight_scale_2", "weight_packed"}
    | {"weight_shape", "weight_zero_point", "weight_g_idx", "input_scale", "qweight", "qzeros"}
    | {"scales", "g_idx", "scale", "weight_global_scale", "input_global_scale", "blocks"}
)
_ELEMENT: Final = "U8"
_FLOATS: Final = frozenset({"F64", "F32", "F16", "BF16"})
_SCALES: Final = ("scale", "zero", "A_log", "correction_bias", "absmax", "_inv")


def module_of(name: str) -> str:
    """The module that a tensor belongs to, by the last word of its path."""
    return _path_of(name)[-1]


def _path_of(name: str) -> list[str]:
    parts = name.split(".")
    while len(parts) > 1 and (parts[-1] in _TENSOR_PARTS or parts[-1].isdigit()):
        parts.pop()
    return parts


def share_of(name: str) -> Share:
    """How the engine shares a tensor out, by its module's name."""
    *inside, module = _path_of(name)
    if module in _SHARE_OF:
        return _SHARE_OF[module]
    if module == "dense" and inside:
        return _DENSE.get(inside[-1], Share.UNKNOWN)
    lower = module.lower()
    if "norm" in lower or "ln_" in lower or lower.startswith("ln") or "scale" in lower:
        return Share.WHOLE
    if module in _PER_HEAD:
        return Share.COLUMN
    # Fused experts: a stack of matrices whose names say which of the two they are.
    for part, kind in (("gate_up_proj", Share.COLUMN), ("down_proj", Share.ROW)):
        if module.startswith(part):
            return kind
    return Share.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel:
    """A checkpoint as one rank of each stage reads it.

    num_kv_heads: of the language model. num_experts: of a layer, 0 for none. tower_share: what
    a rank holds of the encoders before it, as numerator and denominator. ends: where embedding
    and head stand. shares: of modules that this model shares out in another way. builds_head:
    whether the engine builds a head of its own, which it decides by the config, whatever the
    checkpoint has.
    """

    tensors: tuple[StoredTensor, ...]
    num_kv_heads: int
    num_experts: int = 0
    tower_share: tuple[int, int] = (1, 1)
    ends: Ends = Ends.APART
    shares: Mapping[str, Share] = field(default_factory=dict)
    builds_head: bool = True

    @property
    def has_head(self) -> bool:
        """Whether a head of the checkpoint is loaded."""
        return self.builds_head and any(module_of(tensor.name) in _HEADS for tensor in self.tensors)

    def stages(self, site: Site, stages: Sequence[Stage]) -> tuple[StoredWeights, ...]:
        """What a rank of each stage holds."""
        return tuple(self._stage(site, stage) for stage in stages)

    def counting_elements(self) -> StoredModel:
        """The same checkpoint with each element for one byte, whatever its type."""
        tensors = (
            replace(tensor, dtype=_ELEMENT, size_bytes=prod(tensor.shape))
            for tensor in self.tensors
        )
        return replace(self, tensors=tuple(tensors))

    def whole(self, site: Site) -> StoredWeights:
        """What a rank holds of all tensors, wherever they stand."""
        return self._held(self.tensors, site)

    def _stage(self, site: Site, stage: Stage) -> StoredWeights:
        held = [tensor for tensor in self.tensors if self._stands_on(tensor.name, stage)]
        return self._held(held, site)

    def _held(self, held: Sequence[StoredTensor], site: Site) -> StoredWeights:
        total = sum(self._bytes(tensor, site) for tensor in held)
        unknown = {
            module_of(tensor.name)
            for tensor in held
            if self._share(tensor) is Share.UNKNOWN and not _TOWER.search(tensor.name)
        }
        return StoredWeights(size_bytes=total, unknown=tuple(sorted(unknown)))

    def _stands_on(self, name: str, stage: Stage) -> bool:
        if DRAFTING.search(name) or _NOT_LOADED.search(name):
            return False
        if _TOWER.search(name):
            return stage.is_first
        layer = LAYER.search(name)
        if layer is not None:
            # Layers behind the last are those of a drafter.
            return int(layer.group(1)) in stage.layers
        return self._ends_on(name, stage)

    def _ends_on(self, name: str, stage: Stage) -> bool:
        """Whether a stage has this part of the embedding, the last norm or the head."""
        if module_of(name) in _HEADS and not self.builds_head:
            return False
        if self.ends is Ends.EVERYWHERE:
            return True
        if module_of(name) in _HEADS or share_of(name) is not Share.VOCABULARY:
            return stage.is_last
        alone = self.ends is Ends.EMBEDDING
        return alone or stage.is_first or (stage.is_last and not self.has_head)

    def _bytes(self, tensor: StoredTensor, site: Site) -> int:
        size = _loaded_bytes(tensor, site.itemsize)
        if _TOWER.search(tensor.name):
            return size * self.tower_share[0] // self.tower_share[1]
        if _EXPERT.search(tensor.name) or _is_stack(tensor):
            return self._expert_bytes(tensor, size, site)
        if share_of(tensor.name) is Share.VOCABULARY and tensor.shape:
            row = prod(tensor.shape[1:]) * size // max(1, prod(tensor.shape))
            return site.share(round_up(tensor.shape[0], VOCABULARY_PADDING)) * row
        return cdiv(size, self._parts(tensor, site.tensor_parallel_size))

    def _share(self, tensor: StoredTensor) -> Share:
        own = self.shares.get(module_of(tensor.name))
        return share_of(tensor.name) if own is None else own

    def _parts(self, tensor: StoredTensor, ranks: int) -> int:
        """Into how many equal parts a tensor of a dense module is shared out."""
        if prod(tensor.shape) <= 1:
            return 1
        match self._share(tensor):
            case Share.KEY_VALUE:
                return min(ranks, self.num_kv_heads)
            case Share.COLUMN:
                return ranks
            case Share.ROW:
                return ranks if _has_columns(tensor) else 1
            case _:
                return 1

    def _expert_bytes(self, tensor: StoredTensor, size: int, site: Site) -> int:
        """Whole experts on the first ranks, or a part of each on all of them."""
        if site.expert_parallel_size > 1:
            found = _EXPERT.search(tensor.name)
            if found is not None:
                held = site.experts_held(self.num_experts)
                return size if int(found.group(1)) < held else 0
            return size // tensor.shape[0] * site.experts_held(tensor.shape[0])
        shared = prod(tensor.shape) > 1 and (
            share_of(tensor.name) is Share.COLUMN or _has_columns(tensor)
        )
        return cdiv(size, site.expert_shards) if shared else size


def _is_stack(tensor: StoredTensor) -> bool:
    return ".experts." in tensor.name and len(tensor.shape) > 2


def _has_columns(tensor: StoredTensor) -> bool:
    """Whether there is more than one number a row: biases and scales of rows stay whole."""
    return len(tensor.shape) > 1 and tensor.shape[-1] > 1


def _loaded_bytes(tensor: StoredTensor, itemsize: int) -> int:
    """Bytes once loaded: weights are cast to the model dtype, scales stay as they are."""
    if tensor.dtype in _FLOATS and not any(part in tensor.name for part in _SCALES):
        return prod(tensor.shape) * itemsize
    return tensor.size_bytes


def experts_in(tensors: Iterable[StoredTensor]) -> int:
    """Routed experts of a layer, by the highest number in a name; 0 where none is numbered."""
    found = (_EXPERT.search(tensor.name) for tensor in tensors)
    return max((int(match.group(1)) + 1 for match in found if match is not None), default=0)
