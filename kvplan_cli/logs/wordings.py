"""The table of lines: one row a wording, with the releases that print it and what it gives.

Rows match pieces of a message rather than whole messages, so that a line that is cut still
gives what it holds; every number is followed by the text behind it, so that a number that is
cut gives nothing.
"""

from __future__ import annotations

import re
from typing import Final

from kvplan_cli.logs.printed import Figure
from kvplan_cli.values import dataclass

_G = r"-?\d{1,7}(?:\.\d{1,6})?"  # GiB
_N = r"\d[\d,]{0,24}"  # a count


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """One way in which the engine words a figure.

    anchor: text that every such line holds. pattern: its groups are named ``<figure>_gib``,
    ``_count``, ``_bytes`` or ``_hundredths``, or after a text of the start (``release``,
    ``arguments``, ``namespace``, ``engine``). releases: that print it, as far as seen.
    """

    anchor: str
    pattern: re.Pattern[str]
    releases: str
    gives: str


def _row(anchor: str, pattern: str, releases: str, gives: str) -> Wording:
    return Wording(
        anchor=anchor, pattern=re.compile(pattern, re.ASCII), releases=releases, gives=gives
    )


STARTS: Final = (
    _row(
        "vLLM API server version",
        r"vLLM API server version (?P<release>[\w.+-]{1,120})(?=\s)",
        "0.4 - 0.18",
        "the release",
    ),
    _row(" version ", r"\s{2}version\s+(?P<release>\d[\w.+-]{1,120})(?=\s)", "0.16 -", "the same"),
    _row(
        "LLM engine (v",
        r"Initializing an? (?:V1 )?LLM engine \(v(?P<release>[^)\s]{1,120})\)",
        "0.4 -",
        "the same",
    ),
    _row(
        "non-default args: {",
        r"non-default args: \{(?P<arguments>.*)",
        "0.8 -",
        "model and flags as given",
    ),
    _row(
        "args: Namespace(",
        r"args: Namespace\((?P<namespace>.*)",
        "0.4 - 0.8",
        "model and flags, defaults among them",
    ),
    _row(
        "with config: ",
        r"LLM engine \(v[^)\s]{1,120}\) with config: (?P<engine>.*)",
        "0.4 -",
        "model and settings as resolved",
    ),
)

SETTINGS: Final = (
    _row(
        "max model len",
        rf"Using max model len (?P<max_model_len_count>{_N})(?=\s)",
        "0.8 -",
        "max_model_len as resolved",
    ),
    _row(
        "max_num_batched_tokens=",
        r"Chunked prefill is enabled with "
        rf"max_num_batched_tokens=(?P<max_num_batched_tokens_count>{_N})\.",
        "0.6 -",
        "tokens of one step",
    ),
    _row(
        "--gpu-memory-utilization=",
        r"The current --gpu-memory-utilization=(?P<utilization_share>0\.\d{4}|1\.0{4}) is",
        "0.19 -",
        "gpu_memory_utilization",
    ),
    _row(
        "GPU memory utilization",
        rf"[Dd]esired GPU memory utilization (?:is )?\((?P<utilization_share>\d\.\d{{1,18}}), "
        rf"(?P<requested_gib>{_G}) GiB\)",
        "0.10 -",
        "gpu_memory_utilization, and what it requests",
    ),
    _row(
        "x gpu_memory_utilization",
        rf"total_gpu_memory \((?P<total_gib>{_G})GiB\) x gpu_memory_utilization "
        rf"\((?P<utilization_share>\d\.\d{{2}})\) = (?P<requested_gib>{_G})GiB",
        "0.6 - 0.9",
        "the same, and what the card has",
    ),
)

MEMORY: Final = (
    _row(
        "Available KV cache memory",
        rf"Available KV cache memory: (?P<available_gib>{_G}) GiB",
        "0.9 -",
        "available memory, of one rank or of each",
    ),
    _row(
        "reserved for KV Cache is",
        rf"the rest of the memory reserved for KV Cache is (?P<available_gib>{_G})GiB",
        "0.6 - 0.9",
        "the same",
    ),
    _row(
        "kv_cache_size=",
        rf"non_torch_memory=(?P<non_torch_gib>{_G})GiB kv_cache_size=(?P<available_gib>{_G})GiB",
        "0.6",
        "the same",
    ),
    _row(
        "took ",
        rf"(?:Model loading|Loading model weights) took (?P<weights_gib>{_G}) G(?:iB|B)\b",
        "0.4 -",
        "weights",
    ),
    _row(
        "model weights take",
        rf"model weights take (?P<weights_gib>{_G})GiB; "
        rf"non_torch_memory takes (?P<non_torch_gib>{_G})GiB; "
        rf"PyTorch activation peak memory takes (?P<activation_gib>{_G})GiB",
        "0.6 - 0.9",
        "weights, peak of the profile run, memory outside torch",
    ),
    _row(
        "Free memory on device",
        rf"Free memory on device (?:\S{{1,20}} )?\((?P<free_gib>{_G})/(?P<total_gib>{_G}) GiB\)",
        "0.10 -",
        "what was free at start, and what the card has",
    ),
    _row(
        "GiB for consumed memory",
        rf"(?P<consumed_gib>{_G}) GiB for consumed memory",
        "0.26 -",
        "weights, lasting buffers and memory outside torch in one",
    ),
    _row("GiB for weight", rf"(?P<weights_gib>{_G}) GiB for weight", "0.10 - 0.26", "weights"),
    _row(
        "GiB for peak activation",
        rf"(?P<activation_gib>{_G}) GiB for peak activation",
        "0.10 -",
        "peak of the profile run; with the graph estimate from about 0.26",
    ),
    _row(
        "GiB for non-torch memory",
        rf"(?P<non_torch_gib>{_G}) GiB for non-torch memory",
        "0.10 - 0.26",
        "memory outside torch",
    ),
    _row(
        "GiB for CUDAGraph memory",
        rf"(?P<graphs_gib>{_G}) GiB for CUDAGraph memory",
        "0.10 -",
        "what the CUDA graphs took",
    ),
    _row(
        "config with `--kv-cache-memory",
        r"config with `--kv-cache-memory(?:-bytes)?=(?P<fit_requested_bytes>-?\d{1,15})`"
        r"(?: \([^)`]{1,20}\))? to fit",
        "0.10 -",
        "exact bytes: available memory less 150 MiB and the graphs",
    ),
    _row(
        "Current kv cache memory in use is",
        rf"memory in use is (?:(?P<in_use_gib>{_G}) GiB|(?P<in_use_bytes>-?\d{{1,15}}) bytes)",
        "0.10 -",
        "available memory, exact where it is in bytes",
    ),
    _row(
        "CUDA graph pool memory",
        rf"CUDA graph pool memory: (?P<graphs_gib>{_G}) GiB \(actual\), "
        rf"(?P<graphs_estimated_gib>{_G}) GiB \(estimated\)",
        "0.18 -",
        "graphs as they are, and as the engine estimated them",
    ),
    _row(
        "CUDA graph memory: ",
        rf"Estimated (?:\w{{1,8}} )?CUDA graph memory: (?P<graphs_estimated_gib>{_G}) GiB total",
        "0.18 -",
        "the engine's estimate of the graphs",
    ),
    _row(
        "Graph capturing finished",
        rf"Graph capturing finished in \d{{1,6}} secs?, took (?P<graphs_gib>{_G}) GiB",
        "0.5 -",
        "what the CUDA graphs took",
    ),
    _row(
        "as specified by kv_cache_memory_bytes",
        rf"Initial free memory (?P<free_gib>{_G}) GiB, reserved (?P<reserved_gib>{_G}) GiB",
        "0.10 -",
        "the memory that kv_cache_memory_bytes pins",
    ),
)

CAPACITY: Final = (
    _row(
        "KV cache size:",
        rf"KV cache size: (?P<tokens_count>{_N}) tokens",
        "0.8 -",
        "token capacity; to 0.20.0 by blocks, from 0.20.1 by concurrency",
    ),
    _row(
        "Maximum concurrency for",
        rf"Maximum concurrency for (?P<length_count>{_N}) tokens per request: "
        r"(?P<concurrency_hundredths>\d{1,9}\.\d{2})x",
        "0.6 -",
        "requests at a time, and their length",
    ),
    _row(
        "blocks: ",
        rf"# (?:GPU|CUDA|cuda) blocks: (?P<gpu_blocks_count>{_N}), # CPU blocks",
        "0.2 - 0.9",
        "blocks",
    ),
    _row(
        "num_gpu_blocks is: ",
        rf"num_gpu_blocks is: (?P<gpu_blocks_count>{_N})(?=\s)",
        "0.8 - 0.11",
        "blocks",
    ),
    _row(
        "GiB KV cache is needed",
        rf"max seq len \((?P<needed_for_count>{_N})\), \(?(?P<needed_gib>{_G}) GiB KV cache",
        "0.8 -",
        "memory that one request needs",
    ),
    _row(
        "larger than the available KV cache memory",
        rf"larger than the available KV cache memory \((?P<short_of_gib>{_G}) GiB\)",
        "0.8 -",
        "memory that is there for it; less the null block in newer releases",
    ),
    _row(
        "estimated maximum model length",
        rf"estimated maximum model length is (?P<estimated_length_count>{_N})\.",
        "0.9 -",
        "the length that would fit",
    ),
    _row(
        "that can be stored in KV cache",
        rf"max seq len \((?P<needed_for_count>{_N})\) is larger than the maximum number of tokens "
        rf"that can be stored in KV cache \((?P<estimated_length_count>{_N})\)",
        "0.2 - 0.8",
        "the same",
    ),
    _row(
        "Auto-fit max_model_len: reduced",
        rf"reduced from {_N} to (?P<fitted_length_count>{_N}) to fit",
        "0.14 -",
        "the length that --max-model-len auto found",
    ),
    _row(
        "Setting attention block size",
        rf"Setting attention block size to (?P<attention_block_count>{_N}) tokens",
        "0.11 -",
        "tokens in a block beside state layers",
    ),
    _row(
        "Padding mamba page size",
        r"Padding mamba page size by (?P<mamba_padding_hundredths>\d{1,5}\.\d{2})%",
        "0.11 -",
        "what the states' pages are padded by",
    ),
    _row(
        "padding layers, may waste",
        rf"Add (?P<padding_layers_count>{_N}) padding layers, may waste",
        "0.11 -",
        "layers that fill up groups",
    ),
)

WORDINGS: Final = (*STARTS, *SETTINGS, *MEMORY, *CAPACITY)


def figure_of(group: str) -> tuple[Figure, str]:
    """The figure that a pattern's group stands for, and how it is written."""
    name, _, kind = group.rpartition("_")
    return Figure(name), kind
