"""A drafter's layers, built by the engine's own speculator."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from vllm.v1.worker.gpu import model_runner
from vllm.v1.worker.gpu.spec_decode import init_speculator
from vllm.v1.worker.gpu.spec_decode.speculator import DraftModelSpeculator


class _Requests:
    """Request state; only lookups in the prompt read it."""

    def __getattr__(self, name: str) -> None:
        return None


class _MadeError(Exception):
    """Carries a speculator out of its constructor, before it allocates."""


def build_drafter(vllm_config: Any, model: Any) -> Any:
    """The speculator with its drafter's layers registered beside the model's."""
    speculator = _speculator(vllm_config)
    settings = vllm_config.speculative_config
    # Releases up to 0.32 have no such question.
    asks = getattr(model_runner, "requires_aux_hidden_states", None)
    if asks is not None and asks(settings):
        pipelined = vllm_config.parallel_config.pipeline_parallel_size > 1
        # Models without such outputs say so; their layers' cache is the same.
        with contextlib.suppress(Exception):
            model_runner.set_eagle3_aux_hidden_state_layers(model, settings, pipelined)
    if isinstance(speculator, DraftModelSpeculator):
        speculator.load_model(model)
    return speculator


def _speculator(vllm_config: Any) -> Any:
    try:
        return init_speculator(vllm_config, torch.device("cuda"), _Requests())
    except Exception:
        return _without_buffers(vllm_config)


def _without_buffers(vllm_config: Any) -> Any:
    """The same where its buffers cannot be made without storage: settings alone."""
    made: list[Any] = []
    real = DraftModelSpeculator.__init__

    def settings_alone(self: Any, vllm_config: Any, device: Any, *args: Any, **kwargs: Any) -> None:
        speculative = vllm_config.speculative_config
        self.vllm_config, self.device = vllm_config, device
        self.speculative_config = speculative
        self.method = speculative.method
        self.num_speculative_steps = speculative.num_speculative_tokens
        self.draft_model_config = speculative.draft_model_config
        self.scheduler_config = vllm_config.scheduler_config
        self.max_num_reqs = vllm_config.scheduler_config.max_num_seqs
        self.max_num_tokens = vllm_config.scheduler_config.max_num_batched_tokens
        self.hidden_size = speculative.draft_model_config.get_hidden_size()
        self.vocab_size = speculative.draft_model_config.get_vocab_size()
        self.dtype = vllm_config.model_config.dtype
        self.use_local_argmax_reduction = getattr(speculative, "use_local_argmax_reduction", False)
        self.dcp_size = vllm_config.parallel_config.decode_context_parallel_size
        self.use_acceptance_estimator, self.eplb_state = False, None
        made.append(self)
        raise _MadeError

    DraftModelSpeculator.__init__ = settings_alone
    try:
        with contextlib.suppress(_MadeError):
            init_speculator(vllm_config, torch.device("cuda"), _Requests())
    finally:
        DraftModelSpeculator.__init__ = real
    return made[0]
