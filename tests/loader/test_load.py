"""MODEL in all its forms, and what is none of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvplan_cli.errors import InputError
from kvplan_cli.loader.load import load
from kvplan_cli.loader.model_source import OriginKind
from kvplan_cli.specs.codec import spec_from_mapping
from tests.loader.builders import CONFIG, FULL_SPEC, write_json
from tests.loader.faults import problem, problems


def _plan(folder: Path, text: str, name: str = "plan.yaml") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_config_file(tmp_path: Path) -> None:
    path = write_json(tmp_path / "tiny.json", CONFIG)
    loaded = load(str(path))
    assert loaded.source is not None
    assert loaded.name == "tiny"
    assert loaded.source.config == CONFIG
    assert loaded.source.origin.kind is OriginKind.FILE
    assert loaded.source.origin.place == str(path)
    assert loaded.source.extra_files == {}


def test_a_folder_with_what_stands_beside_the_config(tmp_path: Path) -> None:
    folder = tmp_path / "Tiny-1B"
    write_json(folder / "config.json", CONFIG)
    write_json(folder / "hf_quant_config.json", {"quantization": {"quant_algo": "FP8"}})
    write_json(folder / "tokenizer_config.json", {"model_max_length": 1000, "noise": ["x"] * 99})
    for argument in (folder, folder / "config.json"):
        source = load(str(argument)).source
        assert source is not None
        assert source.name == "Tiny-1B"
        assert source.extra_files == {
            "hf_quant_config.json": {"quantization": {"quant_algo": "FP8"}},
            "tokenizer_config.json": {"model_max_length": 1000},
        }


def test_a_catalogue_name_in_any_case() -> None:
    for name in ("llama-3.1-8b", "LLAMA-3.1-8B", "Llama-3.1-8B-Instruct"):
        source = load(name).source
        assert source is not None
        assert source.name == "llama-3.1-8b"
        assert source.origin.kind is OriginKind.CATALOGUE
        assert "aiconfigurator" in (source.origin.detail or "")


def test_an_existing_path_wins_over_a_bundled_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(tmp_path / "qwen3-8b" / "config.json", CONFIG)
    monkeypatch.chdir(tmp_path)
    source = load("qwen3-8b").source
    assert source is not None
    assert source.origin.kind is OriginKind.FOLDER


def test_a_catalogue_entry_is_a_file_too(tmp_path: Path) -> None:
    entry = {"name": "mine", "hub_id": "a/b", "origin": "typed", "config": CONFIG}
    source = load(str(write_json(tmp_path / "entry.json", entry))).source
    assert source is not None
    assert source.name == "mine"
    del entry["origin"]
    found = problem(load, str(write_json(tmp_path / "entry.json", entry)))
    assert found.where.endswith("entry.json: origin")


def test_serve_yaml_unchanged(tmp_path: Path) -> None:
    text = """
    model: qwen3-8b
    tensor-parallel-size: 2
    max_model_len: 32K
    port: 8000
    served-model-name: [a, b]
    compilation-config: {level: 3}
    """
    loaded = load(_plan(tmp_path, text))
    assert loaded.name == "qwen3-8b"
    assert loaded.flags.values == {
        "tensor_parallel_size": 2,
        "max_model_len": 32768,
        "compilation_config": {"level": 3},
    }
    assert loaded.flags.origins["max_model_len"].endswith("plan.yaml: max_model_len")
    assert len(loaded.flags.unestimated) == 1
    assert len(loaded.flags.ignored) == 2


def test_a_plan_file_whole(tmp_path: Path) -> None:
    text = """
    model: gpt-oss-20b
    gpu: h100
    gpu-mem: 79.19GiB
    kv-mem: [40GiB, 41GiB]
    weights: 13.8GiB
    env: {VLLM_KV_CACHE_LAYOUT: LBNHC, VLLM_USE_V2_MODEL_RUNNER: 1}
    serve:
      max-model-len: 128k
      hf-overrides: {sliding_window: 256}
    expect:
      min-concurrency: 8
      min_max_model_len: 64K
      min-kv-tokens: 1000000
      max-gpu-memory-utilization: 0.9
    """
    loaded = load(_plan(tmp_path, text))
    assert loaded.memory.gpu == "h100"
    assert loaded.memory.gpu_mem_bytes == 85_029_615_042
    assert loaded.memory.kv_mem_bytes == (40 << 30, 41 << 30)
    assert loaded.memory.weights_bytes == (14_817_637_171,)
    assert loaded.env == {"VLLM_KV_CACHE_LAYOUT": "LBNHC", "VLLM_USE_V2_MODEL_RUNNER": "1"}
    assert loaded.flags.values["max_model_len"] == 128_000
    assert loaded.flags.values["hf_overrides"] == {"sliding_window": 256}
    assert {name: each.value for name, each in loaded.expect.items()} == {
        "min-concurrency": 8.0,
        "min-max-model-len": 65_536,
        "min-kv-tokens": 1_000_000,
        "max-gpu-memory-utilization": 0.9,
    }


def test_an_inline_config(tmp_path: Path) -> None:
    path = write_json(tmp_path / "plan.json", {"model": CONFIG, "max-model-len": 100})
    loaded = load(str(path))
    assert loaded.source is not None
    assert loaded.source.config == CONFIG
    assert loaded.source.origin.kind is OriginKind.INLINE
    assert loaded.flags.values == {"max_model_len": 100}


def test_layers_without_a_model(tmp_path: Path) -> None:
    path = write_json(tmp_path / "new-model.json", {"layers": [{"count": 3, "spec": FULL_SPEC}]})
    loaded = load(str(path))
    assert loaded.source is None
    assert loaded.name == "new-model"
    assert loaded.layers is not None
    assert list(loaded.layers.stages[0].values()) == [spec_from_mapping(FULL_SPEC)] * 3


def test_a_path_in_a_plan_is_meant_from_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(tmp_path / "plans" / "model" / "config.json", CONFIG)
    plan = _plan(tmp_path / "plans", "model: ./model")
    monkeypatch.chdir("/")
    source = load(plan).source
    assert source is not None
    assert source.name == "model"


@pytest.mark.parametrize(
    ("text", "where", "reason"),
    [
        ("model:", "model", "expected a model's name, path or config, got null"),
        ("model: ''", "model", "expected a model's name"),
        ("model: [a]", "model", "got a list"),
        ("model: {hidden_size: 8}", "model", "neither architectures nor model_type"),
        ("model: qwen3-8b\nserv: {}", "serv", "neither a key of a plan file nor a flag"),
        ("model: qwen3-8b\ntensor-paralel-size: 2", "tensor-paralel-size", "neither a key"),
        ("model: qwen3-8b\nserve: [1]", "serve", "expected engine flags, got a list"),
        ("model: qwen3-8b\nserve: {dtype: fp7}", "serve: dtype", "not a legal value"),
        ("model: qwen3-8b\nserve: {dtypo: auto}", "serve: dtypo", "no such flag"),
        ("model: qwen3-8b\ndtype: auto\nserve: {block-size: 16}", "dtype", "both at the top and"),
        ("model: qwen3-8b\ngpu-mem: 80", "gpu-mem", "less than one mebibyte"),
        ("model: qwen3-8b\nkv-mem: [1GiB, -1GiB]", "kv-mem[1]", "not a size"),
        ("model: qwen3-8b\ngpu: 3", "gpu", "expected a name"),
        ("model: qwen3-8b\nenv: [a]", "env", "expected environment variables"),
        ("model: qwen3-8b\nenv: {A: [1]}", "env.A", "expected text"),
        ("model: qwen3-8b\nexpect: 3", "expect", "expected an object"),
        ("model: qwen3-8b\nexpect: {min-concurency: 1}", "expect.min-concurency", "no such"),
        ("model: qwen3-8b\nexpect: {min-concurrency: 0}", "expect.min-concurrency", "above 0"),
        ("model: qwen3-8b\nexpect: {min-max-model-len: auto}", "expect.min-max-model-len", "auto"),
        ("model: qwen3-8b\nexpect: {min-kv-tokens: -1}", "expect.min-kv-tokens", "above 0"),
        ("model: qwen3-8b\nkv-mem: 1GiB\nkv_mem: 2GiB", "kv_mem", "twice, in two spellings"),
        ("layers: [{spec: {class: X}}]", "layers[0].spec.class", "unknown spec class"),
        ("a: 1", "plan.yaml", "neither a model's config"),
    ],
)
def test_a_wrong_plan_names_the_key(tmp_path: Path, text: str, where: str, reason: str) -> None:
    found = problem(load, _plan(tmp_path, text), error=InputError)
    assert found.where.endswith(where)
    assert reason in found.reason


def test_near_names_are_shown(tmp_path: Path) -> None:
    assert "did you mean serve?" in str(problem(load, _plan(tmp_path, "model: x\nserv: {}")))
    text = "model: x\ntensor-paralel-size: 2"
    assert "did you mean tensor-parallel-size?" in str(problem(load, _plan(tmp_path, text)))


def test_all_faults_of_a_plan_come_at_once(tmp_path: Path) -> None:
    text = "model: 3\nserv: {}\ngpu-mem: 80\nserve: {dtype: x, tp: 2}\nexpect: {a: 1}"
    assert len(problems(load, _plan(tmp_path, text))) == 6


def test_a_plan_does_not_name_a_plan(tmp_path: Path) -> None:
    _plan(tmp_path, "model: qwen3-8b", name="inner.yaml")
    found = problem(load, _plan(tmp_path, "model: inner.yaml"))
    assert "not a model's config" in found.reason
    assert "not by another plan" in (found.way_out or "")


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("", "no model is named"),
        ("  ", "no model is named"),
        ("qwen3-9b", "no model is called 'qwen3-9b'"),
        ("nothing like it at all", "no model is called"),
        ("./config.json", "no such file"),
        ("config.yaml", "no such file"),
        ("/no/such/folder", "no such file"),
        ("a/b/c", "no such file"),
        ("~nobody-of-this-name/x.json", "no such file"),
        ("a\0b", "no model is called"),
        ("x" * 5000, ""),
        ("[red]x[/red]", "no model is called"),
        ("\x1b[31m", "no model is called"),
    ],
)
def test_what_names_no_model(argument: str, reason: str) -> None:
    found = problem(load, argument, error=InputError)
    assert reason in found.reason
    assert str(found).isprintable()


def test_a_mistyped_name_shows_the_nearest(tmp_path: Path) -> None:
    assert "did you mean qwen3-8b?" in (problem(load, "qwen3-9b").way_out or "")
    assert "llama-3.1-8b" in (problem(load, "llama").way_out or "")
    write_json(tmp_path / "config.json", CONFIG)
    found = problem(load, str(tmp_path / "confg.json"))
    assert found.way_out == f"did you mean {tmp_path / 'config.json'}?"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("model.safetensors", b"\x10\0\0\0\0\0\0\0{}", "a file of weights"),
        ("model.gguf", b"GGUF\0", "a file of weights"),
        ("config.json", b"[1]", "neither a model's config"),
        ("config.json", b'{"hidden_size": 8}', "neither a model's config"),
    ],
)
def test_files_that_are_no_model(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert reason in problem(load, str(tmp_path / name)).reason


def test_folders_that_hold_no_model(tmp_path: Path) -> None:
    assert "holds no config.json" in problem(load, str(tmp_path)).reason
    write_json(tmp_path / "inner" / "config.json", CONFIG)
    assert problem(load, str(tmp_path)).way_out == "there is one in inner"


def test_a_config_with_a_model_key_stays_a_config(tmp_path: Path) -> None:
    path = write_json(tmp_path / "config.json", {**CONFIG, "layers": 3, "model": "x"})
    source = load(str(path)).source
    assert source is not None
    assert json.loads(path.read_text()) == source.config
