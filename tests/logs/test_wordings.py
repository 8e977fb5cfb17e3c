"""Every wording of the table, as a line that the engine prints."""

from __future__ import annotations

import pytest

from kvplan_cli.logs.printed import Figure
from kvplan_cli.logs.read import read_log
from kvplan_cli.logs.wordings import (
    CAPACITY,
    MEMORY,
    SETTINGS,
    STARTS,
    WORDINGS,
    Wording,
    figure_of,
)

_NEW = (
    "Free memory on device (78.84/79.25 GiB) on startup. Desired GPU memory utilization is "
    "(0.92, 72.91 GiB). Actual usage is 15.26 GiB for consumed memory (weights + non-torch), "
    "1.44 GiB for peak activation, and 0.23 GiB for CUDAGraph memory. Replace "
    "gpu_memory_utilization config with `--kv-cache-memory=59950874829` (55.83 GiB) to fit into "
    "requested memory, or `--kv-cache-memory=66318237696` (61.76 GiB) to fully utilize gpu "
    "memory. Current kv cache memory in use is 56.21 GiB."
)
_OLD = (
    "Free memory on device (23.21/23.65 GiB) on startup. Desired GPU memory utilization is "
    "(0.9, 21.28 GiB). Actual usage is 5.79 GiB for weight, 0.17 GiB for peak activation, 0.02 "
    "GiB for non-torch memory, and 0.14 GiB for CUDAGraph memory. Replace gpu_memory_utilization "
    "config with `--kv-cache-memory=16130110668` to fit into requested memory, or "
    "`--kv-cache-memory=18192115712` to fully utilize gpu memory. Current kv cache memory in use "
    "is 16440489164 bytes."
)
# A message, and the figures that it gives as text.
LINES = (
    ("Using max model len 131072", {"max_model_len": "131072"}),
    (
        "Chunked prefill is enabled with max_num_batched_tokens=2048.",
        {"max_num_batched_tokens": "2048"},
    ),
    ("Available KV cache memory: 56.21 GiB", {"available": "56.21"}),
    ("Available KV cache memory: -0.94 GiB", {"available": "-0.94"}),
    (
        "model weights take 2.89GiB; non_torch_memory takes 0.01GiB; PyTorch activation peak "
        "memory takes 2.02GiB; the rest of the memory reserved for KV Cache is 2.36GiB.",
        {"weights": "2.89", "non_torch": "0.01", "activation": "2.02", "available": "2.36"},
    ),
    (
        "the current vLLM instance can use total_gpu_memory (14.56GiB) x gpu_memory_utilization "
        "(0.50) = 7.28GiB",
        {"total": "14.56", "requested": "7.28"},
    ),
    (
        "Memory profiling results: total_gpu_memory=23.58GiB peak_torch_memory=17.06GiB "
        "non_torch_memory=0.35GiB kv_cache_size=3.81GiB gpu_memory_utilization=0.90",
        {"non_torch": "0.35", "available": "3.81"},
    ),
    ("Model loading took 15.0 GiB memory and 5.420225 seconds", {"weights": "15.0"}),
    ("Model loading took 27.6656 GiB and 31.2 seconds", {"weights": "27.6656"}),
    ("Loading model weights took 14.9888 GB", {"weights": "14.9888"}),
    (
        _NEW,
        {
            "free": "78.84",
            "total": "79.25",
            "requested": "72.91",
            "consumed": "15.26",
            "activation": "1.44",
            "graphs": "0.23",
            "fit_requested": "59950874829",
            "in_use": "56.21",
        },
    ),
    (
        _OLD,
        {
            "free": "23.21",
            "total": "23.65",
            "requested": "21.28",
            "weights": "5.79",
            "activation": "0.17",
            "non_torch": "0.02",
            "graphs": "0.14",
            "fit_requested": "16130110668",
            "in_use": "16440489164",
        },
    ),
    (
        "ValueError: Free memory on device cuda:0 (15.32/22.04 GiB) on startup is less than "
        "desired GPU memory utilization (0.88, 19.39 GiB). Decrease GPU memory",
        {"free": "15.32", "total": "22.04", "requested": "19.39"},
    ),
    (
        "CUDA graph pool memory: 0.49 GiB (actual), 0.1 GiB (estimated), difference: 0.39 GiB",
        {"graphs": "0.49", "graphs_estimated": "0.1"},
    ),
    (
        "Estimated MRV2 CUDA graph memory: 0.64 GiB total (0.31 GiB retained)",
        {"graphs_estimated": "0.64"},
    ),
    ("Graph capturing finished in 18 secs, took 0.19 GiB", {"graphs": "0.19"}),
    (
        "Initial free memory 111.01 GiB, reserved 18.63 GiB memory for KV Cache as specified by "
        "kv_cache_memory_bytes config and skipped memory profiling.",
        {"free": "111.01", "reserved": "18.63"},
    ),
    (
        "GPU KV cache size: 460,496 tokens, Maximum concurrency for 131,072 tokens per request: "
        "3.51x",
        {"tokens": "460,496", "length": "131,072", "concurrency": "3.51"},
    ),
    ("GPU + host KV cache size: 12 tokens", {"tokens": "12"}),
    ("# CUDA blocks: 5519, # CPU blocks: 9362", {"gpu_blocks": "5519"}),
    (
        "Engine 000: vllm cache_config_info with initialization after num_gpu_blocks is: 75972",
        {"gpu_blocks": "75972"},
    ),
    (
        "ValueError: To serve at least one request with the models's max seq len (262144), "
        "(24.00 GiB KV cache is needed, which is larger than the available KV cache memory "
        "(8.04 GiB). Based on the available memory, the estimated maximum model length is 87840. "
        "Try increasing",
        {
            "needed_for": "262144",
            "needed": "24.00",
            "short_of": "8.04",
            "estimated_length": "87840",
        },
    ),
    (
        "The model's max seq len (131072) is larger than the maximum number of tokens that can be "
        "stored in KV cache (37696). Try increasing",
        {"needed_for": "131072", "estimated_length": "37696"},
    ),
    (
        "Auto-fit max_model_len: reduced from 131072 to 92144 to fit in available KV cache memory",
        {"fitted_length": "92144"},
    ),
    (
        "Setting attention block size to 1072 tokens to ensure that attention page size is >= "
        "mamba page size.",
        {"attention_block": "1072"},
    ),
    ("Padding mamba page size by 0.25% to ensure that", {"mamba_padding": "0.25"}),
    (
        "Add 3 padding layers, may waste at most 6.25% KV cache memory",
        {"padding_layers": "3"},
    ),
)


def figures(text: str) -> dict[str, str]:
    return {
        figure.value: printed.text
        for process in read_log(text).processes
        for figure, printed in process.figures.items()
    }


@pytest.mark.parametrize(("message", "expected"), LINES, ids=[line[:40] for line, _ in LINES])
def test_a_line_gives_its_figures(message: str, expected: dict[str, str]) -> None:
    assert figures(f"{message}\n") == expected


@pytest.mark.parametrize("wording", [*SETTINGS, *MEMORY, *CAPACITY], ids=lambda w: w.anchor)
def test_every_wording_has_a_line(wording: Wording) -> None:
    told = {"Using max model len", "--gpu-memory-utilization="} & {wording.anchor}
    assert told or any(
        wording.anchor in message and wording.pattern.search(f"{message}\n") for message, _ in LINES
    )


def test_groups_are_named_after_figures() -> None:
    for wording in WORDINGS:
        assert wording.releases
        assert wording.gives
        for group in wording.pattern.groupindex:
            if wording in STARTS or group == "utilization_share":
                continue
            assert isinstance(figure_of(group)[0], Figure)


@pytest.mark.parametrize(
    "line",
    [
        "The current --gpu-memory-utilization=0.9000 is equivalent to",
        "the current vLLM instance can use total_gpu_memory (14.56GiB) x gpu_memory_utilization "
        "(0.90) = 13.10GiB",
        "Desired GPU memory utilization is (0.9, 21.28 GiB).",
    ],
)
def test_utilization_is_a_setting(line: str) -> None:
    assert read_log(f"{line}\n").resolved["gpu_memory_utilization"].value == 0.9
