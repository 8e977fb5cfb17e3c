"""How copies of the engine that share experts pass tokens to each other.

Source: vLLM 0.33.0 ``vllm/config/parallel.py`` (``use_batched_dp_moe``,
``use_sequence_parallel_moe``).
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.engine_args import EngineArgs

# They send tokens in batches of a fixed size.
_BATCHED: Final = ("deepep_low_latency", "nixl_ep")
# ``naive`` and ``pplx`` are taken for the first of them.
_SHARING: Final = frozenset(
    {
        "allgather_reducescatter",
        "naive",
        "pplx",
        "deepep_high_throughput",
        "deepep_low_latency",
        "deepep_v2",
        "flashinfer_nvlink_one_sided",
        "mori_high_throughput",
        "mori_low_latency",
        "nixl_ep",
    }
)


def batches_experts(args: EngineArgs) -> bool:
    """Whether experts are reached in batches of a fixed number of tokens."""
    return _shares_experts(args) and args.all2all_backend in _BATCHED


def shares_out_tokens(args: EngineArgs) -> bool:
    """Whether tensor parallel ranks share out a step's tokens around the experts: what is no
    routed expert there, each holds whole."""
    sharing = args.all2all_backend in _SHARING
    return _shares_experts(args) and args.tensor_parallel_size > 1 and sharing


def _shares_experts(args: EngineArgs) -> bool:
    return args.data_parallel_size > 1 and args.enable_expert_parallel
