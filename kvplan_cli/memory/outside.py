"""Memory that grows outside torch's allocator, and what CUDA graphs are estimated to take.

Ranges from public start-up logs; nothing in them was measured on 0.33.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvplan_cli.engine_args import EngineArgs
from kvplan_cli.gpus import Gpu
from kvplan_cli.memory.budget import Estimate, Source
from kvplan_cli.memory.releases import NEWEST_MEMORY, MemoryRules
from kvplan_cli.settings.cuda_graphs import captures
from kvplan_cli.settings.drafter import Drafter
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.units import GIB

ESTIMATE_GRAPHS: Final = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"
_NVLINK_NAMES: Final = ("H100", "H200", "H800", "H20", "A100", "A800", "B200", "B300", "GB200")
_PCIE: Final = ("PCIE", "NVL ")

_DATA_CENTRE_BLACKWELL: Final = 10
# Batch sizes of a start with the default limits, which the figures below were fitted to.
_FULL_SET: Final = 51
_GRAPH_BASE_GIB: Final = 0.33
_GRAPH_LAYER_GIB: Final = 0.0166
_GRAPH_LOW_GIB: Final = 0.05
_GRAPH_HIGH_GIB: Final = 0.9
_GRAPH_NOTE: Final = "the engine's own estimate, which public logs show far from the truth at times"


def _gib(value: float) -> int:
    return int(value * GIB)


def _range(low: float, likely: float, high: float, note: str) -> Estimate:
    return Estimate(
        low=_gib(low), likely=_gib(likely), high=_gib(high), source=Source.EMPIRICAL, note=note
    )


def has_nvlink(gpu: Gpu) -> bool:
    """Whether the card's name is one that comes with NVLink."""
    name = gpu.name.upper()
    return any(each in name for each in _NVLINK_NAMES) and not any(each in name for each in _PCIE)


def outside_allocator(
    gpu: Gpu, settings: ResolvedSettings, rules: MemoryRules = NEWEST_MEMORY
) -> Estimate:
    """Bytes of one rank outside torch: communicators, libraries, lazily loaded kernels."""
    if settings.tensor_parallel_size > 1:
        return _communicating(gpu, settings.tensor_parallel_size, rules)
    if settings.pipeline_parallel_size > 1:
        return _range(0.03, 0.07, 0.30, "pipeline parallelism only, from logs")
    if rules.large_communicators:
        return _range(0.03, 0.25, 0.50, "one rank, from logs of 0.10 to 0.19")
    return _range(0.03, 0.10, 0.30, "one rank, from logs")


def _communicating(gpu: Gpu, ranks: int, rules: MemoryRules) -> Estimate:
    if not has_nvlink(gpu):
        return _range(0.20, 0.45, 0.74, "tensor parallelism without NVLink, from logs")
    if rules.large_communicators:
        return _range(0.50, 2.09, 2.30, "tensor parallelism over NVLink, from logs of 0.19")
    if ranks == 2:
        return _range(0.20, 2.07, 2.30, "two ranks over NVLink, logs of 0.19 show 2.06 - 2.11")
    return _range(0.20, 1.20, 2.30, "NVLink, logs of 0.19 show 2.1 - 2.2, 0.33 likely less")


def graphs_are_estimated(args: EngineArgs, env: Mapping[str, str]) -> bool:
    """Whether the engine takes an estimate for CUDA graphs off the budget."""
    return captures(args) and env.get(ESTIMATE_GRAPHS, "1") != "0"


def cuda_graphs(
    layers: int,
    gpu: Gpu,
    settings: ResolvedSettings,
    args: EngineArgs,
    rules: MemoryRules = NEWEST_MEMORY,
) -> Estimate:
    """Bytes that one rank of so many decoder layers keeps free for CUDA graphs."""
    if not graphs_are_estimated(args, args.env):
        return Estimate.certain(0, Source.EXACT, "no graphs, or no estimate of them is taken off")
    if not rules.takes_graphs:
        return Estimate.certain(0, Source.EXACT, "releases before 0.21 take nothing off for them")
    share = captured_sizes(settings.max_num_seqs, gpu) / _FULL_SET
    own = _GRAPH_LAYER_GIB * layers * share
    likely = _GRAPH_BASE_GIB * share + own * adapter_captures(args)
    high, note = likely + _GRAPH_HIGH_GIB, _GRAPH_NOTE
    if args.enable_lora:
        note += "; each batch size is captured with and without adapters"
    if _captures_drafts(settings.drafter):
        # Its prefills and its decoding steps each have graphs of their own.
        high += 2 * (_GRAPH_BASE_GIB * share + own)
        note += "; high holds a drafter's own graphs, were they as large as the model's"
    return _range(min(_GRAPH_LOW_GIB, likely), likely, high, note)


def adapter_captures(args: EngineArgs) -> int:
    """How often a batch size is captured: without adapters, and with all slots taken.

    Source: vLLM 0.33.0 ``v1/worker/gpu/lora_utils.py:get_lora_capture_cases``.
    """
    return 2 if args.enable_lora else 1


def _captures_drafts(drafter: Drafter | None) -> bool:
    """Whether drafting is captured: a model of its own and n-grams run without graphs.

    Source: vLLM 0.33.0 ``v1/worker/gpu/spec_decode/standalone_ar/speculator.py``.
    """
    return drafter is not None and drafter.use_eagle


def captured_sizes(max_num_seqs: int, gpu: Gpu) -> int:
    """How many batch sizes the engine captures a graph for, by default.

    Source: vLLM 0.33.0 ``config/vllm.py:_set_cudagraph_sizes``.
    """
    most = 1024 if gpu.capability[0] == _DATA_CENTRE_BLACKWELL else 512
    largest = min(2 * max_num_seqs, most)
    small = sum(size <= largest for size in (1, 2, 4))
    by_eights = range(8, min(largest + 1, 256), 8)
    by_sixteens = range(256, largest + 1, 16)
    return max(1, small + len(by_eights) + len(by_sixteens))
