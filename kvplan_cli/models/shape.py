"""What a model family says of its layers, before flags, cards and backends have a word."""

from __future__ import annotations

from enum import Enum

from kvplan_cli.dtypes import DType
from kvplan_cli.models.recurrent import RecurrentState
from kvplan_cli.values import dataclass


class AttentionKind(Enum):
    """Which tokens a layer attends to; it decides what its cache keeps."""

    FULL = "full"
    SLIDING = "sliding"
    CHUNKED = "chunked"
    ENCODER_ONLY = "encoder_only"
    CROSS = "cross"
    REFERENCE_SLIDING = "reference_sliding"
    STATIC_SINK = "static_sink"


class RunnerType(Enum):
    """What the engine runs an architecture for by default."""

    GENERATE = "generate"
    POOLING = "pooling"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCache:
    """How a layer class of the model's own caches, outside the engine's Attention layer.

    backend: the backend that the class names; nothing is selected or validated. block_size:
    tokens of a block where the class fixes them. model_dtype: the cache holds the model's
    dtype whatever the KV dtype is. quantized: the spec carries the KV dtype's quantization
    mode; others carry none. topk_blocks: blocks that a block-sparse layer attends to.
    """

    backend: str
    block_size: int | None = None
    model_dtype: bool = False
    quantized: bool = False
    topk_blocks: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeModelDims:
    """Dimensions that the engine reads of the model as a whole, before tensor parallelism."""

    num_attention_heads: int
    num_kv_heads: int
    head_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLayer:
    """Any layer that the engine knows by name for its cache.

    name: the engine's layer name (its prefix in the model), e.g.
        ``model.layers.0.self_attn.attn``.
    decoder_layer: index of the decoder layer that holds it; decides the pipeline stage.
    """

    name: str
    decoder_layer: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionLayer(CacheLayer):
    """One attention layer as the architecture declares it, unsharded.

    num_attention_heads, num_kv_heads: of the whole model, before tensor parallelism.
    head_size, head_size_v: elements of a key and of a value.
    sliding_window: tokens, only with SLIDING. attention_chunk_size: tokens, only with CHUNKED.
    rswa_window: generated tokens, only with REFERENCE_SLIDING. sink_len: learned tokens in
        front, only with STATIC_SINK.
    kv_sharing_target: the layer whose cache this one uses; such a layer has no spec.
    has_sink, logits_soft_cap, alibi, alibi_sqrt: what attention backends ask about (the last:
        ALiBi by the square root of the distance).
    mm_prefix: bidirectional attention over multimodal tokens (PrefixLM).
    own_cache: set where the layer is no Attention layer of the engine.
    ignores_cache_config: the model file hands the layer no cache config, so it stores the
        model's dtype whatever the KV dtype is.
    states_per_token: states that it keeps for each token of the language part.
    pinned_backend: the backend that the model file names; none is selected or validated.
    """

    kind: AttentionKind
    num_attention_heads: int
    num_kv_heads: int
    head_size: int
    head_size_v: int
    sliding_window: int | None = None
    attention_chunk_size: int | None = None
    rswa_window: int | None = None
    sink_len: int | None = None
    kv_sharing_target: str | None = None
    has_sink: bool = False
    logits_soft_cap: bool = False
    alibi: bool = False
    alibi_sqrt: bool = False
    mm_prefix: bool = False
    non_causal: bool = False
    own_cache: OwnCache | None = None
    ignores_cache_config: bool = False
    states_per_token: int = 1
    pinned_backend: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MLALayer(CacheLayer):
    """One layer of multi-head latent attention (the engine's MLAAttention), unsharded.

    num_attention_heads: of the whole model, before tensor parallelism.
    kv_lora_rank, qk_rope_head_dim: elements of the latent vector and of the shared rotary key,
        which together are what a token stores.
    qk_nope_head_dim, v_head_dim: of an unfolded head; the kernels ask.
    index_topk: tokens that an indexer chooses, None in a model without.
    is_sparse: it attends to those only. is_index_group_leader: the layer brings the indexer
        that it and its followers use.
    has_sink: learned sinks, served by FLASHMLA_SPARSE where that can run at all.
    sliding_window: tokens, None for all.
    backend: the backend that the model file names; None, the engine selects one. A sparse
        layer is selected for all the same before.
    stored_head_size: elements that a token takes, where they are more than its state.
    can_unfold: the model file has plain attention for VLLM_MLA_DISABLE.
    non_causal_multi_token_decode: a draft's layer whose several tokens attend to each other.
    """

    num_attention_heads: int
    kv_lora_rank: int
    qk_rope_head_dim: int
    qk_nope_head_dim: int
    v_head_dim: int
    index_topk: int | None = None
    is_sparse: bool = False
    is_index_group_leader: bool = False
    has_sink: bool = False
    sliding_window: int | None = None
    backend: str | None = None
    stored_head_size: int | None = None
    can_unfold: bool = False
    non_causal_multi_token_decode: bool = False

    @property
    def head_size(self) -> int:
        """Elements of one token's state."""
        return self.kv_lora_rank + self.qk_rope_head_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLayer(CacheLayer):
    """The keys of a sparse layer's indexer: one a token, or one a few tokens.

    backend: the backend that the cache's class names. head_size: elements of a stored key,
    scales counted in. tokens_per_state: tokens that one key stands for. max_tp_shards: as in
    the spec. marked: its spec says that it is an indexer's.
    """

    backend: str
    head_size: int
    dtype: DType
    tokens_per_state: int = 1
    max_tp_shards: int | None = 1
    marked: bool = True


class CompressedPart(Enum):
    """What a cache of compressed latent attention holds."""

    WINDOW = "window"
    VECTORS = "vectors"
    INDEX = "index"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedLayer(CacheLayer):
    """One of the caches of a layer that compresses its past (DeepSeek V4).

    part: the last tokens' vectors, one vector for several tokens, its index key, or what has
    been gathered of the next one. num_attention_heads: of the whole model. head_size: elements
    of a state. compress_ratio: tokens of one vector, 1 where the layer keeps none.
    sliding_window: tokens, of the window and of what is being gathered.
    """

    part: CompressedPart
    num_attention_heads: int
    head_size: int
    compress_ratio: int
    sliding_window: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLatentLayer(CacheLayer):
    """One of the caches of a layer whose past another layer may keep (DeepSeek V4.1).

    part: as in ``CompressedLayer``. num_attention_heads, num_groups: of the whole model, and of
    its output's projection. head_size: elements of a state. compress_ratio: tokens of one
    vector, 0 where the layer attends to its window alone. owns: it keeps the vectors itself;
    source: the number of the layer that does. chooses: it brings an indexer.
    """

    part: CompressedPart
    num_attention_heads: int
    num_groups: int
    head_size: int
    compress_ratio: int
    sliding_window: int
    owns: bool
    chooses: bool
    source: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RingLayer(CacheLayer):
    """Raw index keys of the tokens that do not fill a pool yet: a ring a request.

    backend: the backend that the cache's class names. pool: tokens of a pool; the ring holds
    one, and the drafts in whole pools (doubling: a power of two of them). num_slots: vectors a
    token. head_size: elements of a vector. position_elements: further ones that a deployment
    with other inputs than text adds. num_kv_heads: of the attention beside it.
    """

    backend: str
    pool: int
    head_size: int
    num_slots: int = 1
    doubling: bool = False
    position_elements: int = 0
    num_kv_heads: int | None = None


class RegionPart(Enum):
    """What a layer that chooses regions keeps beside its keys and values."""

    SUMMARIES = "summaries"
    TAIL = "tail"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionLayer(CacheLayer):
    """One summary for each closed region, or the raw rows of the open one (Step 5).

    beside: the attention layer that it belongs to.
    """

    part: RegionPart
    beside: AttentionLayer


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLayer(CacheLayer):
    """One layer that keeps a recurrent state a sequence, as the architecture declares it.

    state: its dimensions, unsharded.
    """

    state: RecurrentState


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenStateLayer(CacheLayer):
    """Hidden states kept to be handed out, not attended to.

    num_hidden_states: layers whose states are kept. hidden_size: elements of one.
    """

    num_hidden_states: int
    hidden_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerStack:
    """Layers outside the language model; pipeline stages share out their own ``num_layers``."""

    layers: tuple[CacheLayer, ...]
    num_layers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """All that the planner needs of an architecture.

    architecture: the engine's class that serves it. num_hidden_layers: decoder layers that
    pipeline stages share out. layers: in the engine's registration order. whole_model: what
    the engine takes for the model as a whole, None where that is the largest of the layers.
    modalities: inputs beside text (``image``, ``video``, ``audio``); needed where mm_prefix
    layers exist, since limiting all of them to zero turns the prefix attention off.
    block_states: the states that the engine sizes the attention blocks of a hybrid by; the
    largest counts, none for other models. encoder: what keeps a cache behind the decoder layers.
    """

    architecture: str
    num_hidden_layers: int
    layers: tuple[CacheLayer, ...]
    whole_model: WholeModelDims | None = None
    modalities: tuple[str, ...] = ()
    block_states: tuple[RecurrentState, ...] = ()
    encoder: LayerStack | None = None

    @property
    def attention_layers(self) -> tuple[AttentionLayer, ...]:
        """The layers that keep keys and values."""
        return tuple(layer for layer in self.layers if isinstance(layer, AttentionLayer))

    @property
    def latent_layers(self) -> tuple[MLALayer, ...]:
        """The layers that keep latent vectors."""
        return tuple(layer for layer in self.layers if isinstance(layer, MLALayer))


@dataclass(frozen=True, slots=True, kw_only=True)
class MultimodalItem:
    """The largest item of a modality that an architecture states without its processor.

    modality: the engine's name. tokens: of the item, or of each of its ``frames`` at most.
    Source: vLLM 0.33.0 ``BaseProcessingInfo.get_mm_max_tokens_per_item`` of each model.
    """

    modality: str
    tokens: int
    frames: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchitectureTraits:
    """What the engine asks of an architecture while it resolves its settings.

    architecture: the engine's class. runner_type: its default runner. supports_pp: may be
    split into pipeline stages. is_multimodal: takes images, audio or video beside text.
    is_mm_prefix_lm: multimodal tokens attend both ways.
    attn_type: ``decoder``, or ``encoder_only`` where its class says so; asked when it pools.
    default_seq_pooling_type, default_tok_pooling_type: what a pooling runner takes of a
        sequence and of its tokens by default.
    modalities: inputs beside text. mm_items: their largest items, of those modalities whose
        size the architecture states without a look at its processor.
    is_hybrid: keeps recurrent states beside attention. is_attention_free: keeps states only.
    """

    architecture: str
    runner_type: RunnerType = RunnerType.GENERATE
    supports_pp: bool = True
    is_multimodal: bool = False
    is_mm_prefix_lm: bool = False
    is_encoder_decoder: bool = False
    is_hybrid: bool = False
    is_attention_free: bool = False
    use_mla: bool = False
    attn_type: str = "decoder"
    default_seq_pooling_type: str = "LAST"
    default_tok_pooling_type: str = "ALL"
    modalities: tuple[str, ...] = ()
    mm_items: tuple[MultimodalItem, ...] = ()
