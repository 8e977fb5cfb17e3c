"""What every layer's construction reads: the model, the settings, the card, the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from kvplan_cli.backends.attention_config import AttentionConfig
from kvplan_cli.backends.backend import Backend
from kvplan_cli.backends.block_size import StageBlocks
from kvplan_cli.backends.facts import CurrentConfig, Facts
from kvplan_cli.backends.refusals import model_refusal
from kvplan_cli.backends.request import BackendRequest
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.shape import ModelShape
from kvplan_cli.models.text import text_config
from kvplan_cli.settings.quantization import HF_QUANT_CONFIG
from kvplan_cli.settings.resolved import ResolvedSettings
from kvplan_cli.specs import KVCacheSpec
from kvplan_cli.values import dataclass


class LayerStorage(Protocol):
    """A layer's backend, and the spec that follows from it once block sizes are known."""

    @property
    def backend(self) -> Backend:
        """What reads the cache."""

    def spec(self, blocks: StageBlocks, facts: Facts) -> KVCacheSpec | None:
        """The layer's spec; None where it keeps no cache of its own.

        facts: without the engine's config, which is not in scope when specs are collected.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildScope:
    """The engine's config while it builds a model.

    skipped: layer indices and kinds left out of KV quantization. quantization: the
    checkpoint's quantization config, empty where it has none. language_model_only: the
    deployment takes text only.
    """

    shape: ModelShape
    settings: ResolvedSettings
    facts: Facts
    attention: AttentionConfig
    skipped: frozenset[str]
    quantization: Mapping[str, Any]
    language_model_only: bool = False

    @property
    def config(self) -> CurrentConfig:
        """The engine's config as attention backends read it."""
        assert self.facts.config is not None, "the engine builds models with its config in scope"
        return self.facts.config

    def plain_request(self, head_size: int) -> BackendRequest:
        """What any layer with states of ``head_size`` elements asks of its backend."""
        return BackendRequest(
            head_size=head_size,
            dtype=self.settings.dtype,
            kv_cache_dtype=self.settings.cache_dtype,
            block_size=self.settings.block_size,
            use_non_causal=self.attention.use_non_causal,
            use_batch_invariant=self.facts.batch_invariant,
            use_pcp=self.settings.prefill_context_parallel_size > 1,
            use_dcp=self.settings.decode_context_parallel_size > 1,
            use_rswa=self.config.rswa,
        )

    @property
    def kv_cache_scheme(self) -> Mapping[str, Any]:
        """What a compressed-tensors checkpoint says of its KV scales."""
        scheme = self.quantization.get("kv_cache_scheme")
        compressed = self.settings.quantization == "compressed-tensors"
        return scheme if compressed and isinstance(scheme, Mapping) else {}

    def check_scales(self, kv_cache_dtype: str) -> None:
        """FP8 checkpoints may hold KV scales, which float8_e5m2 has no use for."""
        if kv_cache_dtype == "fp8_e5m2" and self._holds_scales():
            raise model_refusal(
                "ValueError", "fp8_e5m2 kv-cache is not supported with fp8 checkpoints."
            )

    def _holds_scales(self) -> bool:
        method = self.settings.quantization or ""
        if method == "modelopt_mixed":
            inner = self.quantization.get("quantization")
            parts = (self.quantization, inner if isinstance(inner, Mapping) else {})
            keys = ("kv_cache_quant_algo", "kv_cache_scheme")
            return any(part.get(key) for part in parts for key in keys)
        return method == "fp8" or method.startswith("modelopt") or bool(self.kv_cache_scheme)


def quantization_config(
    config: HfConfig, extra_files: Mapping[str, Mapping[str, Any]] | None = None
) -> Mapping[str, Any]:
    """The checkpoint's quantization config, empty where it has none.

    extra_files: files beside the config, by name; asked where the config says nothing.
    """
    for part in (config, text_config(config)):
        for key in ("quantization_config", "compression_config"):
            value = part.raw(key)
            if isinstance(value, Mapping):
                return value
    return (extra_files or {}).get(HF_QUANT_CONFIG, {})


def layer_index(name: str) -> int:
    """The layer's number in its name. Source: ``models/utils.py:extract_layer_index``."""
    numbers = [int(part) for part in name.split(".") if part.isdecimal()]
    if len(numbers) != 1:
        raise model_refusal("AssertionError", f"layer name {name} should only contain one integer")
    return numbers[0]
