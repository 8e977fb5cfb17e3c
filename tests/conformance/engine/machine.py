"""The machine around the engine: posed once, before the engine is first imported.

Posed are: the card (PyTorch's queries, the driver's library, the compiled operators' capability
queries), 64 such cards on one node, packages and extensions that are not installed, process
groups without other ranks, tensors without storage. Model classes are inspected in this process,
not in a child. Not posed: any rule of the engine.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from tests.conformance.engine.card import Card

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_PLUGINS": "",
    "OMP_NUM_THREADS": "1",
    # The container image's state: FlashInfer's kernels are precompiled.
    "VLLM_HAS_FLASHINFER_CUBIN": "1",
}


def pose(card: Card, scratch: str) -> None:
    """Make this process a machine with such cards. scratch: a folder for the engine's cache."""
    for name, value in {**ENVIRONMENT, "VLLM_CACHE_ROOT": scratch}.items():
        os.environ.setdefault(name, value)
    from tests.conformance.engine import card as cards
    from tests.conformance.engine import ranks, stub_modules

    with _hidden(stub_modules.WITHOUT_DRIVER):
        _settle_libraries()

    stub_modules.install()
    cards.pose_in_torch(card)
    cards.pose_operators()
    cards.pose_in_driver(card)

    import vllm.platforms as platforms
    import vllm.platforms.cuda as cuda

    platform = platforms.current_platform
    cuda._cuda_device_count_stateless = lambda *args, **kwargs: cards.NUM_CARDS
    if not platform.is_cuda() or tuple(platform.get_device_capability()) != card.capability:
        raise RuntimeError(f"the engine does not believe in the card: {platform!r}")
    ranks.pose()

    import vllm.model_executor.models.registry as registry

    registry._run_in_subprocess = lambda function: function()
    logging.getLogger("vllm").propagate = False


@contextlib.contextmanager
def _hidden(names: Iterable[str]) -> Iterator[None]:
    """Packages that may not be imported for now."""
    hidden: dict[str, Any] = dict.fromkeys(names)
    sys.modules.update(hidden)
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def _settle_libraries() -> None:
    """Import what must see the true machine, before the card is posed."""
    import transformers.utils.import_utils as available

    for name in ("torchvision", "torchaudio", "triton", "numba", "torchcodec"):
        with contextlib.suppress(Exception):
            getattr(available, f"is_{name}_available")()
    import torch._dynamo
    import torch._inductor.config
    import torch._inductor.utils

    with contextlib.suppress(Exception):
        import torch._inductor.runtime.triton_heuristics  # noqa: F401
