"""Tensors without storage in place of the card's."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors


class MetaTensors(TorchFunctionMode):  # type: ignore[misc]
    """Within this mode whatever would stand on the card stands on the meta device.

    values: tensors that carry values are computed on the CPU, for constructors that read them
    back (slopes, scales); only uninitialised ones stay without storage.
    """

    def __init__(self, *, values: bool = False) -> None:
        super().__init__()
        self.values = values
        self.constructors = _device_constructors()
        self.uninitialised = {
            torch.empty,
            torch.empty_strided,
            torch.empty_permuted,
            torch.empty_like,
            torch.rand,
            torch.randn,
        }
        # What fills a weight before it is loaded is seen by nobody.
        self.random = {torch.Tensor.uniform_, torch.Tensor.normal_, torch.Tensor.erfinv_}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        with_values = self.values and func not in self.uninitialised
        target = torch.device("cpu" if with_values else "meta")
        if "device" in kwargs:
            kwargs["device"] = _placed(kwargs["device"], target)
        kwargs.pop("pin_memory", None)
        if func in self.constructors and kwargs.get("device") is None:
            # The drop rates of timm's layers are read back one by one.
            kwargs["device"] = torch.device("cpu") if func is torch.linspace else target
        if func is torch.Tensor.cuda:
            return args[0] if self.values else args[0].to(target)
        if func is torch.equal and any(tensor.is_meta for tensor in args):
            # Only a drafter's own copies are asked for; they hold weights, never a cache.
            return False
        if func is torch.Tensor.pin_memory or func in self.random:
            return args[0]
        if func is torch.Tensor.to and len(args) > 1:
            devices = torch.device | str
            args = (
                args[0],
                *(_placed(a, target) if isinstance(a, devices) else a for a in args[1:]),
            )
        return func(*args, **kwargs)


def _placed(device: Any, target: torch.device) -> Any:
    is_index = isinstance(device, int) and not isinstance(device, bool)
    return target if is_index or str(device).startswith("cuda") else device
