"""Files that extend others, environments and deployments: what is laid over what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan_cli.errors import InputError
from kvplan_cli.loader.load import load
from kvplan_cli.loader.plan_file import merged_objects
from tests.gate.files import write_files
from tests.loader.builders import CONFIG, write_json
from tests.loader.faults import problem

GIB = 1 << 30


def _load(folder: Path, files: dict[str, str], name: str = "top.yaml", **choice: Any) -> Any:
    return load(str(write_files(folder, files) / name), **choice)


def test_a_file_wins_over_its_base_key_by_key(tmp_path: Path) -> None:
    loaded = _load(
        tmp_path,
        {
            "base.yaml": """
            model: qwen3-8b
            serve:
              tensor-parallel-size: 2
              max-model-len: 4096
              hf-overrides: {a: {b: 1, c: [1, 2]}}
            env: {A: x, B: y}
            expect: {min-concurrency: 1, max-gpus: 4}
            engine-version: "0.32.0"
            """,
            "top.yaml": """
            extends: base.yaml
            max_model_len: 8192
            hf-overrides: {a: {c: [3]}}
            env: {B: z}
            expect: {min_concurrency: 2}
            """,
        },
    )
    assert loaded.flags.values == {
        "tensor_parallel_size": 2,
        "max_model_len": 8192,
        "hf_overrides": {"a": {"b": 1, "c": [3]}},
    }
    assert loaded.env == {"A": "x", "B": "z"}
    assert {name: each.value for name, each in loaded.expect.items()} == {
        "min-concurrency": 2.0,
        "max-gpus": 4,
    }
    assert loaded.engine_version == "0.32.0"


def test_each_value_knows_the_file_it_is_from(tmp_path: Path) -> None:
    loaded = _load(
        tmp_path,
        {
            "base.yaml": "model: qwen3-8b\nserve: {block-size: 32}\nkv-mem: 1GiB\n"
            "expect: {max-gpus: 4}",
            "top.yaml": "extends: base.yaml\nserve: {dtype: auto}\nexpect: {min-concurrency: 1}",
        },
    )
    assert loaded.flags.origins["block_size"].endswith("base.yaml: serve: block-size")
    assert loaded.flags.origins["dtype"].endswith("top.yaml: serve: dtype")
    assert loaded.plan.where("kv-mem").endswith("base.yaml: kv-mem")
    assert loaded.plan.where("gpu").endswith("top.yaml: gpu")
    places = {name: (each.path.name, each.key) for name, each in loaded.expect.items()}
    assert places == {
        "max-gpus": ("base.yaml", "expect.max-gpus"),
        "min-concurrency": ("top.yaml", "expect.min-concurrency"),
    }


def test_null_takes_out_what_stands_below(tmp_path: Path) -> None:
    loaded = _load(
        tmp_path,
        {
            "base.yaml": """
            model: qwen3-8b
            gpu: h100
            weights: 8GiB
            serve:
              quantization: fp8
              block-size: 32
              enable-prefix-caching: true
              port: 8000
            env: {A: x, B: y}
            expect: {min-concurrency: 1, max-gpus: 4}
            engine-version: "0.32.0"
            """,
            "top.yaml": """
            extends: base.yaml
            weights: null
            serve: {quantization: null, no-enable-prefix-caching: null, port: null}
            env: {A: null}
            expect: {max-gpus: null}
            engine-version: null
            """,
        },
    )
    assert loaded.flags.values == {"block_size": 32}
    assert loaded.flags.ignored == ()
    assert loaded.memory.weights_bytes == ()
    assert loaded.memory.gpu == "h100"
    assert loaded.env == {"B": "y"}
    assert list(loaded.expect) == ["min-concurrency"]
    assert loaded.engine_version is None


@pytest.mark.parametrize(
    ("over", "kept"),
    [
        ("kv-mem: 5GiB", {"kv_mem_bytes": (5 * GIB,), "gpu": "h100"}),
        ("gpu: l4", {"gpu": "l4", "weights_bytes": (8 * GIB,)}),
        ("gpu-mem: 30GiB", {"gpu": "h100", "gpu_mem_bytes": 30 * GIB, "weights_bytes": (8 * GIB,)}),
    ],
)
def test_a_new_kind_of_budget_drops_the_other(
    tmp_path: Path, over: str, kept: dict[str, Any]
) -> None:
    base = "model: qwen3-8b\ngpu: h100\ngpu-mem: 70GiB\nweights: 8GiB"
    loaded = _load(tmp_path, {"base.yaml": base, "top.yaml": f"extends: base.yaml\n{over}"})
    memory = loaded.memory
    given = {
        name: getattr(memory, name)
        for name in ("gpu", "gpu_mem_bytes", "kv_mem_bytes", "weights_bytes")
        if getattr(memory, name)
    }
    assert given == kept


def test_layers_are_laid_in_the_order_that_is_told(tmp_path: Path) -> None:
    files = {
        "base.yaml": """
        model: qwen3-8b
        block-size: 1
        max-num-seqs: 1
        max-model-len: 1
        tensor-parallel-size: 1
        pipeline-parallel-size: 1
        environments: {prod: {max-model-len: 3}}
        """,
        "top.yaml": """
        extends: base.yaml
        serve:
          max-num-seqs: 2
          max-model-len: 2
          tensor-parallel-size: 2
          pipeline-parallel-size: 2
        environments: {prod: {serve: {tensor-parallel-size: 3, pipeline-parallel-size: 3}}}
        deployments:
          a:
            serve: {pipeline-parallel-size: 4, block-size: 4}
            environments: {prod: {block-size: 5}}
        """,
    }
    loaded = _load(tmp_path, files, environment="prod", deployment="a")
    assert loaded.flags.values == {
        "max_num_seqs": 2,
        "max_model_len": 3,
        "tensor_parallel_size": 3,
        "pipeline_parallel_size": 4,
        "block_size": 5,
    }
    # The only one of each is meant where none is named.
    assert _load(tmp_path, files).flags.values == loaded.flags.values


def test_paths_are_meant_from_the_file_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(tmp_path / "shared" / "model" / "config.json", CONFIG)
    files = {
        "shared/base.yaml": "model: ./model",
        "shared/deeper/middle.yaml": "extends: ../base.yaml",
        "team/top.yaml": "extends: ../shared/deeper/middle.yaml\nserve: {dtype: auto}",
    }
    monkeypatch.chdir("/")
    loaded = _load(tmp_path, files, "team/top.yaml")
    assert loaded.source.name == "model"


def test_inline_configs_are_merged(tmp_path: Path) -> None:
    write_json(tmp_path / "base.json", {"model": CONFIG})
    loaded = _load(
        tmp_path, {"top.yaml": "extends: base.json\nmodel: {num_hidden_layers: 7}\nserve: {}"}
    )
    assert loaded.source.config == {**CONFIG, "num_hidden_layers": 7}


MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec:
  template:
    spec:
      nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
      containers:
        - name: engine
          image: vllm/vllm-openai:v0.32.0
          args: [--model, qwen3-8b, --max-model-len, "4096", --port, "80"]
          env: [{name: VLLM_KV_CACHE_LAYOUT, value: NHD}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: draft}
spec: {template: {spec: {containers: [{name: engine, command: [vllm, serve, qwen3-4b]}]}}}
"""


def test_the_base_may_be_a_manifest(tmp_path: Path) -> None:
    files = {
        "manifest.yaml": MANIFEST,
        "top.yaml": "extends: manifest.yaml\nservice: chat\nserve: {block-size: 32}\n"
        "env: {VLLM_KV_CACHE_LAYOUT: LBNHC}\nexpect: {max-gpus: 1}",
    }
    loaded = _load(tmp_path, files)
    assert loaded.name == "qwen3-8b"
    assert loaded.flags.values == {"max_model_len": 4096, "block_size": 32}
    assert loaded.flags.origins["max_model_len"].startswith(str(tmp_path / "manifest.yaml"))
    assert (loaded.memory.gpu, loaded.engine_version, loaded.contained) == ("l4", "0.32.0", True)
    assert loaded.env == {"VLLM_KV_CACHE_LAYOUT": "LBNHC"}
    files["top.yaml"] = "extends: manifest.yaml\nservice: draft\nmodel: qwen3-8b\ngpu: h100"
    loaded = _load(tmp_path, files)
    assert (loaded.name, loaded.memory.gpu) == ("qwen3-8b", "h100")


def test_a_base_that_names_no_model_is_still_a_plan(tmp_path: Path) -> None:
    files = {"base.yaml": "gpu: h100\nserve: {block-size: 32}", "top.yaml": "extends: base.yaml"}
    files["top.yaml"] += "\nmodel: qwen3-8b"
    assert _load(tmp_path, files).flags.values == {"block_size": 32}


@pytest.mark.parametrize(
    ("files", "where", "reason"),
    [
        ({"top.yaml": "extends: top.yaml"}, "top.yaml: extends", "in a circle"),
        (
            {"top.yaml": "extends: b.yaml", "b.yaml": "extends: ./top.yaml"},
            "b.yaml: extends",
            "in a circle",
        ),
        ({"top.yaml": "extends: [a]"}, "top.yaml: extends", "expected a file's name, got a list"),
        ({"top.yaml": "extends: tap.yaml"}, "top.yaml: extends", "no such file"),
        ({"top.yaml": "extends: b.yaml", "b.yaml": "[1]"}, "b.yaml", "expected an object"),
        ({"top.yaml": "model: m\nservice: chat"}, "top.yaml: service", "no file beneath holds"),
        ({"top.yaml": "model: m\nservice: 3"}, "top.yaml: service", "a serve command's name"),
        (
            {"top.yaml": "extends: b.yaml", "b.yaml": MANIFEST},
            "b.yaml",
            "holds 2 serve commands",
        ),
        (
            {"top.yaml": "extends: b.yaml\nservice: chta", "b.yaml": MANIFEST},
            "--service",
            "holds no serve command called 'chta'",
        ),
        ({"top.yaml": "model: m\nenvironments: [a]"}, "environments", "names with a plan each"),
        ({"top.yaml": "model: m\nenvironments: {a: 3}"}, "environments.a", "expected keys of a"),
        ({"top.yaml": "model: m\ndeployments: {' ': {}}"}, "deployments", "an empty name"),
        (
            {"top.yaml": "model: m\ndeployments: {a: {extends: x}}"},
            "deployments.a: extends",
            "neither a key",
        ),
        (
            {"top.yaml": "model: m\nenvironments: {a: {environments: {}}}"},
            "environments.a: environments",
            "neither a key",
        ),
        (
            {"top.yaml": "model: m\nenvironments: {a: {serve: {dtype: x}}}"},
            "environments.a: serve: dtype",
            "not a legal value",
        ),
        (
            {"top.yaml": "environments: {a: {expect: {min-kv-token: 1}}}"},
            "environments.a: expect.min-kv-token",
            "no such expectation",
        ),
        (
            {"top.yaml": "environments: {a: {}, b: {}}"},
            "environments",
            "several environments: a, b",
        ),
        ({"top.yaml": "extends: b.yaml", "b.yaml": "expect: {}"}, "top.yaml: model", "got null"),
    ],
)
def test_faults_say_where_they_stand(
    tmp_path: Path, files: dict[str, str], where: str, reason: str
) -> None:
    write_files(tmp_path, files)
    with pytest.raises(InputError) as caught:
        load(str(tmp_path / "top.yaml"))
    found = caught.value.problems[0]
    assert found.where.endswith(where)
    assert reason in found.reason


def test_a_circle_names_its_files(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.yaml": "extends: b.yaml", "b.yaml": "extends: a.yaml"})
    found = problem(load, str(tmp_path / "a.yaml"))
    names = [part.rsplit("/", 1)[-1] for part in found.reason.split(" -> ")]
    assert names == ["a.yaml", "b.yaml", "a.yaml"]


def test_a_chain_is_bounded(tmp_path: Path) -> None:
    files = {f"{i}.yaml": f"extends: {i + 1}.yaml" for i in range(9)}
    write_files(tmp_path, {**files, "9.yaml": "model: qwen3-8b"})
    assert load(str(tmp_path / "2.yaml")).name == "qwen3-8b"
    assert "more than 8 files deep" in problem(load, str(tmp_path / "1.yaml")).reason


def test_an_environment_must_be_there(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.yaml": "model: qwen3-8b\nenvironments: {prod: {}, dev: {}}"})
    found = problem(load, str(tmp_path / "a.yaml"), environment="prd")
    assert (found.where, found.way_out) == ("--environment", "did you mean prod? it has prod, dev")
    found = problem(load, str(tmp_path / "a.yaml"), environment="dev", deployment="x")
    assert "has no deployments" in found.reason


def test_names_may_hold_dots(tmp_path: Path) -> None:
    text = "model: qwen3-8b\ndeployments: {a.b: {environments: {eu.west: {block-size: 32}}}}"
    loaded = _load(tmp_path, {"top.yaml": text}, deployment="a.b", environment="eu.west")
    assert loaded.flags.values == {"block_size": 32}
    origin = loaded.flags.origins["block_size"]
    assert origin.endswith("top.yaml: deployments.a.b.environments.eu.west: block-size")


def test_only_plans_have_environments() -> None:
    found = problem(load, "qwen3-8b", environment="prod")
    assert (found.where, found.reason[:21]) == ("--environment", "MODEL is no plan file")


_OBJECTS = st.recursive(
    st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
_MAPPINGS = st.dictionaries(st.sampled_from("abc"), _OBJECTS, max_size=3)


@given(_MAPPINGS)
def test_laying_nothing_or_the_same_over_changes_nothing(mapping: dict[str, Any]) -> None:
    assert merged_objects({}, mapping) == mapping
    assert merged_objects(mapping, {}) == mapping
    assert merged_objects(mapping, mapping) == mapping


@given(_MAPPINGS, _MAPPINGS)
def test_what_is_laid_over_is_seen_whole(below: dict[str, Any], over: dict[str, Any]) -> None:
    merged = merged_objects(below, over)

    def holds(part: Any, whole: Any) -> bool:
        if not isinstance(part, dict):
            return bool(part == whole)
        return isinstance(whole, dict) and all(
            key in whole and holds(value, whole[key]) for key, value in part.items()
        )

    assert holds(over, merged)
    assert below.keys() | over.keys() == merged.keys()
