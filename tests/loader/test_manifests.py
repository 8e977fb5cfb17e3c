"""Serve commands in files that deploy them: found by shape, chosen by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan_cli.loader.deployment import image_release, read_deployment
from kvplan_cli.loader.load import Loaded, load
from kvplan_cli.loader.manifests import Server, find_servers
from kvplan_cli.loader.yaml_text import parse_documents
from tests.loader.faults import problem

EXAMPLES = Path(__file__).parents[2] / "examples"


def servers(text: str) -> tuple[Server, ...]:
    return find_servers(parse_documents(text, "f.yaml"), "f.yaml")


def words(text: str) -> tuple[str, ...]:
    (server,) = servers(text)
    return server.launch.words


def pod(container: str, kind: str = "Pod") -> str:
    return f"kind: {kind}\nmetadata: {{name: p}}\nspec: {{containers: [{container}]}}\n"


IMAGE = "image: vllm/vllm-openai:v0.33.0"


@pytest.mark.parametrize(
    "container",
    [
        f"{{{IMAGE}, args: [m, -tp, '2']}}",
        f"{{{IMAGE}, args: [m, -tp, 2]}}",
        "{image: own, command: [vllm, serve], args: [m, -tp, '2']}",
        "{image: own, command: [vllm, serve, m, -tp, '2']}",
        "{image: own, command: [sh, -c], args: ['vllm serve m -tp 2']}",
        "{image: own, command: [bash, -ec, 'sleep 1; vllm serve m -tp 2 > log']}",
        f"{{{IMAGE}, args: [m, -tp, $(TP)], env: [{{name: TP, value: '2'}}]}}",
        "{image: own, command: [sh, -c, 'vllm serve m -tp $TP'], env: [{name: TP, value: 2}]}",
    ],
)
def test_a_containers_command(container: str) -> None:
    assert words(pod(container)) == ("m", "-tp", "2")


@pytest.mark.parametrize(
    "service",
    [
        f"{{{IMAGE}, command: m -tp 2}}",
        f"{{{IMAGE}, command: [m, -tp, '2']}}",
        "{build: ., entrypoint: vllm serve, command: m -tp 2}",
        "{build: ., entrypoint: [vllm], command: [serve, m, -tp, '2']}",
        "{build: ., command: bash -c 'vllm serve m -tp 2'}",
        f"{{{IMAGE}, command: 'm -tp $TP', environment: [TP=2, HF_TOKEN]}}",
        f"{{{IMAGE}, command: 'm -tp ${{TP:-2}}', environment: {{A: null}}}}",
    ],
)
def test_a_services_command(service: str) -> None:
    (server,) = servers(f"services:\n  other: {{image: nginx}}\n  engine: {service}\n")
    assert server.launch.words == ("m", "-tp", "2")
    assert server.names[0] == "engine"


@pytest.mark.parametrize(
    "text",
    [
        "a: {b: [vllm, serve, m, -tp, '2']}",
        "a: [{run: 'vllm serve m -tp 2'}]",
        "engine: {image: {repository: vllm/vllm-openai, tag: v0.33.0}, args: [m, -tp, '2']}",
        "leaderWorkerTemplate:\n  leaderTemplate:\n    spec: {containers: [{image: own, command: "
        "[sh, -c, 'bash ray.sh leader; vllm serve m -tp 2']}]}\n"
        "  workerTemplate:\n    spec: {containers: [{image: own, command: [sh, -c, ray]}]}\n",
    ],
)
def test_other_shapes(text: str) -> None:
    assert words(text) == ("m", "-tp", "2")


def test_values_of_production_stack() -> None:
    (server,) = servers(
        """
        servingEngineSpec:
          modelSpec:
            - name: chat
              repository: vllm/vllm-openai
              tag: v0.33.0
              modelURL: org/m
              requestGPU: 2
              vllmConfig: {tensorParallelSize: 2, maxModelLen: 4096, extraArgs: [--enforce-eager]}
              env: [{name: VLLM_MLA_DISABLE, value: "1"}]
        """
    )
    assert server.names[0] == "chat"
    assert server.gpus == 2
    assert server.launch.image == "vllm/vllm-openai:v0.33.0"
    assert server.launch.env == {"VLLM_MLA_DISABLE": "1"}
    assert " ".join(server.launch.words) == (
        "org/m --no-enable-prefix-caching --max-model-len 4096 --tensor-parallel-size 2 "
        "--enforce-eager"
    )


@pytest.mark.parametrize(
    "text",
    [
        "a: 1",
        "[]",
        pod("{image: nginx, args: [x]}"),
        pod(f"{{{IMAGE}}}"),
        "note: see the docs of vllm serve, it's there",
        "image: {repository: vllm/vllm-openai}",
    ],
)
def test_no_serve_command(text: str) -> None:
    assert servers(text) == ()


def test_an_open_quote_is_told() -> None:
    found = problem(servers, pod('{image: own, command: [sh, -c, "vllm serve \'m"]}'))
    assert found.where == "f.yaml: spec.containers.0"


def test_each_server_has_a_name_of_its_own() -> None:
    text = pod(f"{{name: e, {IMAGE}, args: [m]}}")
    both = parse_documents(f"{text}---\n{text.replace('name: p', 'name: q')}", "f.yaml")
    found = problem(read_deployment, both, Path("f.yaml"), None)
    assert "holds 2 serve commands" in found.reason
    assert found.way_out == "choose one with --service: p, q"
    assert read_deployment(both, Path("f.yaml"), "q/e").command.model == "m"
    ambiguous = problem(read_deployment, both, Path("f.yaml"), "e")
    assert ambiguous.where == "--service"
    assert "2 serve commands" in ambiguous.reason
    assert "did you mean p/e?" in (
        problem(read_deployment, both, Path("f.yaml"), "p/f").way_out or ""
    )


def test_the_examples_pod() -> None:
    loaded = load(str(EXAMPLES / "deployment.yaml"), service="chat")
    assert loaded.name == "qwen3-32b"
    assert loaded.flags.values == {"tensor_parallel_size": 2, "max_model_len": 32768}
    assert loaded.env["VLLM_KV_CACHE_LAYOUT"] == "NHD"
    assert (loaded.memory.gpu, loaded.engine_version) == ("h100", "0.33.0")
    assert loaded.notes == ("The container asks for 4 GPUs, and its flags use 2.",)
    assert loaded.flags.origins["max_model_len"].endswith(
        "deployment.yaml: spec.template.spec.containers.0: max-model-len"
    )


def test_the_examples_service() -> None:
    loaded = load(str(EXAMPLES / "compose.yaml"))
    assert loaded.name == "gemma-3-27b"
    assert loaded.flags.values["limit_mm_per_prompt"] == {"image": 2}
    assert loaded.engine_version == "0.33.0"


@pytest.mark.parametrize(
    ("image", "release", "said"),
    [
        ("vllm/vllm-openai:v0.33.0", "0.33.0", None),
        ("registry:5000/a/vllm-openai:v0.32.0-cu129@sha256:ab", "0.32.0", None),
        ("vllm/vllm-openai", None, "names no release"),
        ("vllm/vllm-openai:latest", None, "names no release"),
        ("vllm/vllm-openai:v0.1.0", None, "0.1.0"),
        ("vllm/vllm-openai:v9.9.9", None, "9.9.9"),
        ("own:1.2.3", None, None),
        (None, None, None),
    ],
)
def test_the_release_of_an_image(image: str | None, release: str | None, said: str | None) -> None:
    found, note = image_release(image)
    assert found == release
    assert (note is None) == (said is None)
    assert said is None or said in (note or "")


def _load(path: Path, text: str, **words: Any) -> Loaded:
    path.write_text(text)
    return load(str(path), **words)


def test_files_without_a_server(tmp_path: Path) -> None:
    found = problem(_load, tmp_path / "f.yaml", "a: 1\n---\nb: 2\n")
    assert "serve command" in found.reason
    assert "container" in (found.way_out or "")
    found = problem(load, "qwen3-8b", service="x")
    assert found.where == "--service"


def test_config_beside_the_manifest(tmp_path: Path) -> None:
    (tmp_path / "serve.yaml").write_text("max-model-len: 4096\n")
    text = pod(f"{{{IMAGE}, args: [Qwen/Qwen3-8B, --config, serve.yaml]}}")
    assert _load(tmp_path / "pod.yaml", text).flags.values == {"max_model_len": 4096}


def test_a_model_that_only_the_container_has(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    text = pod(f"{{{IMAGE}, args: [--model, /mnt/models/own, -tp, '2']}}")
    found = problem(_load, path, text)
    assert found.reason == "no such file here: /mnt/models/own"
    assert "extends: pod.yaml, model: NAME" in (found.way_out or "")
    plan = tmp_path / "plan.yaml"
    plan.write_text("extends: pod.yaml\nmodel: qwen3-8b\n")
    loaded = load(str(plan))
    assert (loaded.name, loaded.flags.values["tensor_parallel_size"]) == ("qwen3-8b", 2)
