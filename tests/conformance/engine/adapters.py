"""What the engine sets aside for LoRA adapters, on a model built without storage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from vllm.lora.layers.base import BaseLayerWithLoRA
from vllm.lora.worker_manager import LRUCacheWorkerLoRAManager
from vllm.model_executor.layers.fused_moe import MoERunner

# Parts of a module's other tensors, of which it keeps lists.
_VIEWS = frozenset({"lora_a_stacked_2d"})
_VIEWS_OF_EXPERTS = frozenset({"lora_a_stacked", "lora_b_stacked"})


def room_bytes(model: Any, vllm_config: Any) -> int:
    """Wraps ``model`` as a worker does once its weights are loaded; bytes of what is new."""
    for module in model.modules():
        if isinstance(module, MoERunner):
            _choose_kernel(module)
    seen = {id(tensor) for module in model.modules() for _, tensor in _tensors(module)}
    manager = LRUCacheWorkerLoRAManager(vllm_config, torch.device("cuda"), model.embedding_modules)
    manager.create_lora_manager(model, vllm_config)
    total = 0
    for module in model.modules():
        if not isinstance(module, BaseLayerWithLoRA):
            continue
        views = _VIEWS | (_VIEWS_OF_EXPERTS if hasattr(module, "w13_lora_a_stacked") else set())
        for name, tensor in _tensors(module):
            if name in views or id(tensor) in seen:
                continue
            seen.add(id(tensor))
            total += tensor.numel() * tensor.element_size()
    return total


def _choose_kernel(runner: Any) -> None:
    """The kernel that the experts get with their weights."""
    method = runner.routed_experts.quant_method
    if method.moe_kernel is None:
        method.process_weights_after_loading(runner.routed_experts)


def _tensors(module: Any) -> Iterator[tuple[str, torch.Tensor]]:
    for values in (vars(module), module._parameters, module._buffers):
        for name, value in values.items():
            for each in value if isinstance(value, tuple | list) else (value,):
                if isinstance(each, torch.Tensor):
                    yield name, each
