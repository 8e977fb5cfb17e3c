"""Ranks of one node that never speak to each other: only the asked rank exists."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist


class NoCommunicator:
    """Stands where the engine expects a device communicator."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.disabled = True
        self.all2all_manager = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def pose() -> None:
    """Groups of any size exist without their other ranks."""
    import vllm.platforms as platforms

    real = dist.new_group

    def new_group(ranks: Any = None, *args: Any, backend: Any = None, **kwargs: Any) -> Any:
        return real(ranks, backend="fake")

    dist.new_group = new_group
    path = f"{__name__}.{NoCommunicator.__name__}"
    cls = platforms.current_platform.__class__
    cls.get_device_communicator_cls = classmethod(lambda cls: path)


def start(world: int, rank: int) -> None:
    """Be one rank of a world of ranks."""
    import vllm.distributed.device_communicators.shm_broadcast as shared_memory
    import vllm.distributed.parallel_state as state
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group(backend="fake", rank=rank, world_size=world, store=FakeStore())
    state.in_the_same_node_as = lambda group, source_rank=0: [True] * dist.get_world_size(group)
    state._node_count = lambda group: 1
    shared_memory.MessageQueue.create_from_process_group = staticmethod(lambda *a, **k: None)


def join(vllm_config: Any, rank: int) -> None:
    """Build the engine's own groups around this rank."""
    import vllm.distributed.parallel_state as state
    from vllm.config import set_current_vllm_config

    sizes = vllm_config.parallel_config
    tp, pp = sizes.tensor_parallel_size, sizes.pipeline_parallel_size
    pcp, dcp = sizes.prefill_context_parallel_size, sizes.decode_context_parallel_size
    world = tp * pp * pcp * sizes.data_parallel_size
    sizes.rank = rank
    start(world, rank)
    with set_current_vllm_config(vllm_config):
        state.init_distributed_environment(world, rank, "fake://", 0, "fake")
        state.ensure_model_parallel_initialized(tp, pp, pcp, dcp)
