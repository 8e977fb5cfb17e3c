"""FitResult values built by hand: what the report must be able to show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from kvplan_cli.dtypes import DType
from kvplan_cli.engine_rules import NEWEST_RULES
from kvplan_cli.gpus import H100_80GB
from kvplan_cli.layouts import KVCacheLayout
from kvplan_cli.memory.budget import BudgetLine, Estimate, RankBudget, Source
from kvplan_cli.models.shape import RunnerType
from kvplan_cli.planner.results import (
    KVCacheGroup,
    KVCacheTensor,
    Plan,
    PlanWarning,
    Refusal,
    RefusalKind,
    WarningKind,
    WorkerPlan,
)
from kvplan_cli.results import (
    FitResult,
    Notice,
    NoticeKind,
    Origin,
    StageSummary,
    Verdict,
    WayOut,
)
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.specs import FullAttentionSpec, RequestLimits, SlidingWindowSpec
from kvplan_cli.specs.bundle import UniformTypeKVCacheSpecs
from kvplan_cli.units import GIB

LIMITS: Final = RequestLimits(max_in_flight_tokens=16384)
FULL: Final = FullAttentionSpec(block_size=16, num_kv_heads=8, head_size=128, dtype=DType.BFLOAT16)
WINDOW: Final = SlidingWindowSpec(
    block_size=16, num_kv_heads=16, head_size=128, dtype=DType.BFLOAT16, sliding_window=1024
)
WIDE: Final = FullAttentionSpec(block_size=16, num_kv_heads=16, head_size=128, dtype=DType.BFLOAT16)


def settings(architecture: str = "LlamaForCausalLM", **changes: object) -> ResolvedSettings:
    """Settings as an H100 gives them to a plain model."""
    base = ResolvedSettings(
        architecture=architecture,
        runner_type=RunnerType.GENERATE,
        is_encoder_decoder=False,
        is_hybrid=False,
        use_mla=False,
        max_model_len=131072,
        original_max_model_len=None,
        dtype=DType.BFLOAT16,
        cache_dtype="auto",
        quantization=None,
        block_size=None,
        tensor_parallel_size=1,
        pipeline_parallel_size=1,
        decode_context_parallel_size=1,
        prefill_context_parallel_size=1,
        enable_expert_parallel=False,
        max_num_batched_tokens=8192,
        max_num_seqs=1024,
        max_num_encoder_input_tokens=0,
        max_concurrent_batches=2,
        max_in_flight_tokens=16384,
        enable_chunked_prefill=True,
        enable_prefix_caching=True,
        async_scheduling=True,
        use_v2_model_runner=True,
        disable_hybrid_kv_cache_manager=False,
        mamba_cache_mode="none",
        mamba_block_size=None,
        num_gpu_blocks_override=None,
        gpu_memory_utilization=0.92,
        attention_backend=None,
        num_speculative_tokens=0,
        num_prefill_lookahead_tokens=0,
        speculative_method=None,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def layer_names(numbers: Sequence[int]) -> tuple[str, ...]:
    return tuple(f"model.layers.{number}.self_attn.attn" for number in numbers)


def worker(
    groups: Sequence[KVCacheGroup], available: int, num_blocks: int | None, length: int
) -> WorkerPlan:
    """A worker whose groups all draw from one pool of equal pages."""
    layers = max(len(group.layer_names) for group in groups)
    bytes_per_block = layers * groups[0].page_size_bytes
    alone = available // bytes_per_block
    blocks = tuple(group.spec.max_blocks_per_request(length, LIMITS) for group in groups)
    held = alone if num_blocks is None else num_blocks
    tensors = tuple(
        KVCacheTensor(
            size=held * bytes_per_block,
            layers=group.layer_names,
            layer_stride=held * group.page_size_bytes,
            block_stride=group.page_size_bytes,
        )
        for group in groups
    )
    return WorkerPlan(
        available_memory_bytes=available,
        bytes_per_block=bytes_per_block,
        num_blocks_alone=alone,
        num_blocks=held,
        request_need_bytes=sum(blocks) * bytes_per_block,
        blocks_per_request_by_group=blocks,
        groups=tuple(groups),
        kv_cache_tensors=tensors,
        kv_tp_replicas=1,
    )


def plan(
    groups: Sequence[KVCacheGroup], workers: Sequence[WorkerPlan], length: int, **changes: object
) -> Plan:
    num_blocks = workers[0].num_blocks
    blocks = max(sum(part.blocks_per_request_by_group) for part in workers)
    concurrency = num_blocks / blocks
    base = Plan(
        layout=KVCacheLayout.LBNHC,
        max_model_len=length,
        groups=tuple(groups),
        workers=tuple(workers),
        num_blocks=num_blocks,
        max_concurrency=concurrency,
        kv_cache_size_tokens=int(concurrency * length),
        kv_cache_size_tokens_by_blocks=num_blocks // len(groups) * 16,
        kv_tp_replicas=1,
        block_size=16,
        scheduler_block_size=16,
        hash_block_size=16,
        limiting_worker=0,
        auto_fit_limiting_worker=None,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def result(outcome: Plan | Refusal, **changes: object) -> FitResult:
    """A result with one memory and no range."""
    base = FitResult(
        model="meta-llama/Llama-3.1-8B",
        model_origin="catalogue",
        architecture="LlamaForCausalLM",
        engine_rules=NEWEST_RULES,
        settings=settings(),
        gpu=H100_80GB,
        gpu_assumed=True,
        origins=(
            Origin(key="model", value="meta-llama/Llama-3.1-8B", source="MODEL"),
            Origin(key="kv_mem_bytes", value=40 * GIB, source="--kv-mem"),
        ),
        stages=(
            StageSummary(
                stage=0, cached_layers=32, kv_shared_layers=0, backends={"FLASH_ATTN": 32}
            ),
        ),
        budgets=(),
        available=(Estimate.certain(40 * GIB, Source.GIVEN, "--kv-mem"),),
        likely=outcome,
        low=outcome,
        high=outcome,
        decided_on="likely",
        verdict=Verdict.FITS if isinstance(outcome, Plan) else Verdict.DOES_NOT_FIT,
        longest_context=131072,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def _dense_group() -> KVCacheGroup:
    return KVCacheGroup(layer_names=layer_names(range(32)), spec=FULL)


def dense() -> FitResult:
    """A plain model on memory that was given."""
    group = _dense_group()
    return result(plan([group], [worker([group], 40 * GIB, None, 131072)], 131072))


def hybrid() -> FitResult:
    """Gemma 3 27B: six groups of sliding layers, one of full ones, one padding layer."""
    full = list(range(5, 62, 6))
    sliding = [number for number in range(62) if number not in full]
    groups = [
        KVCacheGroup(layer_names=layer_names(sliding[index::6]), spec=WINDOW) for index in range(6)
    ]
    groups.append(KVCacheGroup(layer_names=layer_names(full), spec=WIDE))
    made = plan(
        groups,
        [worker(groups, 20 * GIB, None, 131072)],
        131072,
        warnings=(
            PlanWarning(
                kind=WarningKind.PADDING_LAYERS,
                message="8 padding layers waste 10.26% of the KV cache memory",
            ),
        ),
    )
    return result(
        made,
        model="google/gemma-3-27b-it",
        architecture="Gemma3ForConditionalGeneration",
        settings=settings("Gemma3ForConditionalGeneration", tensor_parallel_size=2),
        available=(Estimate.certain(20 * GIB, Source.GIVEN, "--kv-mem"),),
        stages=(
            StageSummary(
                stage=0, cached_layers=62, kv_shared_layers=0, backends={"FLASH_ATTN": 62}
            ),
        ),
        notices=(
            Notice(
                kind=NoticeKind.NOTE,
                code="assumed_gpu",
                message="No card was named: backends and batch limits are those of an H100.",
            ),
        ),
    )


def refused() -> FitResult:
    """One request of the asked length needs more than there is."""
    refusal = Refusal(
        kind=RefusalKind.REQUEST_TOO_LARGE,
        error_type="ValueError",
        message="To serve at least one request with the model's max seq len (131072), ...",
        layout=KVCacheLayout.LBNHC,
        max_model_len=131072,
        needed_bytes=16 * GIB,
        available_bytes=int(12.41 * GIB),
        estimated_max_model_len=101632,
        worker=0,
        bytes_per_block=2097152,
        groups=(_dense_group(),),
    )
    return result(
        refusal,
        available=(Estimate.certain(int(12.412 * GIB), Source.GIVEN, "--kv-mem"),),
        longest_context=101632,
        way_out=WayOut(
            flag="--max-model-len",
            value="101632",
            effect="then 1.00 requests of 101,632 tokens fit at a time",
        ),
    )


def _range(low: float, likely: float, high: float, source: Source, note: str = "") -> Estimate:
    return Estimate(
        low=int(low * GIB), likely=int(likely * GIB), high=int(high * GIB), source=source, note=note
    )


def budget(stage: int = 0, weights: float = 61.02) -> RankBudget:
    """A ladder as an H100 gives it, with ranges where nothing exact is known."""
    requested = int(79.647 * 0.92 * GIB)
    lines = (
        BudgetLine(
            name="weights",
            bytes_per_rank=_range(
                weights, weights, weights, Source.COMPUTED, "counted from the config"
            ),
        ),
        BudgetLine(
            name="persistent_buffers",
            bytes_per_rank=_range(0.5, 0.6, 0.75, Source.COMPUTED, "sampler and input buffers"),
        ),
        BudgetLine(
            name="outside_allocator", bytes_per_rank=_range(0.03, 0.1, 0.3, Source.EMPIRICAL)
        ),
        BudgetLine(
            name="transient", bytes_per_rank=_range(1.7, 1.8, 2.0, Source.COMPUTED, "sampler")
        ),
        BudgetLine(
            name="cuda_graphs",
            bytes_per_rank=_range(0.05, 0.86, 1.76, Source.EMPIRICAL, "public start-ups"),
        ),
    )
    return RankBudget(
        stage=stage,
        total_memory_bytes=H100_80GB.total_memory_bytes,
        gpu_memory_utilization=0.92,
        requested_bytes=requested,
        lines=lines,
        available=Estimate(
            low=requested - sum(line.bytes_per_rank.high for line in lines),
            likely=requested - sum(line.bytes_per_rank.likely for line in lines),
            high=requested - sum(line.bytes_per_rank.low for line in lines),
            source=Source.COMPUTED,
        ),
    )


def estimate() -> FitResult:
    """A budget with a range inside which the answer changes."""
    ladder = budget()
    group = _dense_group()
    length = 65536

    def at(available: int) -> Plan | Refusal:
        if available >= 8 * GIB:
            return plan([group], [worker([group], available, None, length)], length)
        return Refusal(
            kind=RefusalKind.REQUEST_TOO_LARGE,
            error_type="ValueError",
            message="To serve at least one request ...",
            max_model_len=length,
            needed_bytes=8 * GIB,
            available_bytes=available - 2097152,
            estimated_max_model_len=60928,
            worker=0,
            groups=(group,),
        )

    return result(
        at(ladder.available.likely),
        low=at(ladder.available.low),
        high=at(ladder.available.high),
        settings=settings(max_model_len=length),
        gpu_assumed=False,
        budgets=(ladder,),
        available=(ladder.available,),
        verdict=Verdict.DEPENDS,
        longest_context=72720,
        way_out=WayOut(
            flag="--max-model-len", value="60928", effect="60,928 tokens fit over the whole range"
        ),
    )


def unequal() -> FitResult:
    """Two pipeline stages; the one with the embedding and more layers limits."""
    first = KVCacheGroup(layer_names=layer_names(range(17)), spec=FULL)
    second = KVCacheGroup(layer_names=layer_names(range(17, 32)), spec=FULL)
    length = 131072
    alone = worker([first], 14 * GIB, None, length)
    workers = [alone, worker([second], 17 * GIB, alone.num_blocks, length)]
    return result(
        plan([_dense_group()], workers, length),
        settings=settings(pipeline_parallel_size=2, tensor_parallel_size=4),
        available=(
            Estimate.certain(14 * GIB, Source.GIVEN, "--kv-mem"),
            Estimate.certain(17 * GIB, Source.GIVEN, "--kv-mem"),
        ),
        stages=(
            StageSummary(
                stage=0, cached_layers=17, kv_shared_layers=0, backends={"FLASH_ATTN": 17}
            ),
            StageSummary(
                stage=1, cached_layers=15, kv_shared_layers=0, backends={"FLASH_ATTN": 15}
            ),
        ),
    )


def bundle() -> FitResult:
    """Layers of one kind whose pages differ: one group, the page of all layers together."""
    specs = {
        name: FULL if number % 2 else WIDE for number, name in enumerate(layer_names(range(8)))
    }
    group = KVCacheGroup(
        layer_names=tuple(specs), spec=UniformTypeKVCacheSpecs(kv_cache_specs=specs)
    )
    page = group.page_size_bytes
    made = worker([group], 40 * GIB, None, 131072)
    one = replace(
        made,
        bytes_per_block=page,
        num_blocks_alone=40 * GIB // page,
        num_blocks=40 * GIB // page,
        request_need_bytes=8192 * page,
    )
    return result(plan([group], [one], 131072))


def no_memory() -> FitResult:
    """The budget is below zero: nothing is left for the cache."""
    ladder = budget(weights=74.5)
    refusal = Refusal(
        kind=RefusalKind.NO_MEMORY,
        error_type="ValueError",
        message="No available memory for the cache blocks. ...",
        worker=0,
        groups=(_dense_group(),),
    )
    return result(
        refusal,
        budgets=(ladder,),
        available=(ladder.available,),
        longest_context=None,
        gpu_assumed=False,
        way_out=WayOut(
            flag="--tensor-parallel-size", value="2", effect="half the weights on a rank fit"
        ),
    )


CASES: Final[dict[str, Callable[[], FitResult]]] = {
    "dense": dense,
    "hybrid": hybrid,
    "refused": refused,
    "estimate": estimate,
    "unequal": unequal,
    "bundle": bundle,
    "no_memory": no_memory,
}
