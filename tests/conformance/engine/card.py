"""The card: what PyTorch, the driver and the compiled operators say of it."""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

import torch

NUM_CARDS = 64  # on one node, so that every parallel size starts without a cluster
# Streaming multiprocessors, by device name; they size scratch space, never the cache.
MULTIPROCESSORS = {
    "NVIDIA H100 80GB HBM3": 132,
    "NVIDIA H200": 132,
    "NVIDIA A100-SXM4-80GB": 108,
    "NVIDIA B200": 148,
    "NVIDIA L4": 58,
    "NVIDIA GeForce RTX 4090": 128,
    "NVIDIA GeForce RTX 5090": 170,
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": 188,
    "NVIDIA GB10": 48,
}
DEFAULT_MULTIPROCESSORS = 132


@dataclass(frozen=True)
class Card:
    """As in a case's ``gpu``. capability: major and minor."""

    name: str
    capability: tuple[int, int]
    total_memory: int

    @property
    def level(self) -> int:
        """The capability as the compiled operators take it, 90 for 9.0."""
        return self.capability[0] * 10 + self.capability[1]


class _Idle:
    """A stream or event that nothing waits for."""

    device = torch.device("meta")
    cuda_stream = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __enter__(self) -> _Idle:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: None


def _properties(card: Card) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        name=card.name,
        major=card.capability[0],
        minor=card.capability[1],
        total_memory=card.total_memory,
        multi_processor_count=MULTIPROCESSORS.get(card.name, DEFAULT_MULTIPROCESSORS),
        is_integrated=False,
        warp_size=32,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=232448,
        shared_memory_per_multiprocessor=233472,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        L2_cache_size=52428800,
        gcnArchName="",
        uuid="GPU-0",
    )


def pose_in_torch(card: Card) -> None:
    """Make ``torch.cuda`` and ``torch.accelerator`` answer for the card."""
    torch.version.cuda = "13.0"
    answers: dict[str, Any] = {
        "is_available": True,
        "device_count": NUM_CARDS,
        "current_device": 0,
        "current_device_index": 0,
        "current_accelerator": torch.device("cuda"),
        "get_device_properties": _properties(card),
        "get_device_capability": card.capability,
        "get_device_name": card.name,
        "mem_get_info": (card.total_memory, card.total_memory),
        "is_initialized": False,
        "is_current_stream_capturing": False,
        "memory_allocated": 0,
        "max_memory_allocated": 0,
        "memory_reserved": 0,
        "memory_stats": {},
        "get_rng_state": None,
        "get_rng_state_all": [],
    }
    silent = (
        *("set_device", "set_device_index", "synchronize", "empty_cache", "_lazy_init", "init"),
        *("reset_peak_memory_stats", "manual_seed_all", "set_rng_state", "set_rng_state_all"),
    )
    for module in (torch.cuda, torch.accelerator):
        for name, value in answers.items():
            if hasattr(module, name):
                setattr(module, name, _answering(value))
        for name in silent:
            if hasattr(module, name):
                setattr(module, name, _answering(None))
    torch.accelerator.get_device_capability = _answering(card.capability)
    torch.accelerator.current_stream = _answering(None)
    torch.cuda.get_rng_state = lambda *args, **kwargs: torch.get_rng_state()
    torch.cuda.Stream = torch.cuda.Event = _Idle
    torch.cuda.stream = torch.cuda.current_stream = torch.cuda.default_stream = _Idle


def _answering(value: Any) -> Any:
    return lambda *args, **kwargs: value


def pose_in_driver(card: Card) -> None:
    """Make the driver's library, of which the engine ships a copy, answer for the card."""
    import vllm.third_party.pynvml as nvml

    memory = types.SimpleNamespace(total=card.total_memory, free=card.total_memory, used=0)
    answers: dict[str, Any] = {
        "nvmlInit": None,
        "nvmlShutdown": None,
        "nvmlDeviceGetCount": NUM_CARDS,
        "nvmlDeviceGetCudaComputeCapability": card.capability,
        "nvmlDeviceGetName": card.name,
        "nvmlDeviceGetMemoryInfo": memory,
        "nvmlDeviceGetP2PStatus": nvml.NVML_P2P_STATUS_OK,
        "nvmlSystemGetDriverVersion": "580.65.06",
        "nvmlSystemGetCudaDriverVersion": 13000,
    }
    for name, value in answers.items():
        setattr(nvml, name, _answering(value))
    for name in ("ByIndex", "ByUUID"):
        setattr(nvml, f"nvmlDeviceGetHandle{name}", lambda handle: handle)
    nvml.nvmlDeviceGetIndex = lambda handle: handle
    nvml.nvmlDeviceGetUUID = lambda handle: f"GPU-{handle}"


# What the build for a card says of its kernels, by the lowest capability that has them.
_KERNELS_FROM = {
    "cutlass_scaled_mm_supports_fp8": 89,
    "cutlass_scaled_mm_supports_block_fp8": 90,
    "cutlass_scaled_mm_supports_fp4": 100,
    "cutlass_sparse_scaled_mm_supported": 90,
    "cutlass_group_gemm_supported": 90,
}
_OPERATORS_OF = (
    *("_C", "_moe_C", "_C_cache_ops", "_C_custom_ar", "_C_utils", "_rocm_C", "_cutlass_C"),
    *("_vllm_fa2_C", "_vllm_fa3_C", "_flashmla_C", "_flashmla_extension_C", "_qutlass_C"),
    *("_deepselect_C", "_flashkda_C", "_C_stable_libtorch", "_moe_C_stable_libtorch"),
    "flashinfer",
)


class _Operator:
    """A compiled operator that may be named but never called."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"no kernel runs here: {self.__name__}")

    def __getattr__(self, name: str) -> _Operator:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Operator(f"{self.__name__}.{name}")


def pose_operators() -> None:
    """Let the engine name its compiled operators; capability queries answer as its build does."""
    import torch._ops
    import torch.library

    real_name = torch._ops._OpNamespace.__getattr__
    real_register = torch.library.register_fake

    def named(namespace: Any, name: str) -> Any:
        try:
            return real_name(namespace, name)
        except AttributeError:
            if namespace.name not in _OPERATORS_OF or name.startswith("__"):
                raise
        if name in _KERNELS_FROM:
            return lambda level: level >= _KERNELS_FROM[name]
        if name == "get_workspace_size":
            return lambda *args: 1  # scratch of a prefill kernel
        return _Operator(f"{namespace.name}::{name}")

    def register(operator: Any, function: Any = None, *args: Any, **kwargs: Any) -> Any:
        name = operator if isinstance(operator, str) else getattr(operator, "__name__", "")
        if isinstance(operator, _Operator) or str(name).split("::")[0] in _OPERATORS_OF:
            return (lambda decorated: decorated) if function is None else function
        return real_register(operator, function, *args, **kwargs)

    torch._ops._OpNamespace.__getattr__ = named
    torch.library.register_fake = register
