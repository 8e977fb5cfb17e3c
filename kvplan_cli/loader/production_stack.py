"""The values of vLLM production-stack's chart: the serve command that it makes of a model.

Source: production-stack ``helm/templates/deployment-vllm-multi.yaml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

# In the chart's order; each is given where its key is there.
_FLAGS: Final = (
    ("maxModelLen", "--max-model-len"),
    ("dtype", "--dtype"),
    ("tensorParallelSize", "--tensor-parallel-size"),
    ("maxNumSeqs", "--max-num-seqs"),
    ("gpuMemoryUtilization", "--gpu-memory-utilization"),
    ("maxLoras", "--max-loras"),
)
_CONNECTOR: Final = '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'


def is_model_spec(value: Mapping[str, Any]) -> bool:
    """Whether a mapping is an entry of ``servingEngineSpec.modelSpec``."""
    return isinstance(value.get("modelURL"), str)


def model_spec_image(value: Mapping[str, Any]) -> str | None:
    """The image that an entry names."""
    repository, tag = value.get("repository"), value.get("tag")
    return f"{repository}:{tag}" if isinstance(repository, str) and tag is not None else None


def model_spec_words(value: Mapping[str, Any]) -> list[str]:
    """``vllm serve`` and what the chart puts behind it, as far as a plan may feel it."""
    words = ["vllm", "serve", value["modelURL"]]
    if value.get("enableLoRA"):
        words.append("--enable-lora")
    config = value.get("vllmConfig")
    if isinstance(config, Mapping) and config:
        words += _config_words(config)
    cache = value.get("lmcacheConfig")
    if isinstance(cache, Mapping) and cache.get("enabled"):
        words += ["--kv-transfer-config", _CONNECTOR]
    return words


def _config_words(config: Mapping[str, Any]) -> Iterator[str]:
    if "enableChunkedPrefill" in config:
        yield _switch("enable-chunked-prefill", config["enableChunkedPrefill"])
    # The chart switches it off unless it is asked for.
    yield _switch("enable-prefix-caching", config.get("enablePrefixCaching"))
    for key, option in _FLAGS:
        if key in config:
            yield from (option, str(config[key]))
    extra = config.get("extraArgs")
    yield from (str(word) for word in extra) if isinstance(extra, list) else ()


def _switch(name: str, value: Any) -> str:
    return f"--{name}" if value else f"--no-{name}"
