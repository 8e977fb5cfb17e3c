"""The engine's whole configuration from a config.json and flags."""

from __future__ import annotations

import copy
import json
import os
import re
import tempfile
from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

from vllm.config import SpeculativeConfig
from vllm.engine.arg_utils import EngineArgs
from vllm.usage.usage_lib import UsageContext

FILES = "kvplan_case_"
# A tiny model whose settings stand in for those of bare layer specs.
SMALL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "num_hidden_layers": 1,
    "vocab_size": 64,
    "max_position_embeddings": 1 << 24,
    "torch_dtype": "bfloat16",
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def model_folder(
    config: Mapping[str, Any], extra_files: Mapping[str, Any], config_name: str = "config.json"
) -> str:
    """A folder that holds the config and the files beside it."""
    folder = tempfile.mkdtemp(prefix=FILES)
    for name, content in {config_name: config, **extra_files}.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)
    return folder


def without_folders(text: str) -> str:
    """The text with each case's folder named MODEL, as the vectors have it."""
    return re.sub(re.escape(tempfile.gettempdir()) + r"/[\w./-]+", "MODEL", text)


def engine_config(
    config: Mapping[str, Any], flags: Mapping[str, Any], extra_files: Mapping[str, Any]
) -> Any:
    """What the engine makes of the flags; raises what the engine raises.

    A drafter's config may stand in ``speculative_config``'s ``model``, or ``__target__`` for the
    target's own folder.
    """
    flags = dict(flags)
    usage = UsageContext[flags.pop("usage_context", "OPENAI_API_SERVER")]
    own_format = flags.get("config_format") == "mistral"
    folder = model_folder(config, extra_files, "params.json" if own_format else "config.json")
    drafter = flags.get("speculative_config")
    if isinstance(drafter, dict):
        model = drafter.get("model")
        if isinstance(model, dict):
            model = model_folder(model, {})
        elif model == "__target__":
            model = folder
        flags["speculative_config"] = drafter | ({} if model is None else {"model": model})
    fixed = {"skip_tokenizer_init": True, "load_format": "dummy", "trust_remote_code": False}
    return EngineArgs(**{"model": folder, **fixed, **flags}).create_engine_config(
        usage_context=usage
    )


@cache
def _small() -> Any:
    return engine_config(SMALL, {}, {})


def planner_config(given: Mapping[str, Any]) -> Any:
    """The configuration of a planner case: a small model's, with the case's settings."""
    made = copy.deepcopy(_small())
    model, cache_, parallel = made.model_config, made.cache_config, made.parallel_config
    scheduler = made.scheduler_config
    model.max_model_len = given["max_model_len"]
    model.original_max_model_len = given.get("original_max_model_len", model.max_model_len)
    for name in ("max_num_batched_tokens", "max_num_seqs", "async_scheduling"):
        if name in given:
            setattr(scheduler, name, given[name])
    scheduler.max_num_encoder_input_tokens = given.get(
        "max_num_encoder_input_tokens", scheduler.max_num_batched_tokens
    )
    scheduler.disable_hybrid_kv_cache_manager = given.get("disable_hybrid_kv_cache_manager", False)
    for short, name in (
        ("tp", "tensor_parallel_size"),
        ("pp", "pipeline_parallel_size"),
        ("dcp", "decode_context_parallel_size"),
        ("pcp", "prefill_context_parallel_size"),
    ):
        setattr(parallel, name, given.get(short, 1))
    cache_.num_gpu_blocks_override = given.get("num_gpu_blocks_override")
    cache_.block_size = given.get("block_size", 16)
    cache_.kv_cache_layout = given.get("layout")
    for name in ("enable_prefix_caching", "mamba_cache_mode", "prefix_match_unit"):
        if name in given:
            setattr(cache_, name, given[name])
    if given.get("speculative"):
        object.__setattr__(made, "speculative_config", speculative_config(given["speculative"]))
    return made


def speculative_config(given: Mapping[str, Any]) -> Any:
    """The engine's own methods on a drafter's settings, without a drafter."""
    settings: dict[str, Any] = {
        "method": None,
        "num_speculative_tokens": None,
        "disable_eagle_block_drop": False,
        "disable_lookahead_block_hashes": False,
        "parallel_drafting": False,
        "draft_model_config": None,
        "use_heterogeneous_vocab": False,
    }
    settings |= {key: value for key, value in given.items() if key != "num_nextn_predict_layers"}
    modules = given.get("num_nextn_predict_layers")
    if modules is not None:
        settings["draft_model_config"] = SimpleNamespace(
            hf_config=SimpleNamespace(num_nextn_predict_layers=modules, model_type=""),
            architectures=[],
        )
    made = object.__new__(SpeculativeConfig)
    made.__dict__.update(settings)
    return made
