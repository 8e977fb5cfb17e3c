"""What one request holds: blocks in each group, by the rule of its layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kvplan_cli.formulas.arithmetic import (
    Expression,
    ceil,
    largest,
    least,
    minus,
    named,
    over,
    plain,
    plus,
    times,
)
from kvplan_cli.formulas.formula import Formula, Unit
from kvplan_cli.formulas.kinds import groups_label, spec_words
from kvplan_cli.formulas.pages import INTERFACE
from kvplan_cli.grouping.group import KVCacheGroup, device_groups
from kvplan_cli.grouping.settings import PlannerSettings
from kvplan_cli.planner.sizing import blocks_per_request
from kvplan_cli.specs import (
    ChunkedLocalAttentionSpec,
    CircularBufferSpec,
    CrossAttentionSpec,
    EncoderOnlyAttentionSpec,
    FullAttentionSpec,
    HiSparseHotSpec,
    HiSparseResidentSpec,
    KVCacheSpec,
    MambaCacheMode,
    MambaSpec,
    RequestLimits,
    SlidingWindowSpec,
)
from kvplan_cli.specs.bundle import iter_layer_specs
from kvplan_cli.values import dataclass

PLANNING: Final = "vllm/v1/core/kv_cache_planning.py"
MAX_MODEL_LEN: Final = "max_model_len"


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """A request's tokens, and what they are called."""

    tokens: int
    name: str = MAX_MODEL_LEN

    @property
    def value(self) -> Expression:
        return named(self.name, self.tokens)


def block_formulas(
    groups: Sequence[KVCacheGroup], length: Length, settings: PlannerSettings
) -> tuple[Formula, ...]:
    """Blocks of a request in each group, groups that count alike together; of all behind them."""
    limits = settings.request_limits
    alike: dict[tuple[str, Expression], list[int]] = {}
    first: dict[tuple[str, Expression], KVCacheGroup] = {}
    on_device = device_groups(groups)
    for index, group in enumerate(on_device):
        key = (_words(group), blocks_expression(group, length, limits))
        alike.setdefault(key, []).append(index)
        first.setdefault(key, group)
    formulas = [
        Formula(
            name="blocks of a request",
            of=f"{groups_label(indices)}, {_words(first[key])}",
            expression=key[1],
            result=blocks_per_request(first[key], length.tokens, limits),
            unit=Unit.BLOCKS,
            source=_source(first[key]),
            note=_note(first[key]),
        )
        for key, indices in alike.items()
    ]
    sums = [
        _repeated(len(indices), named(f"of {groups_label(indices)}", formula.result))
        for indices, formula in zip(alike.values(), formulas, strict=True)
    ]
    if len(on_device) == 1:
        return tuple(formulas)
    total = Formula(
        name="blocks of a request",
        of="all groups",
        expression=plus(*sums),
        result=sum(blocks_per_request(group, length.tokens, limits) for group in on_device),
        unit=Unit.BLOCKS,
        source=f"{PLANNING}:_max_memory_usage_bytes_from_groups",
    )
    return (*formulas, total)


def request_blocks_expression(
    groups: Sequence[KVCacheGroup], length: Length, limits: RequestLimits
) -> Expression:
    """Blocks that one request holds in all groups, worked out from its length."""
    counts: dict[Expression, int] = {}
    for group in device_groups(groups):
        blocks = blocks_expression(group, length, limits)
        counts[blocks] = counts.get(blocks, 0) + 1
    return plus(*(_repeated(number, blocks) for blocks, number in counts.items()))


def _repeated(number: int, value: Expression) -> Expression:
    return value if number == 1 else times(named("groups", number), value)


def _words(group: KVCacheGroup) -> str:
    return " and ".join(dict.fromkeys(spec_words(spec) for spec in _specs(group)))


def _specs(group: KVCacheGroup) -> Sequence[KVCacheSpec]:
    """The specs that decide; those of the whole group where a stage has none of its layers."""
    return iter_layer_specs(group.spec)


def _source(group: KVCacheGroup) -> str:
    names = dict.fromkeys(type(spec).__name__ for spec in _specs(group))
    return f"{INTERFACE}:{' and '.join(names)}.max_memory_usage_bytes"


def _note(group: KVCacheGroup) -> str:
    if any(isinstance(spec, SlidingWindowSpec) for spec in _specs(group)):
        return "one more block: the window need not begin at a block's first token"
    return ""


def blocks_expression(group: KVCacheGroup, length: Length, limits: RequestLimits) -> Expression:
    """Blocks that one request holds in a group: the most of any of its layers."""
    parts = dict.fromkeys(spec_blocks(spec, length, limits) for spec in _specs(group))
    return largest(*parts)


def spec_blocks(spec: KVCacheSpec, length: Length, limits: RequestLimits) -> Expression:
    """Blocks that one request holds in layers of this spec."""
    match spec:
        case MambaSpec():
            return _state_blocks(spec, limits)
        case CircularBufferSpec():
            return plain(1)
        case EncoderOnlyAttentionSpec():
            return plain(0)
        case HiSparseHotSpec():
            return named("blocks_per_request", spec.blocks_per_request)
        case SlidingWindowSpec():
            return plus(ceil(over(held_tokens(spec, length, limits), _block(spec))), plain(1))
        case _:
            return ceil(over(held_tokens(spec, length, limits), _block(spec)))


def held_tokens(spec: KVCacheSpec, length: Length, limits: RequestLimits) -> Expression:
    """Tokens that one request keeps at most in layers of this spec, on one rank."""
    tokens = limits.max_in_flight_tokens
    in_flight = named("in flight" if tokens > 1 else "one token in flight", tokens)
    match spec:
        case SlidingWindowSpec():
            return least(plus(window_tokens(spec), in_flight), length.value)
        case ChunkedLocalAttentionSpec():
            chunk = named("attention_chunk_size", spec.attention_chunk_size)
            return least(plus(chunk, in_flight), length.value)
        case HiSparseResidentSpec():
            return least(in_flight, length.value)
        case CrossAttentionSpec():
            return named("encoder tokens of a step", limits.max_num_encoder_input_tokens)
        case FullAttentionSpec() if spec.dcp_sharded and limits.decode_context_parallel_size > 1:
            return ceil(over(length.value, named("DCP", limits.decode_context_parallel_size)))
        case _:
            return length.value


def window_tokens(spec: SlidingWindowSpec) -> Expression:
    """Tokens behind the one that is computed, which its window reads."""
    kept = minus(named("sliding_window", spec.sliding_window), plain(1))
    if not spec.extra_retained_tokens:
        return kept
    return plus(kept, named("extra_retained_tokens", spec.extra_retained_tokens))


def _block(spec: KVCacheSpec) -> Expression:
    return named("block_size", spec.block_size)


def _state_blocks(spec: MambaSpec, limits: RequestLimits) -> Expression:
    speculative = named("num_speculative_blocks", spec.num_speculative_blocks)
    if limits.mamba_cache_mode is not MambaCacheMode.ALIGN:
        return plus(plain(1), speculative)
    checkpoints = named("prefill checkpoints", spec.num_prefill_checkpoint_blocks)
    return plus(plain(2), speculative, checkpoints)


def in_flight_formulas(settings: PlannerSettings, batches: Expression | None) -> Iterator[Formula]:
    """Tokens in flight, and the batches they are in. batches: None where nothing tells why."""
    source = "vllm/config/vllm.py"
    number = 1 if settings.rules.single_batch_in_flight else settings.max_concurrent_batches
    if batches is not None and not settings.rules.single_batch_in_flight:
        yield Formula(
            name="batches in flight",
            expression=batches,
            result=number,
            unit=Unit.BATCHES,
            source=f"{source}:VllmConfig.max_concurrent_batches",
        )
    yield Formula(
        name="in flight",
        expression=times(
            named("batches in flight", number),
            named("max_num_batched_tokens", settings.max_num_batched_tokens),
        ),
        result=settings.max_in_flight_tokens,
        unit=Unit.TOKENS,
        source=f"{source}:VllmConfig.max_in_flight_tokens",
        note="windows and chunks keep room for them",
    )
