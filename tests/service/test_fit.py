"""The use case as the command line and the Python API call it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan_cli.errors import EngineRefusalError, ExitCode, InputError, KvplanError
from kvplan_cli.planner.results import Plan, Refusal, RefusalKind
from kvplan_cli.results import FitRequest, FitResult, Verdict
from kvplan_cli.service import fit
from kvplan_cli.units import GIB


def ask(model: str = "llama-3.1-8b", **asked: Any) -> FitResult:
    return fit(FitRequest(model=model, **asked))


def planned(result: FitResult) -> Plan:
    assert isinstance(result.likely, Plan)
    return result.likely


def test_known_memory_is_certain() -> None:
    result = ask(kv_mem_bytes=(40 * GIB,))
    plan = planned(result)
    # 32 layers x 64 KiB a block, as the engine's vector of this model says.
    assert (plan.num_blocks, plan.kv_cache_size_tokens) == (20_480, 327_680)
    assert result.low is result.likely is result.high
    assert (result.verdict, result.exit_code) == (Verdict.FITS, ExitCode.FITS)
    assert result.budgets == ()
    assert result.gpu_assumed


def test_one_value_a_stage_and_one_a_rank() -> None:
    flags = {"pipeline_parallel_size": 2, "tensor_parallel_size": 2}
    by_stage = ask(flags=flags, kv_mem_bytes=(20 * GIB, 16 * GIB))
    by_rank = ask(flags=flags, kv_mem_bytes=(30 * GIB, 20 * GIB, 16 * GIB, 17 * GIB))
    assert [e.likely for e in by_rank.available] == [20 * GIB, 16 * GIB]
    assert planned(by_rank) == planned(by_stage)
    assert planned(by_rank).limiting_worker == 1
    with pytest.raises(InputError, match="3 values for 2 pipeline stages of 2 ranks"):
        ask(flags=flags, kv_mem_bytes=(GIB, GIB, GIB))


def test_pinned_bytes_skip_the_ladder() -> None:
    result = ask(gpu="h100", flags={"kv_cache_memory_bytes": 40 * GIB})
    assert result.budgets == ()
    assert planned(result).num_blocks == 20_480


def test_memory_must_be_known_and_not_twice() -> None:
    with pytest.raises(InputError, match="nothing says how much there is"):
        ask()
    with pytest.raises(InputError, match="both say what is there"):
        ask(kv_mem_bytes=(GIB,), flags={"kv_cache_memory_bytes": GIB})


def test_given_weights_replace_the_count() -> None:
    counted, given = ask(gpu="h100"), ask(gpu="h100", weights_bytes=(20 * GIB,))
    difference = counted.available[0].likely - given.available[0].likely
    weights = counted.budgets[0].lines[0].bytes_per_rank.likely
    assert difference == 20 * GIB - weights
    assert given.budgets[0].lines[0].bytes_per_rank.is_certain


def test_room_for_adapters_is_part_of_counted_weights() -> None:
    keys: dict[str, object] = {"enable_lora": True}
    plain, adapted = ask(gpu="h100"), ask(flags=keys, gpu="h100")
    ((before, after),) = [
        (one.lines[0].bytes_per_rank, other.lines[0].bytes_per_rank)
        for one, other in zip(plain.budgets, adapted.budgets, strict=True)
    ]
    room = after.low - before.low
    assert room > 0
    assert f"with {room:,} bytes for LoRA (max_loras 1, rank 16)" in after.note
    assert plain.available[0].low - adapted.available[0].low > after.high - before.high
    assert adapted.budgets[0].measure_it is None


def test_adapters_that_are_not_counted_leave_the_range_alone() -> None:
    keys: dict[str, object] = {"enable_lora": True}
    budget = ask("gpt-oss-20b", flags=keys, gpu="h100").budgets[0]
    assert budget.measure_it is not None
    assert "LoRA adapters is left out (adapters beside experts in" in budget.measure_it
    given = ask("gpt-oss-20b", flags=keys, gpu="h100", weights_bytes=(20 * GIB,))
    assert given.budgets[0].measure_it is None


def test_adapters_of_experts_are_counted() -> None:
    plain, adapted = (
        ask("qwen3-30b-a3b", flags={"enable_lora": on}, gpu="h100") for on in (False, True)
    )
    before, after = (one.budgets[0].lines[0].bytes_per_rank.low for one in (plain, adapted))
    # 48 layers of 128 experts, each with three pairs of matrices of rank 16 in bfloat16.
    assert after - before > 48 * 128 * 3 * 16 * (2048 + 768) * 2
    assert adapted.budgets[0].measure_it is None


def test_marketing_memory_is_warned_about() -> None:
    codes = {notice.code for notice in ask(gpu_mem_bytes=80 * 10**9).notices}
    assert codes == {"marketing_memory", "gpu_assumed"}
    assert not {n.code for n in ask(gpu="h100").notices} & {"marketing_memory", "gpu_assumed"}


def test_a_refusal_names_a_way_out_that_fits() -> None:
    result = ask(kv_mem_bytes=(12 * GIB,))
    assert isinstance(result.likely, Refusal)
    assert result.likely.kind is RefusalKind.REQUEST_TOO_LARGE
    assert result.exit_code is ExitCode.DOES_NOT_FIT
    assert result.way_out is not None
    length = int(result.way_out.value)
    assert length == result.longest_context == result.likely.estimated_max_model_len
    fitting = ask(kv_mem_bytes=(12 * GIB,), flags={"max_model_len": length})
    longer = ask(kv_mem_bytes=(12 * GIB,), flags={"max_model_len": length + 1})
    assert isinstance(fitting.likely, Plan)
    assert isinstance(longer.likely, Refusal)


def test_weights_that_do_not_fit_ask_for_more_ranks() -> None:
    result = ask("llama-3.1-70b", gpu="h100")
    assert isinstance(result.likely, Refusal)
    assert result.likely.kind is RefusalKind.NO_MEMORY
    assert result.way_out is not None
    assert result.way_out.flag == "--tensor-parallel-size"
    ranks = int(result.way_out.value)
    assert isinstance(
        ask("llama-3.1-70b", gpu="h100", flags={"tensor_parallel_size": ranks}).likely, Plan
    )


def test_auto_length_is_the_longest_context() -> None:
    auto = ask(kv_mem_bytes=(12 * GIB,), flags={"max_model_len": -1})
    fixed = ask(kv_mem_bytes=(12 * GIB,), flags={"max_model_len": 4096})
    assert planned(auto).max_model_len == auto.longest_context == fixed.longest_context


def test_the_engines_refusals_are_errors() -> None:
    with pytest.raises(EngineRefusalError, match="must be divisible by tensor parallel size"):
        ask(kv_mem_bytes=(GIB,), flags={"tensor_parallel_size": 3})


def test_an_estimate_that_turns_inside_its_range_depends() -> None:
    result = ask("qwen3-vl-8b", gpu="h100")
    assert result.budgets[0].measure_it
    assert result.decided_on == "low"
    assert result.verdict is Verdict.DEPENDS
    assert result.exit_code is ExitCode.DOES_NOT_FIT


def config_file(folder: Path, **changes: Any) -> str:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "num_hidden_layers": 32,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
    } | changes
    path = folder / "config.json"
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    return str(path)


def test_a_missing_field_comes_from_the_config_class_and_is_labelled(tmp_path: Path) -> None:
    result = ask(config_file(tmp_path, num_hidden_layers=None), kv_mem_bytes=(40 * GIB,))
    assert planned(result).num_blocks == 20_480
    (note,) = [notice for notice in result.notices if notice.code == "config_values"]
    assert "num_hidden_layers" in note.message
    assert "LlamaConfig" in note.message


def test_overrides_win_over_the_file(tmp_path: Path) -> None:
    path = config_file(tmp_path)
    result = ask(path, kv_mem_bytes=(40 * GIB,), hf_overrides={"num_key_value_heads": 4})
    assert planned(result).num_blocks == 40_960


def test_unknown_architectures_are_refused(tmp_path: Path) -> None:
    path = config_file(tmp_path, architectures=["NeverSeenForCausalLM"])
    with pytest.raises(KvplanError, match="not know the architecture NeverSeen") as caught:
        ask(path, kv_mem_bytes=(GIB,))
    assert caught.value.exit_code is ExitCode.CANNOT_PLAN


@pytest.mark.parametrize("depth", [10_001, 10**12])
def test_absurd_depth_is_an_error(tmp_path: Path, depth: int) -> None:
    with pytest.raises(InputError, match="at most 10,000 layers"):
        ask(config_file(tmp_path, num_hidden_layers=depth), kv_mem_bytes=(GIB,))


def plan_file(folder: Path, text: str) -> str:
    path = folder / "plan.yaml"
    path.write_text(text)
    return str(path)


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    path = plan_file(
        tmp_path,
        "model: llama-3.1-8b\nmax-model-len: 8192\nkv-mem: 10GiB\nexpect: {min-concurrency: 9}\n",
    )
    alone = ask(path)
    assert planned(alone).max_model_len == 8192
    assert {o.key: o.source for o in alone.origins}["max_model_len"].endswith("max-model-len")
    assert "expectations_not_checked" in {notice.code for notice in alone.notices}
    over = ask(path, flags={"max_model_len": 4096}, kv_mem_bytes=(20 * GIB,))
    assert planned(over).max_model_len == 4096
    assert over.available[0].likely == 20 * GIB
    card = ask(path, gpu="h100")
    assert card.budgets


LAYERS = """
layers:
  - count: 4
    spec:
      {class: FullAttentionSpec, block_size: 16, num_kv_heads: 8, head_size: 128, dtype: bfloat16}
"""


def test_layers_given_outright(tmp_path: Path) -> None:
    path = plan_file(tmp_path, LAYERS + "kv-mem: 1GiB\nmax-model-len: auto\n")
    plan = planned(ask(path))
    assert plan.num_blocks == 4096
    assert plan.max_model_len == 4095 * 16
    assert plan.kv_cache_size_tokens == int(4096 / 4095 * plan.max_model_len)


def test_given_layers_need_a_length_and_known_memory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no length limit of their own"):
        ask(plan_file(tmp_path, LAYERS + "kv-mem: 1GiB\n"))
    with pytest.raises(InputError, match="say nothing of weights"):
        ask(plan_file(tmp_path, LAYERS + "max-model-len: 4096\n"), gpu="h100")
    with pytest.raises(InputError, match="layers are given for 1"):
        ask(
            plan_file(tmp_path, LAYERS + "kv-mem: 1GiB\nmax-model-len: 4096\n"),
            flags={"pipeline_parallel_size": 2},
        )


def _items(model: str, **flags: object) -> list[str]:
    result = ask(model, kv_mem_bytes=(40 * GIB,), flags=flags)
    return [note.message for note in result.notices if note.code == "item_exceeds_batch"]


def test_a_step_that_cannot_hold_a_whole_item_is_told() -> None:
    (told,) = _items("gemma-4-26b-a4b", max_num_batched_tokens=1024)
    assert "one video takes 2,496 tokens in one step" in told
    assert "--limit-mm-per-prompt.video 0" in told
    no_videos = {"limit_mm_per_prompt": {"video": 0}}
    assert _items("gemma-4-26b-a4b", max_num_batched_tokens=1024, **no_videos) == []
    assert _items("gemma-4-26b-a4b", max_num_batched_tokens=2496) == []
    (told,) = _items("gemma-4-26b-a4b", max_num_batched_tokens=256, **no_videos)
    assert "one image takes 280 tokens" in told


def test_an_encoders_input_is_one_step(tmp_path: Path) -> None:
    config = {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "d_model": 384,
        "decoder_attention_heads": 6,
        "decoder_layers": 4,
        "encoder_attention_heads": 6,
        "encoder_layers": 4,
        "is_encoder_decoder": True,
        "max_source_positions": 1500,
        "max_target_positions": 448,
        "torch_dtype": "bfloat16",
        "vocab_size": 51865,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    (told,) = _items(str(tmp_path), max_num_batched_tokens=1024)
    assert told.endswith("Give --max-num-batched-tokens 1500.")
