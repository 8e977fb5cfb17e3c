"""Cases of whole models: a config and flags in, the engine's start-up figures out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kvplan_cli.engine_args import EngineArgs, UsageContext
from kvplan_cli.engine_rules import DrafterRule, engine_rules
from kvplan_cli.errors import EngineRefusalError, MissingFieldError
from kvplan_cli.gpus import Gpu
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.loader.class_defaults import with_class_defaults
from kvplan_cli.loader.draft_model import DRAFT_PLACE, completed_draft
from kvplan_cli.loader.mistral_format import adapted
from kvplan_cli.planner.plan import plan
from kvplan_cli.planner.results import Plan
from kvplan_cli.resolution import ResolvedModel, planner_settings, resolve
from tests.conformance.compare import differences, groups_mapping, only, spec_runs
from tests.conformance.plan_cases import NOT_PLANNED, per_worker

# Settings under their names in the vectors. Not compared, for they touch no byte of the cache:
# the executor, and the CUDA graph mode.
RESOLVED_NAMES = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "dcp": "decode_context_parallel_size",
    "pcp": "prefill_context_parallel_size",
    "ep": "enable_expert_parallel",
}
RESOLVED_IGNORED = frozenset({"executor", "cudagraph_mode"})
_COUNTED = frozenset({"num_blocks", "kv_tp_replicas", "total_kv_bytes", "worker_num_blocks"})
CASE_KEYS = frozenset(
    {
        "resolved",
        "per_worker_layers",
        "kv_shared_layers",
        "supported_layouts",
        "backends",
        "block_size",
        "global_groups",
        "results",
        "refused",
    }
)
INPUTS = frozenset({"name", "source", "config", "extra_files", "env", "engine_args", "vllm", "gpu"})
# Weights are proved in tests/memory; the log's figures stand in the other keys.
ELSEWHERE = frozenset(
    {
        "weights_bytes",
        "weights_by_dtype",
        "weights_after_processing",
        "drafter_weights_bytes",
        "config_log",
    }
)


def run_model_case(case: Mapping[str, Any]) -> list[str]:
    """Every difference of one case."""
    only(case, CASE_KEYS, INPUTS | ELSEWHERE, "a model case")
    args = engine_args_of(case)
    gpu = gpu_of(case)
    try:
        model = resolve_case(case, args, gpu)
    except EngineRefusalError as error:
        actual: dict[str, Any] = {"refused": refusal_mapping(error, case.get("refused", {}))}
        return differences(_wanted(case), actual)
    if "refused" in case:
        return [f"refused: expected {case['refused']}, got a plan"]
    model = _as_stored(model)
    lines = differences(_wanted(case), _in_release(_model_mapping(model, case), case))
    settings = planner_settings(model, args)
    for index, expected in enumerate(case["results"]):
        outcome = plan(model.backends.stages, expected["available_memory"], settings)
        lines += _result_differences(case, expected, outcome, model, settings, index)
    return lines


# Fields of specs that came after a release.
_LATER_FIELDS = {"0.32.0": frozenset({"is_draft", "topk_buffer_width"})}


def _as_stored(model: ResolvedModel) -> ResolvedModel:
    """The model without drafters' marks on its layers, where the release has none."""
    if model.rules.drafter_rule is DrafterRule.BY_LAYER:
        return model
    stages = tuple(
        {name: replace(spec, is_draft=False) for name, spec in stage.items()}
        for stage in model.backends.stages
    )
    return replace(model, backends=replace(model.backends, stages=stages))


def _in_release(value: Any, case: Mapping[str, Any]) -> Any:
    """A mapping without the fields that came after the case's release."""
    later = _LATER_FIELDS.get(case["vllm"])
    if later is None:
        return value
    if isinstance(value, Mapping):
        return {key: _in_release(item, case) for key, item in value.items() if key not in later}
    return [_in_release(item, case) for item in value] if isinstance(value, list) else value


def _wanted(case: Mapping[str, Any]) -> dict[str, Any]:
    wanted = {key: case[key] for key in CASE_KEYS if key in case and key != "results"}
    if "resolved" in wanted:
        wanted["resolved"] = {
            key: value for key, value in case["resolved"].items() if key not in RESOLVED_IGNORED
        }
    if "refused" in wanted:
        wanted["refused"] = {
            key: value for key, value in normal_refusal(case["refused"]).items() if key != "pp_rank"
        }
    return wanted


def config_of(case: Mapping[str, Any]) -> dict[str, Any]:
    """The case's config.json; Mistral's own file as the engine reads it."""
    if case["engine_args"].get("config_format") == "mistral":
        return adapted(case["config"], "params.json")
    return dict(case["config"])


def engine_args_of(case: Mapping[str, Any]) -> EngineArgs:
    """The case's flags as EngineArgs."""
    flags = dict(case["engine_args"])
    if "usage_context" in flags:
        flags["usage_context"] = UsageContext[flags["usage_context"]]
    if "kv_cache_dtype_skip_layers" in flags:
        flags["kv_cache_dtype_skip_layers"] = tuple(flags["kv_cache_dtype_skip_layers"])
    flags.pop("config_format", None)
    drafter = dict(flags.get("speculative_config") or {})
    if drafter.get("model") == "__target__":
        flags["speculative_config"] = {**drafter, "model": case["config"]}
        flags["draft_files"] = case["extra_files"]
    return EngineArgs(**flags, env=case["env"])


def gpu_of(case: Mapping[str, Any]) -> Gpu:
    """The card that the engine was posed on."""
    gpu = case["gpu"]
    major, minor = gpu["capability"]
    return Gpu(name=gpu["name"], capability=(major, minor), total_memory_bytes=gpu["total_memory"])


def resolve_case(case: Mapping[str, Any], args: EngineArgs, gpu: Gpu) -> ResolvedModel:
    """Resolve the case as the service does: class defaults only when a field is missing."""
    config, rules = config_of(case), engine_rules(case["vllm"])
    for _ in range(2):
        try:
            return resolve(HfConfig(config), case["extra_files"], args, gpu, rules)
        except MissingFieldError as error:
            if error.origin == DRAFT_PLACE:
                args = completed_draft(args)
            else:
                config, _origins = with_class_defaults(config)
    return resolve(HfConfig(config), case["extra_files"], args, gpu, rules)


def normal_refusal(refused: Mapping[str, Any]) -> dict[str, Any]:
    """A refusal without what wraps it: pydantic's frame, the worker's class prefix."""
    normal = dict(refused)
    message = refused["message"]
    framed = re.search(r"(?:Value error|Assertion failed), (.*?) \[type=", message, re.DOTALL)
    field = re.match(r"1 validation error for \w+\n(\w+)\n  (.*?) \[type=", message, re.DOTALL)
    if framed:
        normal["message"] = framed.group(1)
    elif field:
        normal["message"] = f"{field.group(1)}: {field.group(2)}"
    elif refused["stage"] == "model_error":
        error_type, _, rest = message.partition(": ")
        normal |= {"type": error_type, "message": rest}
    return normal


def refusal_mapping(error: EngineRefusalError, expected: Mapping[str, Any]) -> dict[str, Any]:
    """A predicted refusal in the vectors' form."""
    return {"stage": error.stage, "type": error.error_type, "message": error.message}


def _model_mapping(model: ResolvedModel, case: Mapping[str, Any]) -> dict[str, Any]:
    backends = model.backends
    return {
        "resolved": _resolved_mapping(model, case["resolved"]),
        "per_worker_layers": [
            spec_runs(stage, case["per_worker_layers"][i])
            for i, stage in enumerate(backends.stages)
        ],
        "kv_shared_layers": [dict(stage) for stage in backends.kv_shared_layers],
        "supported_layouts": [
            [layout.value for layout in stage] for stage in backends.supported_layouts
        ],
        "backends": [dict(stage) for stage in backends.backends],
        "block_size": backends.block_size,
        "global_groups": _groups(model, case),
    }


def _resolved_mapping(model: ResolvedModel, expected: Mapping[str, Any]) -> dict[str, Any]:
    mapping = {}
    for key in expected:
        if key in RESOLVED_IGNORED:
            continue
        value = getattr(model.settings, RESOLVED_NAMES.get(key, key))
        mapping[key] = _encoded(key, value)
    return mapping


def _encoded(key: str, value: Any) -> Any:
    if key == "dtype":
        return f"torch.{value.torch_name}"
    if key == "attention_backend":
        return "None" if value is None else f"AttentionBackendEnum.{value}"
    if key == "block_size":
        return 16 if value is None else value
    if key == "runner_type":
        return value.value
    return value


def _groups(model: ResolvedModel, case: Mapping[str, Any]) -> Any:
    args = engine_args_of(case)
    outcome = plan(
        model.backends.stages,
        case["results"][0]["available_memory"],
        planner_settings(model, args),
    )
    return groups_mapping(outcome.groups, case["global_groups"])


def _result_differences(
    case: Mapping[str, Any],
    expected: Mapping[str, Any],
    outcome: Any,
    model: ResolvedModel,
    settings: Any,
    index: int,
) -> list[str]:
    actual: dict[str, Any] = {
        "layout": None if outcome.layout is None else outcome.layout.value,
        "max_model_len": outcome.max_model_len
        if isinstance(outcome, Plan)
        else settings.max_model_len,
        "max_in_flight_tokens": settings.max_in_flight_tokens,
        "max_concurrent_batches": settings.max_concurrent_batches,
        "num_prefill_lookahead_tokens": settings.num_prefill_lookahead_tokens,
        "warnings": [warning.message for warning in outcome.warnings],
        "total_kv_bytes": [],
        "worker_num_blocks": [],
    }
    if "per_worker" in expected:
        actual["per_worker"] = per_worker(outcome, model.backends.stages, settings)
    if isinstance(outcome, Plan):
        actual |= {
            "num_blocks": outcome.num_blocks,
            "kv_tp_replicas": outcome.kv_tp_replicas,
            "kv_cache_size_tokens": outcome.kv_cache_size_tokens,
            "kv_cache_max_concurrency": outcome.max_concurrency,
            "scheduler_block_size": outcome.scheduler_block_size,
            "hash_block_size": outcome.hash_block_size,
            "total_kv_bytes": [w.allocated_bytes for w in outcome.workers],
            "worker_num_blocks": [w.num_blocks for w in outcome.workers],
        }
    else:
        actual["error"] = {"type": outcome.error_type, "message": outcome.message}
    wanted = {key: value for key, value in expected.items() if key not in NOT_PLANNED}
    # The engine says which runner it has whenever it asks; compared as use_v2_model_runner.
    wanted["warnings"] = [
        line.split(": ", 1)[1]
        for line in wanted["warnings"]
        if line.startswith("WARNING") and "Model Runner V2 does not yet support" not in line
    ]
    if "error" in wanted:
        # Some refusals were printed with the engine's traceback beside their words.
        wanted["error"] = {key: wanted["error"][key] for key in ("type", "message")}
        # Some checks come when the blocks are counted: of such a start nothing else remains.
        wanted = {key: value for key, value in wanted.items() if key not in _COUNTED}
        actual = {key: value for key, value in actual.items() if key not in _COUNTED}
    if "per_worker" in wanted:
        wanted["per_worker"] = [
            {key: value for key, value in worker.items() if key not in NOT_PLANNED}
            for worker in wanted["per_worker"]
        ]
    return differences(wanted, _in_release(actual, case), f"results[{index}]")
