"""The JSON contract of ``kvplan fit``: a type of its own, with a version.

The shape is fixed: every key is always there, null where it does not apply. Sizes are
integer bytes; the unit stands in the key, and so does the scope where the object itself
does not give it. The texts beside the types are the keys' documentation: the JSON schema
and the README's table are made from them. Named tuples, because a frozen dataclass costs
three times as much to define, and every call of ``kvplan`` defines these; for the same reason
the annotations here are values and not texts.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, NamedTuple

from kvplan_cli.report.json_form import dumps

SCHEMA_VERSION: Final = 1

Scalar = str | int | float | bool | None


class EngineDocument(NamedTuple):
    """Whose rules the plan follows."""

    name: Annotated[Literal["vllm"], "The engine."]
    release: Annotated[str, "The release whose rules the plan follows."]
    token_line: Annotated[
        Literal["by_concurrency", "by_blocks"],
        "Its log's token line: kv_cache_size_tokens, or kv_cache_size_tokens_by_blocks.",
    ]


class ModelDocument(NamedTuple):
    """What was planned."""

    name: Annotated[str, "MODEL as given."]
    origin: Annotated[str, "Where the model's config came from."]
    architecture: Annotated[str, "The engine's class that serves it."]


class InputDocument(NamedTuple):
    """One input and where it came from."""

    key: Annotated[str, "The input, by the engine's or kvplan's name."]
    value: Annotated[Scalar, "Its value."]
    origin: Annotated[str, "The flag, the file and key, or the default it came from."]


class SettingsDocument(NamedTuple):
    """The engine's settings after it has resolved flags, config and card."""

    runner_type: Annotated[str, "What the engine runs the model for: generate or pooling."]
    max_model_len_tokens: Annotated[int, "The given or derived length, before auto-fit."]
    auto_fit_max_model_len: Annotated[bool, "Whether the longest length that fits is sought."]
    dtype: Annotated[str, "Element type of the model."]
    kv_cache_dtype: Annotated[str, "The resolved KV cache type; auto: the model's."]
    quantization: Annotated[str | None, "Weight quantization, by the engine's name."]
    block_size_tokens: Annotated[int | None, "Block size as given; null: the engine chooses."]
    tensor_parallel_size: Annotated[int, "Ranks of a pipeline stage."]
    pipeline_parallel_size: Annotated[int, "Pipeline stages."]
    decode_context_parallel_size: Annotated[int, "Ranks that share a sequence in decode."]
    prefill_context_parallel_size: Annotated[int, "Ranks that share a sequence in prefill."]
    enable_expert_parallel: Annotated[bool, "Whole experts on ranks."]
    max_num_batched_tokens: Annotated[int, "Tokens of one step."]
    max_num_seqs: Annotated[int, "Requests of one step."]
    max_num_encoder_input_tokens: Annotated[int, "Encoder tokens of one step."]
    max_concurrent_batches: Annotated[int, "Batches in flight at a time."]
    max_in_flight_tokens: Annotated[int, "Tokens scheduled but not settled, all batches."]
    enable_chunked_prefill: Annotated[bool, "Prompts may be split over steps."]
    enable_prefix_caching: Annotated[bool, "Blocks are found again by their content."]
    async_scheduling: Annotated[bool, "The next step is scheduled while one runs."]
    disable_hybrid_kv_cache_manager: Annotated[bool, "Local layers are kept as full ones."]
    mamba_cache_mode: Annotated[str, "How state layers keep states for prefix caching."]
    mamba_block_size_tokens: Annotated[int | None, "Block of state layers, where set."]
    num_gpu_blocks_override: Annotated[int | None, "Blocks forced by the user."]
    gpu_memory_utilization: Annotated[float, "Fraction of the card that the engine may use."]
    attention_backend: Annotated[str | None, "Backend forced by the user."]
    speculative_method: Annotated[str | None, "Speculative decoding, by the engine's name."]
    num_speculative_tokens: Annotated[int, "Draft tokens of a step."]


class GpuDocument(NamedTuple):
    """The card whose rules decide backends and defaults."""

    name: Annotated[str, "The driver's device name."]
    compute_capability: Annotated[str, "Major.minor."]
    total_memory_bytes: Annotated[int, "What CUDA calls total."]
    assumed: Annotated[bool, "True when the user named no card."]


class StageDocument(NamedTuple):
    """One pipeline stage."""

    stage: Annotated[int, "Index from 0."]
    cached_layers: Annotated[int, "Layers with a cache of their own."]
    kv_shared_layers: Annotated[int, "Layers that read another layer's cache."]
    attention_backends: Annotated[Mapping[str, int], "Backend name to its number of layers."]


class EstimateDocument(NamedTuple):
    """Bytes of one rank as a range; the three are equal where the figure is exact."""

    low: Annotated[int, "Bytes, low end."]
    likely: Annotated[int, "Bytes, likely."]
    high: Annotated[int, "Bytes, high end."]
    source: Annotated[
        Literal["given", "measured", "exact", "computed", "empirical"], "Where it comes from."
    ]
    note: Annotated[str, "What it rests on; may be empty."]


class BudgetLineDocument(NamedTuple):
    """One subtraction from what the engine requests of a card."""

    name: Annotated[
        str, "weights, persistent_buffers, outside_allocator, transient or cuda_graphs."
    ]
    bytes_per_rank: Annotated[EstimateDocument, "Bytes of one rank."]


class BudgetDocument(NamedTuple):
    """The memory ladder of the ranks of one pipeline stage."""

    stage: Annotated[int, "Index from 0."]
    total_memory_bytes_per_rank: Annotated[int, "What the card has."]
    gpu_memory_utilization: Annotated[float, "Fraction the engine may use."]
    requested_bytes_per_rank: Annotated[int, "total x utilization, rounded up."]
    lines: Annotated[tuple[BudgetLineDocument, ...], "What is subtracted, in order."]
    available_bytes_per_rank: Annotated[EstimateDocument, "Left for the cache; may be < 0."]
    measure_it: Annotated[str | None, "Why only the range may be trusted, else null."]


class LayerSpecDocument(NamedTuple):
    """How the layers named here store their cache, on one rank."""

    kind: Annotated[str, "The engine's spec class."]
    num_layers: Annotated[int, "Layers with this spec in the group."]
    layer_names: Annotated[tuple[str, ...], "Their names."]
    block_size_tokens: Annotated[int, "Tokens in a block."]
    page_size_bytes: Annotated[int, "Bytes of one block of one layer, padding included."]
    page_padding_bytes: Annotated[int, "Bytes of the page that hold nothing."]
    dtype: Annotated[str | None, "Element type; null for states of several types."]
    num_kv_heads_per_rank: Annotated[int | None, "KV heads on a rank."]
    head_size_elements: Annotated[int | None, "Elements of a key."]
    head_size_v_elements: Annotated[int | None, "Elements of a value."]
    sliding_window_tokens: Annotated[int | None, "Window the layer attends to."]
    attention_chunk_size_tokens: Annotated[int | None, "Chunk the layer attends within."]
    kv_quant_mode: Annotated[str | None, "How the content is quantized."]
    state_shapes: Annotated[tuple[tuple[int, ...], ...] | None, "Shapes of recurrent states."]
    state_dtypes: Annotated[tuple[str, ...] | None, "Their element types."]


class GroupDocument(NamedTuple):
    """Layers that share a block table."""

    group: Annotated[int, "Index from 0."]
    kind: Annotated[str, "The engine's spec class of the group."]
    role: Annotated[str, "default, hisparse_source or hisparse_indexer."]
    holds_drafter_layers: Annotated[bool, "The engine's is_eagle_group."]
    host_resident: Annotated[bool, "Stands in host memory, not on the device."]
    num_layers: Annotated[int, "Layers of the whole model in this group."]
    layer_names: Annotated[tuple[str, ...], "Their names, in the engine's order."]
    block_size_tokens: Annotated[int, "Tokens in a block."]
    page_size_bytes: Annotated[
        int, "Bytes of one block of one layer; of all layers for UniformTypeKVCacheSpecs."
    ]
    blocks_per_request: Annotated[
        int | None, "Blocks one request of max_model_len holds; null when refused or on the host."
    ]
    layer_specs: Annotated[tuple[LayerSpecDocument, ...], "The distinct specs of its layers."]


class TensorDocument(NamedTuple):
    """Where equal layers stand in a worker's allocation."""

    layer_names: Annotated[tuple[str, ...], "Layers, in order."]
    size_bytes: Annotated[int, "Bytes of the allocation."]
    offset_bytes: Annotated[int, "Where the first page begins."]
    layer_stride_bytes: Annotated[int, "Bytes from one layer to the next."]
    block_stride_bytes: Annotated[int, "Bytes from one block to the next."]
    host_resident: Annotated[bool, "Stands in host memory."]


class WorkerDocument(NamedTuple):
    """One worker: a rank of one pipeline stage; the ranks of a stage are equal."""

    worker: Annotated[int, "Index from 0; the pipeline stage."]
    available_bytes: Annotated[int, "Bytes for the cache on this worker."]
    bytes_per_block: Annotated[int, "Bytes that one block id costs on this worker."]
    num_blocks_alone: Annotated[int, "Blocks it could hold were it the only worker."]
    num_blocks: Annotated[int, "Blocks of every worker: what the smallest allows."]
    allocated_bytes: Annotated[int, "Bytes of its cache allocation."]
    unused_bytes: Annotated[int, "Available bytes that no block uses."]
    request_need_bytes: Annotated[int, "Bytes one request of max_model_len needs on it."]
    blocks_per_request_by_group: Annotated[tuple[int, ...], "The same in blocks, by group."]
    kv_tp_replicas: Annotated[int, "Consecutive ranks with identical content."]
    tensors: Annotated[tuple[TensorDocument, ...], "Its allocation."]


class HostPoolDocument(NamedTuple):
    """The host side of host-backed sparse attention."""

    num_blocks: Annotated[int, "Host blocks."]
    block_stride_bytes: Annotated[int, "Host bytes of a block."]
    steady_state_concurrency_requests: Annotated[float, "Requests once they read from the host."]


class PlanDocument(NamedTuple):
    """What the engine plans at the deciding memory."""

    layout: Annotated[str, "Physical order of the cache, outermost first."]
    max_model_len_tokens: Annotated[int, "Length of a request, after auto-fit."]
    num_blocks: Annotated[int, "Blocks of every worker, the null block included."]
    bytes_per_block_all_workers: Annotated[int, "Bytes of a block id over all stages."]
    blocks_per_request: Annotated[int, "Blocks that one request of max_model_len holds."]
    kv_cache_size_tokens: Annotated[
        int | None, "Token line from release 0.20.1 on: int(concurrency x length); null: no cache."
    ]
    kv_cache_size_tokens_by_blocks: Annotated[
        int | None, "Token line up to release 0.20.0: blocks // groups x block size (x DCP)."
    ]
    max_concurrency_requests: Annotated[
        float | None, "Requests of max_model_len at a time; null: no cache."
    ]
    kv_tp_replicas: Annotated[int, "Consecutive tensor parallel ranks with identical content."]
    block_size_tokens: Annotated[int, "The engine's block size after grouping."]
    scheduler_block_size_tokens: Annotated[int, "Tokens the scheduler counts in."]
    hash_block_size_tokens: Annotated[int, "Tokens that one prefix hash covers."]
    limiting_worker: Annotated[int, "Index of the worker with the fewest blocks."]
    auto_fit_limiting_worker: Annotated[
        int | None, "Index of the worker that shortened max_model_len."
    ]
    workers: Annotated[tuple[WorkerDocument, ...], "One a pipeline stage."]
    host_pool: Annotated[HostPoolDocument | None, "With host-backed sparse attention."]


class RefusalDocument(NamedTuple):
    """Why the engine would not start, at the deciding memory."""

    kind: Annotated[str, "The refusal, by kvplan's name."]
    error_type: Annotated[str, "The engine's exception class."]
    message: Annotated[str, "The engine's own words."]
    mendable_by_memory: Annotated[bool, "More memory or a shorter length would mend it."]
    layout: Annotated[str | None, "Physical order of the cache."]
    max_model_len_tokens: Annotated[int | None, "Length that was asked for."]
    needed_bytes: Annotated[int | None, "Bytes that one request needs on that worker."]
    available_bytes: Annotated[int | None, "Bytes that worker has, less the null block."]
    estimated_max_model_len_tokens: Annotated[int | None, "Length that would fit."]
    worker: Annotated[int | None, "Index of the worker that refuses."]
    needed_blocks: Annotated[int | None, "Blocks of the host pool that one request needs."]
    available_blocks: Annotated[int | None, "Blocks the host pool has."]
    bytes_per_block: Annotated[int | None, "Bytes of a block on that worker."]


class OutcomeDocument(NamedTuple):
    """The answer at one end of the range of the available memory."""

    fits: Annotated[bool, "Whether the engine would start."]
    refusal_kind: Annotated[str | None, "Why not."]
    max_model_len_tokens: Annotated[int | None, "Length of a request, after auto-fit."]
    num_blocks: Annotated[int | None, "Blocks of every worker."]
    kv_cache_size_tokens: Annotated[int | None, "Token capacity, newer form."]
    max_concurrency_requests: Annotated[float | None, "Requests of that length at a time."]


class VerdictDocument(NamedTuple):
    """The answer, and whether it changes inside the range of the memory."""

    answer: Annotated[Literal["fits", "does_not_fit", "depends"], "The answer over the range."]
    decided_on: Annotated[
        Literal["low", "likely"], "The memory that plan, refusal and exit code follow."
    ]
    exit_code: Annotated[int, "The process's exit code."]
    settled_by: Annotated[
        str | None, "What would settle an answer that changes inside the range; else null."
    ]
    at_low: Annotated[OutcomeDocument, "At the least memory."]
    at_likely: Annotated[OutcomeDocument, "At the likely memory."]
    at_high: Annotated[OutcomeDocument, "At the most memory."]


class WayOutDocument(NamedTuple):
    """The closest change that would make it fit."""

    flag: Annotated[str, "As typed."]
    value: Annotated[str, "What to set."]
    effect: Annotated[str, "What follows, in words."]


class NoticeDocument(NamedTuple):
    """What a user should know beside the figures."""

    kind: Annotated[Literal["warning", "note"], "How grave."]
    code: Annotated[str, "A stable name for scripts."]
    message: Annotated[str, "One sentence that stands alone."]


class MeasuredFigureDocument(NamedTuple):
    """One figure that a start printed."""

    name: Annotated[str, "available, weights, consumed, activation, graphs and others."]
    bytes_per_rank: Annotated[EstimateDocument, "All that prints so; the note is its line."]


class MeasuredRankDocument(NamedTuple):
    """What one process of the start printed."""

    process: Annotated[str, "Its name; empty where the log tells none."]
    stage: Annotated[int | None, "Its pipeline stage, where that is told."]
    figures: Annotated[tuple[MeasuredFigureDocument, ...], "What it printed."]


class MeasuredDocument(NamedTuple):
    """What a start-up log or a profile tells."""

    origin: Annotated[str, "The log or the profile."]
    release: Annotated[str | None, "The engine that was measured."]
    ranks: Annotated[tuple[MeasuredRankDocument, ...], "What each process told."]


class FitDocument(NamedTuple):
    """The whole answer of ``kvplan fit``."""

    schema_version: Annotated[Literal[1], "Raised when a key changes its meaning or goes."]
    command: Annotated[Literal["fit"], "The command that made it."]
    kvplan_version: Annotated[str, "The program's version."]
    engine: Annotated[EngineDocument, "Whose rules."]
    model: Annotated[ModelDocument, "What was planned."]
    inputs: Annotated[tuple[InputDocument, ...], "What was given, and where it came from."]
    settings: Annotated[
        SettingsDocument | None, "Resolved settings; null for specs given outright."
    ]
    gpu: Annotated[GpuDocument | None, "The card."]
    stages: Annotated[tuple[StageDocument, ...], "Pipeline stages."]
    measured: Annotated[MeasuredDocument | None, "What a log or profile told; null without one."]
    budgets: Annotated[tuple[BudgetDocument, ...], "A stage each; empty: memory was given."]
    available_bytes_per_worker: Annotated[
        tuple[EstimateDocument, ...], "Bytes for the cache of each worker."
    ]
    groups: Annotated[tuple[GroupDocument, ...], "Cache groups of the whole model."]
    plan: Annotated[PlanDocument | None, "Null when the engine refuses."]
    refusal: Annotated[RefusalDocument | None, "Null when it fits."]
    longest_context_tokens: Annotated[
        int | None, "Longest request that fits; null where not one token does."
    ]
    verdict: Annotated[VerdictDocument, "The answer."]
    way_out: Annotated[WayOutDocument | None, "Where it does not fit."]
    notices: Annotated[tuple[NoticeDocument, ...], "Warnings and notes."]

    def to_json(self) -> str:
        """The text that the command prints with ``--json``."""
        return dumps(self)
