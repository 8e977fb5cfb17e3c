"""The flags that could change a plan, with what each costs beside memory.

The engine refuses some of them for a model: that is found by planning, not written down here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from kvplan_cli.dtypes import DType
from kvplan_cli.errors import KvplanError
from kvplan_cli.planner.results import Plan, Refusal
from kvplan_cli.results_explain import Price, Standing
from kvplan_cli.service.balance import balanced_partition
from kvplan_cli.service.changes import Asked, Lever, gpus_of, standing
from kvplan_cli.service.fit import Answer, answer_for
from kvplan_cli.service.inputs import Inputs
from kvplan_cli.settings.cuda_graphs import captures
from kvplan_cli.settings.environment import PP_LAYER_PARTITION
from kvplan_cli.settings.mm_items import largest_whole_item
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.specs import MambaSpec
from kvplan_cli.values import dataclass

# Steps of fewer tokens are not worth their overhead.
_LEAST_BATCHED_TOKENS: Final = 512
_SEQUENCES: Final = (512, 256, 128, 64)
_UTILIZATIONS: Final = (0.95, 0.97)
_BLOCK_SIZES: Final = (16, 32, 64, 128, 256)
# As many ranks as a rack has, for a model that does not fit.
_FACTORS: Final = (2, 4, 8, 16)
_EIGHT_BITS: Final = "fp8"
_PLAIN_DTYPES: Final = ("auto", "bfloat16", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What is planned now. settings: None for layer specs given outright."""

    inputs: Inputs
    answer: Answer
    now: Standing
    asked: Asked

    @property
    def settings(self) -> ResolvedSettings | None:
        model = self.answer.target.model
        return None if model is None else model.settings

    @property
    def estimated(self) -> bool:
        """Whether what is left for the cache follows from the flags."""
        given = self.inputs.memory.kv_mem_bytes or self.inputs.args.kv_cache_memory_bytes
        return not given


def levers(inputs: Inputs, answer: Answer, now: Standing, asked: Asked) -> Iterator[Lever]:
    """Every change that may hold more than the flags as they are given."""
    question = _Question(inputs=inputs, answer=answer, now=now, asked=asked)
    for kind in _KINDS:
        yield from kind(question)


def _lever(
    flag: str,
    value: object,
    cost: str,
    args: Mapping[str, object],
    price: Price = Price.OTHER,
) -> Lever:
    typed = flag if value is None else f"{flag} {value}"
    return Lever(flag=flag, typed=typed, args=args, cost=cost, price=price)


def _batches(question: _Question) -> Iterator[Lever]:
    args, settings = question.inputs.args, question.settings
    least = max(_LEAST_BATCHED_TOKENS, _whole_item(question))
    for divisor in (2, 4, 8):
        tokens = question.answer.target.settings.max_num_batched_tokens // divisor
        if tokens >= least:
            yield _lever(
                "--max-num-batched-tokens",
                tokens,
                "prompts take more steps",
                {"max_num_batched_tokens": tokens},
                Price.SPEED,
            )
    overlaps = args.async_scheduling is not False if settings is None else settings.async_scheduling
    if overlaps:
        yield _lever(
            "--no-async-scheduling",
            None,
            "steps do not overlap: slower decoding",
            {"async_scheduling": False},
            Price.SPEED,
        )


def _whole_item(question: _Question) -> float:
    """Tokens that no step may be smaller than; endless where an encoder's input is not known."""
    model = question.answer.target.model
    if model is None:
        return 0
    largest = largest_whole_item(model.traits, question.inputs.args)
    if largest is None:
        return math.inf if model.traits.is_encoder_decoder else 0
    return largest[1]


def _sequences(question: _Question) -> Iterator[Lever]:
    settings = question.settings
    if settings is None:
        return
    wanted = math.ceil(question.now.max_concurrency or 1)
    refusal = question.answer.deciding
    states = refusal.available_blocks if isinstance(refusal, Refusal) else None
    for number in dict.fromkeys((states or settings.max_num_seqs, *_SEQUENCES)):
        if wanted <= number < settings.max_num_seqs:
            yield _lever(
                "--max-num-seqs",
                number,
                f"at most {number} requests run at a time, short ones too",
                {"max_num_seqs": number},
                Price.ROOM,
            )


def _cache(question: _Question) -> Iterator[Lever]:
    args, settings = question.inputs.args, question.settings
    if settings is not None and settings.cache_dtype in _PLAIN_DTYPES:
        yield _lever(
            "--kv-cache-dtype",
            _EIGHT_BITS,
            "keys and values in 8 bits: other answers, check their quality",
            {"kv_cache_dtype": _EIGHT_BITS},
        )
    for size in _BLOCK_SIZES:
        if size != args.block_size:
            yield _lever(
                "--block-size", size, "prefixes are shared in other steps", {"block_size": size}
            )
    if question.answer.target.settings.disable_hybrid_kv_cache_manager:
        yield _lever(
            "--enable-hybrid-kv-cache-manager",
            None,
            "nothing: windows drop what they have left behind",
            {"disable_hybrid_kv_cache_manager": False},
            Price.SPEED,
        )
    else:
        yield _lever(
            "--disable-hybrid-kv-cache-manager",
            None,
            "windows keep all tokens",
            {"disable_hybrid_kv_cache_manager": True},
        )
    if args.num_gpu_blocks_override is not None:
        yield _lever(
            "no --num-gpu-blocks-override",
            None,
            "nothing: the memory decides",
            {"num_gpu_blocks_override": None},
        )


def _states(question: _Question) -> Iterator[Lever]:
    target = question.answer.target
    specs = [spec for worker in target.workers for spec in worker.values()]
    states = [spec for spec in specs if isinstance(spec, MambaSpec)]
    if target.settings.enable_prefix_caching:
        yield _lever(
            "--no-enable-prefix-caching",
            None,
            "equal beginnings of prompts are computed again",
            {"enable_prefix_caching": False},
        )
    if any(DType.FLOAT32 in spec.dtypes for spec in states):
        for dtype in ("float16", "bfloat16"):
            yield _lever(
                "--mamba-ssm-cache-dtype",
                dtype,
                "states in 16 bits: other answers, check their quality",
                {"mamba_ssm_cache_dtype": dtype},
            )
    if states and target.settings.enable_prefix_caching:
        for size in (256, 512, 1024):
            yield _lever(
                "--mamba-block-size",
                size,
                "states are kept at other steps",
                {"mamba_block_size": size},
            )


def _memory(question: _Question) -> Iterator[Lever]:
    if not question.estimated:
        return
    args = question.inputs.args
    for share in _UTILIZATIONS:
        if share > args.gpu_memory_utilization:
            yield _lever(
                "--gpu-memory-utilization",
                share,
                "less of the card is left to others and to surprises",
                {"gpu_memory_utilization": share},
                Price.ROOM,
            )
    if captures(args):
        yield _lever(
            "--enforce-eager",
            None,
            "no CUDA graphs: slower decoding",
            {"enforce_eager": True},
            Price.ROOM,
        )
    model = question.answer.target.model
    if model is not None and model.traits.is_multimodal:
        if not args.language_model_only:
            yield _lever(
                "--language-model-only",
                None,
                "text only: no images, audio or video",
                {"language_model_only": True},
            )
        if not args.skip_mm_profiling:
            yield _lever(
                "--skip-mm-profiling",
                None,
                "nothing is kept free for encoders: large inputs may run out of memory",
                {"skip_mm_profiling": True},
            )


def _ranks(question: _Question) -> Iterator[Lever]:
    args = question.inputs.args
    ranks = args.tensor_parallel_size
    yield from _more_cards(question, "-tp", "tensor_parallel_size")
    yield from _more_cards(question, "-pp", "pipeline_parallel_size")
    shared = args.decode_context_parallel_size
    for number in range(2 * shared, ranks + 1, shared):
        if ranks % number == 0:
            yield _lever(
                "-dcp",
                number,
                "ranks exchange partial results while decoding",
                {"decode_context_parallel_size": number},
            )
    if question.estimated and ranks > 1 and not args.enable_expert_parallel:
        yield _lever(
            "--enable-expert-parallel",
            None,
            "whole experts on ranks: uneven load",
            {"enable_expert_parallel": True},
        )


def _more_cards(question: _Question, flag: str, name: str) -> Iterator[Lever]:
    """Twice as many ranks; where not one request fits, as many as one needs."""
    args = question.inputs.args
    size, cards = getattr(args, name), gpus_of(args)
    with_memory = "" if question.estimated else ", each with the same memory for the cache"
    for factor in (2,) if question.now.fits else _FACTORS:
        lever = _lever(
            flag,
            factor * size,
            f"{factor * cards} cards instead of {cards}{with_memory}",
            {name: factor * size},
        )
        yield lever
        try:
            if standing(question.inputs.with_args(**lever.args), question.asked).fits:
                return
        except KvplanError:
            return


def _stages(question: _Question) -> Iterator[Lever]:
    answer, inputs, asked = question.answer, question.inputs, question.asked

    def replan(changed: Inputs) -> Plan | Refusal | None:
        try:
            outcome = answer_for(changed, asked.recall)
        except KvplanError:
            return None
        return outcome.low if asked.end == "low" else outcome.likely

    found = balanced_partition(inputs, answer.target, answer.budgets, answer.deciding, replan)
    if found is not None:
        partition, _ = found
        typed = f"{PP_LAYER_PARTITION}={partition}"
        yield Lever(
            flag=PP_LAYER_PARTITION,
            typed=typed,
            args={"env": {**inputs.args.env, PP_LAYER_PARTITION: partition}},
            cost="stages of unlike depth: the deepest sets the pace",
            price=Price.SPEED,
        )


def _lengths(question: _Question) -> Iterator[Lever]:
    now = question.now
    lengths = [] if now.max_model_len is None else [now.max_model_len // 2]
    if not now.fits and now.longest_context:
        lengths.append(now.longest_context)
    for length in dict.fromkeys(lengths):
        if length:
            yield _lever(
                "--max-model-len",
                length,
                "longer requests are refused",
                {"max_model_len": length},
            )


def _model(question: _Question) -> Iterator[Lever]:
    args, settings = question.inputs.args, question.settings
    if settings is None:
        return
    if settings.dtype is DType.FLOAT32:
        yield _lever(
            "--dtype",
            "bfloat16",
            "weights and answers in 16 bits: check their quality",
            {"dtype": "bfloat16"},
        )
    if not settings.enable_chunked_prefill:
        yield _lever(
            "--enable-chunked-prefill",
            None,
            "prompts are split over steps",
            {"enable_chunked_prefill": True},
        )
    if args.speculative_config is not None:
        yield _lever(
            "no --speculative-config",
            None,
            "nothing is drafted: slower decoding",
            {"speculative_config": None, "draft_name": "", "draft_files": {}},
        )


_KINDS: Final[tuple[Callable[[_Question], Iterator[Lever]], ...]] = (
    _batches,
    _sequences,
    _cache,
    _states,
    _memory,
    _ranks,
    _stages,
    _lengths,
    _model,
)
