"""From a fit's result to its document: pure functions, one a part."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kvplan_cli import __version__
from kvplan_cli.engine_rules import EngineRules, TokenLine
from kvplan_cli.memory.budget import Estimate, RankBudget
from kvplan_cli.memory.measured import MeasuredMemory
from kvplan_cli.planner.results import MEMORY_REFUSALS, HostPool, Plan, Refusal, WorkerPlan
from kvplan_cli.report.build_groups import blocks_by_device_group, group_documents
from kvplan_cli.report.document import (
    SCHEMA_VERSION,
    BudgetDocument,
    BudgetLineDocument,
    EngineDocument,
    EstimateDocument,
    FitDocument,
    GpuDocument,
    HostPoolDocument,
    InputDocument,
    MeasuredDocument,
    MeasuredFigureDocument,
    MeasuredRankDocument,
    ModelDocument,
    NoticeDocument,
    OutcomeDocument,
    PlanDocument,
    RefusalDocument,
    SettingsDocument,
    StageDocument,
    TensorDocument,
    VerdictDocument,
    WayOutDocument,
    WorkerDocument,
)
from kvplan_cli.report.words import LINE_NAMES, gib, gib_unit
from kvplan_cli.results import FitResult, Notice, NoticeKind, Verdict
from kvplan_cli.settings.resolved import ResolvedSettings


def fit_document(result: FitResult) -> FitDocument:
    """The contract's form of ``result``."""
    outcome = result.deciding
    plan = outcome if isinstance(outcome, Plan) else None
    refusal = outcome if isinstance(outcome, Refusal) else None
    return FitDocument(
        schema_version=SCHEMA_VERSION,
        command="fit",
        kvplan_version=__version__,
        engine=_engine(result.engine_rules),
        model=ModelDocument(
            name=result.model, origin=result.model_origin, architecture=result.architecture
        ),
        inputs=tuple(
            InputDocument(key=origin.key, value=origin.value, origin=origin.source)
            for origin in result.origins
        ),
        settings=None if result.settings is None else _settings(result.settings),
        gpu=_gpu(result),
        stages=_stages(result),
        measured=None if result.measured is None else _measured(result.measured),
        budgets=tuple(_budget(budget) for budget in result.budgets),
        available_bytes_per_worker=tuple(_estimate(part) for part in result.available),
        groups=group_documents(outcome.groups, () if plan is None else plan.workers),
        plan=None if plan is None else _plan(plan),
        refusal=None if refusal is None else _refusal(refusal),
        longest_context_tokens=result.longest_context,
        verdict=_verdict(result),
        way_out=_way_out(result),
        notices=notice_documents(result.notices, outcome),
    )


def _engine(rules: EngineRules) -> EngineDocument:
    line = rules.token_line
    return EngineDocument(
        name="vllm",
        release=rules.release,
        token_line="by_blocks" if line is TokenLine.BY_BLOCKS else "by_concurrency",
    )


def _settings(settings: ResolvedSettings) -> SettingsDocument:
    return SettingsDocument(
        runner_type=settings.runner_type.value,
        max_model_len_tokens=settings.max_model_len,
        auto_fit_max_model_len=settings.auto_fit,
        dtype=settings.dtype.torch_name,
        kv_cache_dtype=settings.cache_dtype,
        quantization=settings.quantization,
        block_size_tokens=settings.block_size,
        tensor_parallel_size=settings.tensor_parallel_size,
        pipeline_parallel_size=settings.pipeline_parallel_size,
        decode_context_parallel_size=settings.decode_context_parallel_size,
        prefill_context_parallel_size=settings.prefill_context_parallel_size,
        enable_expert_parallel=settings.enable_expert_parallel,
        max_num_batched_tokens=settings.max_num_batched_tokens,
        max_num_seqs=settings.max_num_seqs,
        max_num_encoder_input_tokens=settings.max_num_encoder_input_tokens,
        max_concurrent_batches=settings.max_concurrent_batches,
        max_in_flight_tokens=settings.max_in_flight_tokens,
        enable_chunked_prefill=settings.enable_chunked_prefill,
        enable_prefix_caching=settings.enable_prefix_caching,
        async_scheduling=settings.async_scheduling,
        disable_hybrid_kv_cache_manager=settings.disable_hybrid_kv_cache_manager,
        mamba_cache_mode=settings.mamba_cache_mode,
        mamba_block_size_tokens=settings.mamba_block_size,
        num_gpu_blocks_override=settings.num_gpu_blocks_override,
        gpu_memory_utilization=settings.gpu_memory_utilization,
        attention_backend=settings.attention_backend,
        speculative_method=settings.speculative_method,
        num_speculative_tokens=settings.num_speculative_tokens,
    )


def _gpu(result: FitResult) -> GpuDocument | None:
    gpu = result.gpu
    if gpu is None:
        return None
    return GpuDocument(
        name=gpu.name,
        compute_capability=".".join(str(part) for part in gpu.capability),
        total_memory_bytes=gpu.total_memory_bytes,
        assumed=result.gpu_assumed,
    )


def _stages(result: FitResult) -> tuple[StageDocument, ...]:
    return tuple(
        StageDocument(
            stage=stage.stage,
            cached_layers=stage.cached_layers,
            kv_shared_layers=stage.kv_shared_layers,
            attention_backends=dict(stage.backends),
        )
        for stage in result.stages
    )


def _estimate(estimate: Estimate) -> EstimateDocument:
    return EstimateDocument(
        low=estimate.low,
        likely=estimate.likely,
        high=estimate.high,
        source=estimate.source.value,
        note=estimate.note,
    )


def _measured(measured: MeasuredMemory) -> MeasuredDocument:
    return MeasuredDocument(
        origin=measured.origin,
        release=measured.release,
        ranks=tuple(
            MeasuredRankDocument(
                process=rank.name,
                stage=rank.stage,
                figures=tuple(
                    MeasuredFigureDocument(name=name, bytes_per_rank=_estimate(size))
                    for name, size in rank.sizes.items()
                ),
            )
            for rank in measured.ranks
        ),
    )


def _budget(budget: RankBudget) -> BudgetDocument:
    return BudgetDocument(
        stage=budget.stage,
        total_memory_bytes_per_rank=budget.total_memory_bytes,
        gpu_memory_utilization=budget.gpu_memory_utilization,
        requested_bytes_per_rank=budget.requested_bytes,
        lines=tuple(
            BudgetLineDocument(name=line.name, bytes_per_rank=_estimate(line.bytes_per_rank))
            for line in budget.lines
        ),
        available_bytes_per_rank=_estimate(budget.available),
        measure_it=budget.measure_it,
    )


def _plan(plan: Plan) -> PlanDocument:
    return PlanDocument(
        layout=plan.layout.value,
        max_model_len_tokens=plan.max_model_len,
        num_blocks=plan.num_blocks,
        bytes_per_block_all_workers=sum(worker.bytes_per_block for worker in plan.workers),
        blocks_per_request=sum(blocks_by_device_group(plan.workers)),
        kv_cache_size_tokens=plan.kv_cache_size_tokens,
        kv_cache_size_tokens_by_blocks=plan.kv_cache_size_tokens_by_blocks,
        max_concurrency_requests=_finite(plan.max_concurrency),
        kv_tp_replicas=plan.kv_tp_replicas,
        block_size_tokens=plan.block_size,
        scheduler_block_size_tokens=plan.scheduler_block_size,
        hash_block_size_tokens=plan.hash_block_size,
        limiting_worker=plan.limiting_worker,
        auto_fit_limiting_worker=plan.auto_fit_limiting_worker,
        workers=tuple(_worker(index, worker) for index, worker in enumerate(plan.workers)),
        host_pool=_host_pool(plan.host_pool),
    )


def _worker(index: int, worker: WorkerPlan) -> WorkerDocument:
    return WorkerDocument(
        worker=index,
        available_bytes=worker.available_memory_bytes,
        bytes_per_block=worker.bytes_per_block,
        num_blocks_alone=worker.num_blocks_alone,
        num_blocks=worker.num_blocks,
        allocated_bytes=worker.allocated_bytes,
        unused_bytes=worker.unused_bytes,
        request_need_bytes=worker.request_need_bytes,
        blocks_per_request_by_group=worker.blocks_per_request_by_group,
        kv_tp_replicas=worker.kv_tp_replicas,
        tensors=tuple(
            TensorDocument(
                layer_names=tensor.layers,
                size_bytes=tensor.size,
                offset_bytes=tensor.offset,
                layer_stride_bytes=tensor.layer_stride,
                block_stride_bytes=tensor.block_stride,
                host_resident=tensor.host_resident,
            )
            for tensor in worker.kv_cache_tensors
        ),
    )


def _host_pool(pool: HostPool | None) -> HostPoolDocument | None:
    if pool is None:
        return None
    return HostPoolDocument(
        num_blocks=pool.num_blocks,
        block_stride_bytes=pool.block_stride_bytes,
        steady_state_concurrency_requests=pool.steady_state_concurrency,
    )


def _refusal(refusal: Refusal) -> RefusalDocument:
    return RefusalDocument(
        kind=refusal.kind.value,
        error_type=refusal.error_type,
        message=refusal.message,
        mendable_by_memory=refusal.kind in MEMORY_REFUSALS,
        layout=None if refusal.layout is None else refusal.layout.value,
        max_model_len_tokens=refusal.max_model_len,
        needed_bytes=refusal.needed_bytes,
        available_bytes=refusal.available_bytes,
        estimated_max_model_len_tokens=refusal.estimated_max_model_len,
        worker=refusal.worker,
        needed_blocks=refusal.needed_blocks,
        available_blocks=refusal.available_blocks,
        bytes_per_block=refusal.bytes_per_block,
    )


def outcome_document(outcome: Plan | Refusal) -> OutcomeDocument:
    """What an end of the memory leads to."""
    if isinstance(outcome, Refusal):
        return OutcomeDocument(
            fits=False,
            refusal_kind=outcome.kind.value,
            max_model_len_tokens=outcome.max_model_len,
            num_blocks=None,
            kv_cache_size_tokens=None,
            max_concurrency_requests=None,
        )
    return OutcomeDocument(
        fits=True,
        refusal_kind=None,
        max_model_len_tokens=outcome.max_model_len,
        num_blocks=outcome.num_blocks,
        kv_cache_size_tokens=outcome.kv_cache_size_tokens,
        max_concurrency_requests=_finite(outcome.max_concurrency),
    )


def _verdict(result: FitResult) -> VerdictDocument:
    return VerdictDocument(
        answer=result.verdict.value,
        decided_on="low" if result.decided_on == "low" else "likely",
        exit_code=int(result.exit_code),
        settled_by=_settled_by(result) if result.verdict is Verdict.DEPENDS else None,
        at_low=outcome_document(result.low),
        at_likely=outcome_document(result.likely),
        at_high=outcome_document(result.high),
    )


def _settled_by(result: FitResult) -> str:
    """The least certain part of the memory, and how to measure it."""
    lines = [line for budget in result.budgets for line in budget.lines]
    if not lines:
        return "a start-up log of these settings: --from-log"
    widest = max(lines, key=lambda line: line.bytes_per_rank.high - line.bytes_per_rank.low)
    size = widest.bytes_per_rank
    return (
        f"one start-up log (--from-log); least certain: {LINE_NAMES[widest.name]}, "
        f"{gib(size.low)} to {gib_unit(size.high)}"
    )


def _way_out(result: FitResult) -> WayOutDocument | None:
    way_out = result.way_out
    if way_out is None:
        return None
    return WayOutDocument(flag=way_out.flag, value=way_out.value, effect=way_out.effect)


def notice_documents(
    notices: Sequence[Notice], outcome: Plan | Refusal
) -> tuple[NoticeDocument, ...]:
    """What was noticed on the way, and the engine's own warnings where they are not told yet."""
    told = [
        NoticeDocument(kind=notice.kind.value, code=notice.code, message=notice.message)
        for notice in notices
    ]
    known = {notice.code for notice in told}
    told += [
        NoticeDocument(
            kind=NoticeKind.WARNING.value, code=warning.kind.value, message=warning.message
        )
        for warning in outcome.warnings
        if warning.kind.value not in known
    ]
    return tuple(told)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
