"""Weights of one rank of each pipeline stage, counted from the config."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from kvplan_cli.dtypes import DType
from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.errors import UnplannableError
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.budget import Estimate, Source
from kvplan_cli.memory.weights.decoder import Stage
from kvplan_cli.memory.weights.latent import copies
from kvplan_cli.memory.weights.layers import TIED
from kvplan_cli.memory.weights.modalities import loads_towers
from kvplan_cli.memory.weights.quantization import Scheme
from kvplan_cli.memory.weights.ranks import VOCABULARY_PADDING, Site
from kvplan_cli.memory.weights.registry import describe
from kvplan_cli.memory.weights.schemes import ExtraFiles, scheme_of
from kvplan_cli.memory.weights.stored import Ends
from kvplan_cli.memory.weights.tensors import Tensors, allocated_bytes, on_card, total_bytes
from kvplan_cli.models.shape import ModelShape, RunnerType
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.cuda_graphs import is_compiled
from kvplan_cli.settings.environment import PP_LAYER_PARTITION, number_flag
from kvplan_cli.settings.expert_parallel import shares_out_tokens
from kvplan_cli.settings.pipeline import stage_layers
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.units import round_up

HOPPER: Final = (9, 0)
Backends = frozenset[str]
NO_BACKENDS: Final[Backends] = frozenset()
NO_FILES: Final[ExtraFiles] = MappingProxyType({})
# What repacking may leave of weights whose kernels are not described to the byte.
_REPACKED_MARGIN: Final = 0.03


def rank_tensors(
    config: HfConfig,
    shape: ModelShape,
    settings: ResolvedSettings,
    args: EngineArgs,
    extra_files: ExtraFiles = NO_FILES,
    capability: tuple[int, int] = HOPPER,
    backends: Backends = NO_BACKENDS,
) -> tuple[Tensors, ...]:
    """The tensors of TP rank 0 of each stage right after construction, with their buffers.

    backends: the attention backends' names, on which a few bytes of sinks and scales turn.
    Raises UnplannableError for an architecture or quantization that is not described,
    MissingFieldError for a size that the config does not have, EngineRefusalError for sizes
    that the ranks do not divide.
    """
    scheme = scheme_of(config, text_config(config), settings.quantization, extra_files, capability)
    site = _site(settings, args, scheme, capability, backends)
    return _tensors(config, shape, settings, args, site, extra_files)


def loaded_tensors(
    config: HfConfig,
    shape: ModelShape,
    settings: ResolvedSettings,
    args: EngineArgs,
    extra_files: ExtraFiles = NO_FILES,
    capability: tuple[int, int] = HOPPER,
    backends: Backends = NO_BACKENDS,
) -> tuple[Tensors, ...]:
    """The same once kernels have laid the weights out, with what latent attention unfolds and
    the places that the model keeps for its inputs."""
    text = text_config(config)
    scheme = scheme_of(config, text, settings.quantization, extra_files, capability)
    site = _site(settings, args, scheme.repacked(), capability, backends)
    built = _tensors(config, shape, settings, args, site, extra_files)
    unfolded = _unfolded(shape, settings, args)
    wrapper = describe(settings.architecture, config, text).wrapper
    kept = wrapper.inputs if wrapper is not None else ()
    inputs = tuple(tensor for part in kept for tensor in part(site.unquantized(), config))
    return tuple(stage + own + inputs for stage, own in zip(built, unfolded, strict=True))


def builds_head(config: HfConfig, settings: ResolvedSettings) -> bool:
    """Whether the engine builds a head that is not the embedding: the config alone says so."""
    text = text_config(config)
    try:
        described = describe(settings.architecture, config, text)
    except UnplannableError:
        return not (TIED(config) or TIED(text))
    wrapper = described.wrapper
    pools = settings.runner_type is RunnerType.POOLING
    if pools and not (wrapper is not None and wrapper.keeps_head):
        return False
    return not (described.decoder.tied(text) or (wrapper is not None and wrapper.tied(config)))


def ends_of(config: HfConfig, settings: ResolvedSettings) -> Ends:
    """Where the architecture's stages hold embedding and head."""
    try:
        described = describe(settings.architecture, config, text_config(config))
    except UnplannableError:
        return Ends.APART
    if described.decoder.everywhere:
        return Ends.EVERYWHERE
    return Ends.EMBEDDING if described.decoder.embedding_everywhere else Ends.APART


# What stands in modules without being in a checkpoint.
_BESIDE: Final = frozenset(
    {"rotary_emb.cos_sin_cache", "rotary_pos_emb.cos_sin_cache", "cache_scale", "conv_weights"}
    | {"rotary_emb.inv_freq", "rotary_emb.original_inv_freq", "inv_freq", "expert_map"}
    | {"mup_vector", "decode_conv1d_weight", "decode_norm_weight", "q_scale", "k_scale"}
    | {"v_scale", "prob_scale", "_one_scale", "position_ids", "topk_indices_buffer"}
    | {"token_map", "hash_numbers", "max_token_id", "token_type_ids"}
    | {"q_zero_point", "k_zero_point", "v_zero_point"}
    | {"self_attn.softcap", "rel_pos_enc.inv_timescales"}
)


def beside_checkpoint(tensors: Tensors) -> int:
    """Bytes of tables and factors that no checkpoint has."""
    return total_bytes(tensor for tensor in tensors if tensor.name in _BESIDE)


def of_checkpoint(tensors: Tensors) -> Tensors:
    """The tensors that a checkpoint has."""
    return tuple(tensor for tensor in tensors if tensor.name not in _BESIDE)


def padding_bytes(tensors: Tensors, text: HfConfig) -> int:
    """Bytes of the rows that the engine adds to a vocabulary's tables, which no checkpoint has."""
    rows = text.optional_integer("vocab_size", minimum=1)
    if rows is None:
        return 0
    padded = round_up(rows, VOCABULARY_PADDING)
    tables = sum(tensor.nbytes for tensor in tensors if tensor.name in _TABLES)
    return tables * (padded - rows) // padded


_TABLES: Final = frozenset({"embed_tokens.weight", "lm_head.weight"})


def rank_site(settings: ResolvedSettings, args: EngineArgs) -> Site:
    """How modules are shared out on this start, whatever their format."""
    return _site(settings, args, Scheme(), HOPPER)


def rank_stages(
    shape: ModelShape, settings: ResolvedSettings, args: EngineArgs
) -> tuple[Stage, ...]:
    """The pipeline stages of this start."""
    return _stages(shape, settings, args)


def tower_share(
    config: HfConfig,
    settings: ResolvedSettings,
    args: EngineArgs,
    extra_files: ExtraFiles = NO_FILES,
) -> tuple[int, int]:
    """What a rank of the first stage holds of the towers, and the towers' whole size.

    (1, 1) for an architecture without any, or that is not described; (0, 1) where they are
    not loaded.
    """
    stage = Stage(layers=range(0), is_first=True, is_last=False)
    site = _site(settings, args, Scheme(), HOPPER)
    try:
        wrapper = describe(settings.architecture, config, text_config(config)).wrapper
        if wrapper is None:
            return 1, 1
        config = wrapper.with_files(config, extra_files)
        held = total_bytes(wrapper.tower_tensors(site, config, stage, args.serves))
        alone = site.replicated_site()
        whole = total_bytes(wrapper.tower_tensors(alone, config, stage, _everything))
    except UnplannableError:
        return (1, 1) if loads_towers(args, settings.architecture) else (0, 1)
    return (held, whole) if whole else (1, 1)


def _everything(modality: str) -> bool:
    return True


def count_weights(
    config: HfConfig,
    shape: ModelShape,
    settings: ResolvedSettings,
    args: EngineArgs,
    extra_files: ExtraFiles = NO_FILES,
    capability: tuple[int, int] = HOPPER,
    backends: Backends = NO_BACKENDS,
) -> tuple[Estimate, ...]:
    """Bytes of weights on one rank of each stage; see ``rank_tensors`` for the errors.

    low: the tensors as the engine builds them. likely: as their kernels lay them out, with
    what latent attention unfolds and inputs take, and as torch's allocator books them. high:
    the same, and a margin where the layout is not known.
    """
    scheme = scheme_of(config, text_config(config), settings.quantization, extra_files, capability)
    site = _site(settings, args, scheme, capability, backends)
    built = _tensors(config, shape, settings, args, site, extra_files)
    loaded = loaded_tensors(config, shape, settings, args, extra_files, capability, backends)
    return tuple(
        _estimate(before, after, exact=scheme.exact)
        for before, after in zip(built, loaded, strict=True)
    )


def _unfolded(
    shape: ModelShape, settings: ResolvedSettings, args: EngineArgs
) -> tuple[Tensors, ...]:
    """What each stage keeps of latent attention beside its projections, once loaded.

    Source: vLLM 0.33.0 ``layers/attention/mla_attention.py:process_weights_after_loading``.
    """
    latent = shape.latent_layers if settings.use_mla else ()
    return tuple(
        tuple(
            tensor
            for layer in latent
            if layer.decoder_layer in stage.layers
            for tensor in copies(layer, settings.tensor_parallel_size, settings.dtype.itemsize)
        )
        for stage in _stages(shape, settings, args)
    )


def _estimate(built: Tensors, final: Tensors, *, exact: bool) -> Estimate:
    low, booked = total_bytes(on_card(built)), allocated_bytes(on_card(final))
    margin = 0 if exact else int(booked * _REPACKED_MARGIN)
    host = total_bytes(built) - low
    note = f"{len(built)} tensors counted from the config; likely adds allocator rounding"
    return Estimate(
        low=low,
        likely=max(low, booked),
        high=max(low, booked) + margin,
        source=Source.COMPUTED,
        note=f"{note}; {host:,} bytes more stand in the host's memory" if host else note,
    )


def _tensors(
    config: HfConfig,
    shape: ModelShape,
    settings: ResolvedSettings,
    args: EngineArgs,
    site: Site,
    extra_files: ExtraFiles,
) -> tuple[Tensors, ...]:
    text = text_config(config)
    described = describe(settings.architecture, config, text)
    if described.wrapper is not None:
        config = described.wrapper.with_files(config, extra_files)
    head = settings.runner_type is not RunnerType.POOLING
    return tuple(
        described.tensors(
            site, config, text, stage, shape.layers, serves=args.serves, with_head=head
        )
        for stage in _stages(shape, settings, args)
    )


def _site(
    settings: ResolvedSettings,
    args: EngineArgs,
    scheme: Scheme,
    capability: tuple[int, int],
    backends: Backends = NO_BACKENDS,
) -> Site:
    tp = settings.tensor_parallel_size
    devices = tp * settings.prefill_context_parallel_size * args.data_parallel_size
    whole_experts = settings.enable_expert_parallel and devices > 1
    return Site(
        tensor_parallel_size=tp,
        expert_shards=1 if whole_experts else devices,
        expert_parallel_size=devices if whole_experts else 1,
        itemsize=settings.dtype.itemsize,
        scheme=scheme,
        capability=capability,
        fuses_decode=_fuses_decode(settings, args),
        batch_invariant=bool(number_flag(args.env, "VLLM_BATCH_INVARIANT")),
        enforce_eager=args.enforce_eager,
        is_compiled=is_compiled(args),
        adapts=args.enable_lora,
        shares_out_tokens=shares_out_tokens(args),
        settings=settings,
        backends=backends,
    )


def _fuses_decode(settings: ResolvedSettings, args: EngineArgs) -> bool:
    """Whether states and inputs have the types that Kimi K3's fused decoding kernel takes.

    Source: vLLM 0.33.0 ``vllm/models/kimi_k3/nvidia/kda.py:is_fused_kda_decode_supported``.
    """
    return (
        settings.dtype is DType.BFLOAT16
        and not settings.num_speculative_tokens
        and args.mamba_cache_dtype in (None, "auto", "bfloat16")
        and args.mamba_ssm_cache_dtype in (None, "auto", "float32")
    )


def _stages(shape: ModelShape, settings: ResolvedSettings, args: EngineArgs) -> tuple[Stage, ...]:
    ranges = stage_layers(
        shape.num_hidden_layers,
        settings.pipeline_parallel_size,
        args.env.get(PP_LAYER_PARTITION),
    )
    last = len(ranges) - 1
    return tuple(
        Stage(layers=layers, is_first=index == 0, is_last=index == last, stages=len(ranges))
        for index, layers in enumerate(ranges)
    )
