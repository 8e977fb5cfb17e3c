"""One worker's model, built without storage, and what it reports of its cache."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
import vllm.model_executor.model_loader as loaders
from vllm.config import get_layers_from_vllm_config, set_current_vllm_config
from vllm.distributed.parallel_state import get_pp_group
from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
from vllm.model_executor.model_loader.base_loader import BaseModelLoader
from vllm.platforms import current_platform
from vllm.utils.torch_utils import set_default_torch_dtype
from vllm.v1.worker.gpu import model_runner
from vllm.v1.worker.gpu_worker import Worker

from tests.conformance.engine import ranks
from tests.conformance.engine.adapters import room_bytes
from tests.conformance.engine.configs import engine_config
from tests.conformance.engine.drafter import build_drafter
from tests.conformance.engine.meta_tensors import MetaTensors

# What the engine core shares with its only worker.
SHARED = ("block_size", "mamba_block_size", "mamba_page_size_padded", "skip_page_size_padded")


class ConstructOnly(BaseModelLoader):  # type: ignore[misc]
    """Builds the model and loads nothing."""

    def download_model(self, *args: Any, **kwargs: Any) -> None: ...

    def load_weights(self, *args: Any, **kwargs: Any) -> None: ...

    def load_model(self, vllm_config: Any, model_config: Any, prefix: str = "") -> Any:
        with set_default_torch_dtype(model_config.dtype), torch.device("cuda"):
            return self.create_model(vllm_config, model_config, prefix=prefix).eval()


def _loader(load_config: Any) -> ConstructOnly:
    return ConstructOnly(load_config)


def use_construct_only() -> None:
    """Let every part of the engine that loads a model only build it."""
    name = "get_model_loader"
    setattr(loaders, name, _loader)
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("vllm") and hasattr(module, name):
            setattr(module, name, _loader)


def report(case: Mapping[str, Any], stage: int, *, values: bool) -> dict[str, Any]:
    """What the first tensor parallel rank of a pipeline stage reports.

    values: compute tensors that constructors read back.
    """
    vllm_config = engine_config(case["config"], case["engine_args"], case.get("extra_files") or {})
    sizes = vllm_config.parallel_config
    ranks_of_a_stage = sizes.tensor_parallel_size * sizes.prefill_context_parallel_size
    ranks.join(vllm_config, stage * ranks_of_a_stage)
    made: dict[str, Any] = {}
    with MetaTensors(values=values):
        runner = _build(vllm_config, made)
    # As the executors do once the model stands.
    current_platform.update_block_size_for_backend(vllm_config)
    made["specs"] = _specs(vllm_config, runner)
    made["layouts"] = Worker.get_supported_kv_cache_layouts(
        SimpleNamespace(vllm_config=vllm_config)
    )
    made |= _layers(vllm_config)
    made["cache_config"] = {name: getattr(vllm_config.cache_config, name, None) for name in SHARED}
    return made


def _build(vllm_config: Any, made: dict[str, Any]) -> Any:
    import vllm.v1.worker.gpu_worker as gpu_worker
    from vllm.v1.worker.workspace import init_workspace_manager

    lanes = 1
    if hasattr(gpu_worker, "_num_workspace_lanes"):
        lanes = gpu_worker._num_workspace_lanes(vllm_config, vllm_config.use_v2_model_runner)
    init_workspace_manager(torch.device("cuda"), 1, lanes)
    vllm_config.kernel_config.ir_op_priority.set_default()
    with set_current_vllm_config(vllm_config):
        model = _loader(vllm_config.load_config).load_model(vllm_config, vllm_config.model_config)
        stands_in = any(hasattr(module, "stands_in") for module in model.modules())
        made["weights"] = None if stands_in else tensor_bytes(model)
        drafter = None
        if vllm_config.speculative_config is not None and get_pp_group().is_last_rank:
            drafter = build_drafter(vllm_config, model)
            if hasattr(drafter, "model"):
                made["drafter_weights"] = tensor_bytes(drafter.model, beside=model)
        if vllm_config.lora_config is not None:
            made["lora_bytes"] = room_bytes(model, vllm_config)
    return SimpleNamespace(
        vllm_config=vllm_config,
        speculator=drafter,
        dcp_size=vllm_config.parallel_config.decode_context_parallel_size,
        speculative_config=vllm_config.speculative_config,
    )


def _specs(vllm_config: Any, runner: Any) -> Any:
    if vllm_config.use_v2_model_runner:
        return model_runner.GPUModelRunner.get_kv_cache_spec(runner)
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    older = SimpleNamespace(vllm_config=vllm_config, shared_kv_cache_layers={})
    return GPUModelRunner.get_kv_cache_spec(older)


def _layers(vllm_config: Any) -> dict[str, Any]:
    layers = get_layers_from_vllm_config(vllm_config, AttentionLayerBase)
    backends: dict[str, int] = {}
    shared: dict[str, str] = {}
    for name, layer in layers.items():
        backend = layer.get_attn_backend().get_name()
        backends[backend] = backends.get(backend, 0) + 1
        target = getattr(layer, "kv_sharing_target_layer_name", None)
        if target:
            shared[name] = target
    return {"backends": backends, "kv_shared_layers": shared}


def tensor_bytes(model: Any, beside: Any = None) -> dict[str, Any]:
    """Bytes of all parameters and buffers, each once, and by element type.

    beside: another model, whose tensors do not count.
    """
    others = [] if beside is None else [*beside.named_parameters(), *beside.named_buffers()]
    seen = {id(tensor) for _, tensor in others}
    by_dtype: dict[str, int] = {}
    for _, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if id(tensor) in seen:
            continue
        seen.add(id(tensor))
        dtype = str(tensor.dtype).removeprefix("torch.")
        by_dtype[dtype] = by_dtype.get(dtype, 0) + tensor.numel() * tensor.element_size()
    return {"total_bytes": sum(by_dtype.values()), "by_dtype": by_dtype}
