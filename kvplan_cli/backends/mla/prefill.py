"""Whether any kernel computes a dense latent model's prompts.

It decides no byte of the cache, but the engine refuses where there is none.
Source: vLLM 0.33.0 ``vllm/v1/attention/backends/mla/prefill/*.py`` and
``vllm/platforms/interface.py:get_mla_prefill_backend_cls``.
"""

from __future__ import annotations

from typing import Final

from kvplan_cli.backends.facts import Facts
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.backends.scope import BuildScope
from kvplan_cli.dtypes import DType
from kvplan_cli.models.shape import MLALayer
from kvplan_cli.values import dataclass

# Sizes of an unfolded head: without rotary part, rotary part, value.
Dims = tuple[int, int, int]
_R1: Final = (128, 64, 128)
_WIDE: Final = (192, 64, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernels:
    """name: the engine's. dims: sizes that it computes. listed: its refusal names them."""

    name: str
    dims: tuple[Dims, ...]
    listed: bool = True


_FLASH_ATTN: Final = _Kernels(
    name="FLASH_ATTN",
    dims=(_R1, _WIDE, (64, 64, 128), (256, 0, 256)),
    listed=False,
)
_FLASHINFER: Final = _Kernels(name="FLASHINFER", dims=(_R1,))
_TRTLLM: Final = _Kernels(name="TRTLLM_RAGGED", dims=(_R1, _WIDE))
_TOKENSPEED: Final = _Kernels(name="TOKENSPEED_MLA", dims=(_R1,))


def check_prefill(scope: BuildScope, layer: MLALayer) -> None:
    """Refuse head sizes or a dtype that no kernel computes prompts of."""
    dims = (layer.qk_nope_head_dim, layer.qk_rope_head_dim, layer.v_head_dim)
    dtype = scope.settings.dtype
    reasons: dict[str, list[str]] = {}
    for kernels in _priorities(scope.facts, dims):
        reasons[kernels.name] = _objections(kernels, dims, dtype)
        if not reasons[kernels.name]:
            return
    shown = ", ".join(f"{name}: [{', '.join(words)}]" for name, words in reasons.items())
    raise model_refusal(
        "ValueError",
        "No valid MLA prefill backend found with MLAPrefillSelectorConfig("
        f"dtype=torch.{dtype.torch_name}, mla_dimensions={_shown(dims)}). "
        f"Reasons: {{{shown}}}.",
    )


def _priorities(facts: Facts, dims: Dims) -> tuple[_Kernels, ...]:
    if facts.major != 10:
        return (_FLASH_ATTN,)
    first = (_TRTLLM, _FLASH_ATTN) if dims == _WIDE else (_FLASH_ATTN, _TRTLLM)
    return (*first, _FLASHINFER, _TOKENSPEED)


def _objections(kernels: _Kernels, dims: Dims, dtype: DType) -> list[str]:
    found = []
    if dtype not in (DType.FLOAT16, DType.BFLOAT16):
        found.append(f"dtype torch.{dtype.torch_name} not supported")
    if dims not in kernels.dims:
        words = f"Model does not have supported MLA dimensions (got {_shown(dims)}"
        if kernels.listed:
            words += f"; supported: {', '.join(map(_shown, kernels.dims))}"
        found.append(words + ")")
    return found


def _shown(dims: Dims) -> str:
    nope, rope, value = dims
    return f"(qk_nope_head_dim={nope}, qk_rope_head_dim={rope}, v_head_dim={value})"
