"""Which attention backend serves a layer.

Source: vLLM 0.33.0 ``vllm/platforms/cuda.py:_get_backend_priorities`` and
``CudaPlatformBase.get_attn_backend_cls``.
"""

from __future__ import annotations

from kvplan_cli.backends import flash_attention as flash
from kvplan_cli.backends.backend import Backend, invalid_reasons
from kvplan_cli.backends.capabilities import (
    FLASH_ATTN,
    FLASH_ATTN_DIFFKV,
    FLASHINFER,
    FLEX_ATTENTION,
    INKLING_SCONV_SWA,
    TRITON_ATTN,
    TRITON_ATTN_DIFFKV,
    TURBOQUANT,
    ULTRAQUANT,
)
from kvplan_cli.backends.composite import TRITON_FLASH_ATTN, TRITON_FLASHINFER
from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.backends.request import BackendRequest
from kvplan_cli.errors import Problem, UnplannableError

BACKENDS = {
    backend.name: backend
    for backend in (
        FLASH_ATTN,
        FLASH_ATTN_DIFFKV,
        FLASHINFER,
        FLEX_ATTENTION,
        INKLING_SCONV_SWA,
        TRITON_ATTN,
        TRITON_ATTN_DIFFKV,
        TRITON_FLASH_ATTN,
        TRITON_FLASHINFER,
        TURBOQUANT,
        ULTRAQUANT,
    )
}


def backend_named(name: str) -> Backend:
    """The backend that the engine calls ``name``; UnplannableError where kvplan has no row."""
    if name in BACKENDS:
        return BACKENDS[name]
    # Imported rarely: most models keep no latent caches.
    from kvplan_cli.backends.mla.rows import MLA_BACKENDS
    from kvplan_cli.backends.states.side_caches import SIDE_CACHES

    if name in SIDE_CACHES:
        return SIDE_CACHES[name]
    if name not in MLA_BACKENDS:
        raise UnplannableError(
            Problem(
                where="--attention-backend",
                reason=f"kvplan does not know what the attention backend {name} stores",
                way_out="known: " + ", ".join(sorted((*BACKENDS, *MLA_BACKENDS))),
            )
        )
    return MLA_BACKENDS[name]


def priorities(facts: Facts, request: BackendRequest) -> tuple[Backend, ...]:
    """The backends that the engine tries, best first."""
    if request.use_mla:
        from kvplan_cli.backends.mla.rows import mla_priorities

        return mla_priorities(facts, request)
    rest = (TRITON_ATTN, FLEX_ATTENTION, TURBOQUANT)
    if facts.major == 10 and not request.use_non_causal:
        masks = (TRITON_FLASHINFER,) if request.use_mm_prefix else ()
        return (*masks, FLASHINFER, FLASH_ATTN, *rest)
    masks = (TRITON_FLASH_ATTN,) if facts.major == 9 and request.use_mm_prefix else ()
    return (*masks, FLASH_ATTN, FLASHINFER, *rest)


def select_backend(request: BackendRequest, facts: Facts, selected: str | None) -> Backend:
    """The backend for ``request``: the user's, or the best valid one.

    Raises: EngineRefusalError where the user's is not valid or none is.
    """
    if selected is not None:
        backend = backend_named(selected)
        reasons = invalid_reasons(backend, request, facts)
        if reasons:
            raise model_refusal(
                "ValueError",
                f"Selected backend AttentionBackendEnum.{selected} is not valid for this "
                f"configuration. Reason: {list(reasons)}",
                way_out="leave --attention-backend out",
            )
        return backend
    rejected: list[str] = []
    for backend in priorities(facts, request):
        reasons = invalid_reasons(backend, request, facts)
        if not reasons:
            return backend
        rejected.append(f"{backend.name}: [{', '.join(reasons)}]")
    raise model_refusal(
        "ValueError",
        f"No valid attention backend found for cuda with {request.describe()}. "
        f"Reasons: {{{', '.join(rejected)}}}.",
    )


def diff_kv_backend(
    facts: Facts, selected: str | None, *, head_size: int, head_size_v: int, has_sink: bool
) -> Backend:
    """The backend of a layer whose keys and values differ in size.

    Source: vLLM 0.33.0 ``vllm/model_executor/models/mimo_v2.py:MiMoV2Attention``.
    """
    if selected is not None and selected.endswith("_DIFFKV"):
        return backend_named(selected)
    query = flash.VersionQuery(head_size=head_size, head_size_v=head_size_v, has_sinks=has_sink)
    usable = flash.flash_attn_version(facts, query) in (3, 4)
    return FLASH_ATTN_DIFFKV if usable else TRITON_ATTN_DIFFKV
