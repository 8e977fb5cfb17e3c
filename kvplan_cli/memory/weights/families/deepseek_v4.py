"""DeepSeek V4: compressed latent attention, residual streams, experts chosen by token.

Source: vLLM 0.33.0 ``vllm/models/deepseek_v4/{attention,compressor,nvidia/model}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.errors import EngineRefusalError, MissingFieldError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.decoder import Decoder, Stage
from kvplan_cli.memory.weights.families.latent_others import hyper_connections
from kvplan_cli.memory.weights.families.mixtures import SMALL, times
from kvplan_cli.memory.weights.layers import LayerFacts, size, sized, together
from kvplan_cli.memory.weights.moe import Experts
from kvplan_cli.memory.weights.quantization import DATA_CENTRE_BLACKWELL
from kvplan_cli.memory.weights.ranks import Site, with_tokens_unstaged
from kvplan_cli.memory.weights.rope import MAX_POSITIONS
from kvplan_cli.memory.weights.tensors import FLOAT32, INT32, Tensor, Tensors
from kvplan_cli.models.shape import CacheLayer, CompressedLayer, CompressedPart, SharedLatentLayer
from kvplan_cli.units import cdiv

# Heads that the attention kernels are built for: FlashMLA's, and FlashInfer's.
_FLASHMLA_HEADS: Final = (64, 128)
_FLASHINFER_HEADS: Final = (8, 16, 32, *_FLASHMLA_HEADS)
# A plain cache in fp8 has a factor of the queries, its inverse, and one of the keys.
_FLASHINFER_FACTORS: Final = 3
_PLAIN_FP8: Final = frozenset({"fp8", "fp8_e4m3"})
_INDEXED: Final = 4


def _ratio(layers: Sequence[CacheLayer]) -> int:
    """Tokens of a compressed vector; 1 where the layer has a window alone."""
    return next(
        layer.compress_ratio
        for layer in layers
        if isinstance(layer, CompressedLayer) and layer.part is CompressedPart.VECTORS
    )


def _compressor(site: Site, hidden: int, width: int, ratio: int) -> Tensors:
    """Vectors and weights of each token, and a learned place in the group of tokens."""
    overlap = 2 if ratio == _INDEXED else 1
    return (
        *site.vector("ape", ratio * overlap * width, FLOAT32),
        *site.plain("fused_wkv_wgate", hidden, 2 * overlap * width),
        *site.vector("norm", width),
    )


def _indexer(site: Site, config: HfConfig, hidden: int) -> Tensors:
    heads, width = config.positive("index_n_heads"), config.positive("index_head_dim")
    return (
        *site.replicated("wq_b", config.positive("q_lora_rank"), heads * width),
        *site.plain("weights_proj", hidden, heads),
        *_compressor(site, hidden, width, _INDEXED),
    )


def latent_projections(facts: LayerFacts) -> Tensors:
    """Sinks, queries, the shared vector and the output's projection in groups."""
    config, hidden, site = facts.config, facts.hidden_size, facts.site.at("attn")
    heads, width = size(config, "num_attention_heads"), config.positive("head_dim")
    rank = config.positive("q_lora_rank")
    groups, out_rank = config.positive("o_groups"), config.positive("o_lora_rank")
    return (
        *site.vector("attn_sink", _sinks(site, heads), FLOAT32),
        *site.replicated("fused_wqa_wkv", hidden, (rank, width)),
        *site.vector("q_norm", rank),
        *site.column("wq_b", rank, heads * width),
        *site.vector("kv_norm", width),
        *site.column("wo_a", heads * width // groups, groups * out_rank),
        *site.row("wo_b", groups * out_rank, hidden),
        *(site.vector("fp8_scale", 1, FLOAT32) * _FLASHINFER_FACTORS if _scales(site) else ()),
    )


def _sinks(site: Site, heads: int) -> int:
    """Heads of a rank's sinks, as many as its kernel reads."""
    held = site.share(heads)
    built = _FLASHINFER_HEADS if site.flashinfer else _FLASHMLA_HEADS
    found = next((number for number in built if held <= number), None)
    if found is None:
        raise EngineRefusalError(
            stage="model_error",
            error_type="ValueError",
            message=f"DeepseekV4 sparse MLA does not support {held} heads on a rank",
            way_out="share the heads out over more ranks",
        )
    return found


def _scales(site: Site) -> bool:
    """Whether the layer keeps factors: FlashInfer's on data centre Blackwell, of a plain cache."""
    plain = site.settings is not None and site.settings.cache_dtype in _PLAIN_FP8
    return site.flashinfer and plain and site.capability[0] == DATA_CENTRE_BLACKWELL


def _attention(facts: LayerFacts) -> Tensors:
    config, hidden, site = facts.config, facts.hidden_size, facts.site.at("attn")
    width, ratio = config.positive("head_dim"), _ratio(facts.caches)
    return (
        *latent_projections(facts),
        *(_compressor(site, hidden, width, ratio) if ratio > 1 else ()),
        *(_indexer(site.at("indexer"), config, hidden) if ratio == _INDEXED else ()),
    )


def _hash_layers(config: HfConfig) -> int:
    """The first layers choose experts by the token alone."""
    kinds = config.optional_list("mlp_layer_types")
    if kinds is not None:
        return list(kinds).count("hash_moe")
    count = config.optional_integer("num_hash_layers", minimum=0)
    if count is None:
        raise MissingFieldError(config.where("num_hash_layers"), config.origin)
    return count


def shared_size(site: Site, config: HfConfig) -> int:
    """Inner size of the shared experts; each rank holds whole blocks of scales."""
    whole = times("n_shared_experts", SMALL)(config)
    section = config.optional_section("quantization_config")
    block = None if section is None else section.optional_list("weight_block_size")
    if not block or with_tokens_unstaged(site):
        return whole
    ranks, rows = site.tensor_parallel_size, int(block[0])
    return cdiv(whole // rows, ranks) * rows * ranks


def _feed_forward(facts: LayerFacts) -> Tensors:
    config, site = facts.config, facts.site.at("ffn")
    hashed = facts.index < _hash_layers(config)
    corrects = config.optional_text("topk_method") == "noaux_tc"
    experts = Experts(
        path="ffn",
        count=sized("n_routed_experts"),
        shared=lambda config: shared_size(site, config),
        whole_shared=with_tokens_unstaged,
        correction=lambda config: corrects and not hashed,
    )(facts)
    if not hashed:
        return experts
    rows = size(config, "vocab_size") * config.positive("num_experts_per_tok")
    return (*experts, *site.vector("gate.tid2eid", rows, INT32))


def stream_mixers(facts: LayerFacts) -> Tensors:
    """Two mixers of residual streams: in, out, and every stream with every other."""
    streams = facts.config.positive("hc_mult")
    outputs = streams * (streams + 2)
    return hyper_connections(facts.site, streams, facts.hidden_size, outputs, 3) * 2


def _stream_head(site: Site, config: HfConfig, stage: Stage) -> Tensors:
    streams = config.positive("hc_mult")
    return hyper_connections(site, streams, size(config, "hidden_size"), streams, 1)


class _Rope:
    """One table for layers that compress, and one for those with a window alone."""

    def __call__(self, config: HfConfig, layers: Sequence[CacheLayer], itemsize: int) -> Tensors:
        return tuple(self.by_rotation(config, layers, itemsize).values())

    def by_rotation(
        self, config: HfConfig, layers: Sequence[CacheLayer], itemsize: int
    ) -> Mapping[object, Tensor]:
        """The tables by what the engine tells them apart by."""
        vectors = [
            layer
            for layer in layers
            if isinstance(layer, CompressedLayer | SharedLatentLayer)
            and layer.part is CompressedPart.VECTORS
        ]
        kinds = {_compresses(layer) for layer in vectors}
        width = config.positive("qk_rope_head_dim")
        return {
            ("compresses", kind): Tensor(
                "rotary_emb.cos_sin_cache", _rows(config, kind) * width, FLOAT32
            )
            for kind in kinds
        }


def _compresses(layer: CompressedLayer | SharedLatentLayer) -> bool:
    """V4 calls a window alone a ratio of one, V4.1 of zero."""
    return layer.compress_ratio > (0 if isinstance(layer, SharedLatentLayer) else 1)


def _rows(config: HfConfig, compresses: bool) -> int:
    """Rows of a table; only compressing layers scale their positions."""
    section = config.optional_section("rope_scaling") or config.optional_section("rope_parameters")
    if section is not None and section.has("compress"):
        section = section.section("compress")
    kind = None if section is None else section.raw("rope_type") or section.raw("type")
    if section is None or kind in (None, "default") or not compresses:
        return MAX_POSITIONS(config)
    factor = section.optional_number("factor") or 1.0
    return int(section.positive("original_max_position_embeddings") * factor)


def _seeing_gate(facts: LayerFacts) -> Tensors:
    """A bias of the router for images, and one for text in the hashed layers as well."""
    count = facts.config.positive("n_routed_experts")
    biases = 2 if facts.index < _hash_layers(facts.config) else 1
    return facts.site.vector("ffn.gate.bias_vl", count, FLOAT32) * biases


V4: Final = Decoder(
    attention=_attention,
    feed_forward=_feed_forward,
    beside=stream_mixers,
    rope=_Rope(),
    extras=_stream_head,
)
SEEING_V4: Final = replace(V4, beside=together(stream_mixers, _seeing_gate))
DEEPSEEK_V4: Final[Mapping[str, Decoder]] = {"DeepseekV4ForCausalLM": V4}
