"""The engine's own model runner, built without storage, and what it keeps on the card."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
import vllm.v1.worker.gpu_worker as gpu_worker
from vllm.config import set_current_vllm_config
from vllm.v1.worker.gpu import buffer_utils, model_runner
from vllm.v1.worker.workspace import init_workspace_manager

from tests.conformance.engine import ranks
from tests.conformance.engine.configs import engine_config
from tests.conformance.engine.meta_tensors import MetaTensors

_ECHOED = ("name", "config", "engine_args", "extra_files", "gpu")
_PACKAGES = ("vllm", "torch.nn")


def answer(case: Mapping[str, Any]) -> dict[str, Any]:
    """The case with the bytes that one rank of each stage keeps beside weights and cache."""
    from tests.conformance.engine.forking import forked

    # Host memory that the card reads stays in the host's.
    buffer_utils.get_accelerator_view_from_cpu_tensor = lambda tensor: tensor
    kept = []
    for stage in range(case["engine_args"].get("pipeline_parallel_size", 1)):
        kind, *result = forked(_kept, case, stage)
        if kind != "ok":
            raise RuntimeError(result[0])
        kept.append(result[0])
    return {key: case[key] for key in _ECHOED if key in case} | {"runner_bytes": kept}


def _kept(case: Mapping[str, Any], stage: int) -> int:
    config = engine_config(case["config"], case["engine_args"], case.get("extra_files") or {})
    sizes = config.parallel_config
    ranks.join(config, stage * sizes.tensor_parallel_size * sizes.prefill_context_parallel_size)
    lanes = gpu_worker._num_workspace_lanes(config, config.use_v2_model_runner)
    init_workspace_manager(torch.device("cuda"), 1, lanes)
    with MetaTensors(values=False), set_current_vllm_config(config):
        config.kernel_config.ir_op_priority.set_default()
        runner = model_runner.GPUModelRunner(config, torch.device("cuda"))
        runner.load_model()
    return sum(
        tensor.numel() * tensor.element_size()
        for path, tensor in _tensors(runner)
        if not _is_of_model(path)
    )


# What a model's own modules keep for a batch, beside parameters, buffers and caches.
_OF_A_BATCH = ("topk_indices", "topk_counts", "deepstack_input_embeds")
_OF_A_MODEL = ("_modules[", "lora_manager.modules", ".kv_cache", "_scale_cpu")
_OF_THE_HOST = (".draft_is_prefilling",)


def _is_of_model(path: str) -> bool:
    """Whether it counts as weights, adapters or cache, or stands in the host's memory."""
    if path.endswith(_OF_THE_HOST):
        return True
    named = any(part in path for part in _OF_A_MODEL)
    return named and not any(part in path for part in _OF_A_BATCH)


def _tensors(root: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors on the card that an object holds, each storage once, by attribute path."""
    seen: set[int] = set()
    stack: list[tuple[str, Any]] = [("runner", root)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, torch.Tensor):
            value = value if value._base is None else value._base
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            if value.is_meta:
                yield path, value
        else:
            stack += [(f"{path}{name}", each) for name, each in _parts(value)]


def _parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f"[{key}]", each) for key, each in value.items()]
    if isinstance(value, list | tuple | set):
        return [(f"[{index}]", each) for index, each in enumerate(value)]
    kind = type(value)
    if kind.__module__.startswith(_PACKAGES) and not kind.__name__.lower().endswith("config"):
        names = [*getattr(value, "__dict__", {}), *getattr(kind, "__slots__", ())]
        return [(f".{name}", getattr(value, name)) for name in names if hasattr(value, name)]
    return []
