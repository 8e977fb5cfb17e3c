"""The serve command in calls, containers and scripts."""

from __future__ import annotations

import shlex

import pytest

from kvplan_cli.loader.launch import Launch, container_launch, find_launch, is_engine_image
from kvplan_cli.loader.shell_words import expand, split_commands, split_words
from tests.loader.faults import problem

M = "org/model"


def launch(text: str) -> Launch:
    found = find_launch(shlex.split(text), "serve command")
    assert found is not None
    return found


@pytest.mark.parametrize(
    "text",
    [
        f"vllm serve {M} -tp 2",
        f"/opt/venv/bin/vllm serve {M} -tp 2",
        f"nohup numactl -N 0 vllm serve {M} -tp 2",
        f"env A=1 vllm serve {M} -tp 2",
        f"uv run vllm serve {M} -tp 2",
        f"python -m vllm.entrypoints.cli.main serve {M} -tp 2",
        f"sh -c 'vllm serve {M} -tp 2'",
        f"/bin/bash -euxo pipefail -c 'cd /x && exec vllm serve {M} -tp 2 > log 2>&1'",
        f"bash -lc 'vllm serve {M} -tp 2 2>&1 | tee serve.log'",
        f"bash -c '# serve\nN=2\nexport K=v\nvllm serve {M} \\\n  -tp $N &\nwait'",
        f"bash -c 'vllm serve {M} -tp ${{TP:-2}}'",
        f"sudo docker run --rm -it --gpus all -p 80:80 -v /x:/y vllm/vllm-openai:v0.33.0 {M} -tp 2",
        f"docker run -d --name vllm --entrypoint vllm registry/x:1 serve {M} -tp 2",
        f"docker run --entrypoint=bash registry/x -c 'vllm serve {M} -tp 2'",
        f"podman container run --privileged registry/x vllm serve {M} -tp 2",
    ],
)
def test_a_serve_command_is_found(text: str) -> None:
    assert launch(text).words == (M, "-tp", "2")
    assert launch(shlex.quote(text)).words == (M, "-tp", "2")


@pytest.mark.parametrize(
    "text",
    [
        f"python3 -m vllm.entrypoints.openai.api_server --model {M} -tp 2",
        f"python3 /app/vllm/entrypoints/openai/api_server.py --model {M} -tp 2",
        f"docker run vllm/vllm-openai@sha256:0a --model {M} -tp 2",
        f"docker run -e=A=1 --shm-size 1g vllm/vllm-openai --model {M} -tp 2",
    ],
)
def test_the_api_server_is_found(text: str) -> None:
    assert launch(text).words == ("--model", M, "-tp", "2")


@pytest.mark.parametrize(
    ("text", "env"),
    [
        (f"A=1 B='x y' vllm serve {M}", {"A": "1", "B": "x y"}),
        (f"bash -c 'export A=1; B=$A vllm serve {M}'", {"A": "1", "B": "1"}),
        (
            f"docker run -e A=1 --env B=2 -e C -eD=3 vllm/vllm-openai {M}",
            {"A": "1", "B": "2", "D": "3"},
        ),
        # What the host's shell sets does not reach into a container.
        (f"A=1 docker run -e B=$A vllm/vllm-openai {M}", {"B": "1"}),
    ],
)
def test_assignments(text: str, env: dict[str, str]) -> None:
    assert launch(text).env == env


@pytest.mark.parametrize(
    "text", ["", "ls", "vllm bench", "vllm", "python -m vllm", "docker run ubuntu ls", "bash x.sh"]
)
def test_other_commands_are_none(text: str) -> None:
    assert find_launch(shlex.split(text), "x") is None


def test_a_container_serves_by_its_image() -> None:
    assert container_launch("vllm/vllm-openai:v0.33.0", [], ["--model", M], "x", {}) == Launch(
        words=("--model", M), image="vllm/vllm-openai:v0.33.0"
    )
    assert container_launch("nginx", [], ["--model", M], "x", {}) is None
    assert container_launch("vllm/vllm-openai", ["sleep"], ["9"], "x", {}) is None
    assert is_engine_image("registry.example:5000/team/vllm-openai:v0.33.0")
    assert not is_engine_image("vllm.example/other:1")


def test_variables_that_nobody_sets_stay() -> None:
    assert expand("$(A) ${B} ${C:-c} ${D:-} $E x$", {"A": "1", "E": ""}) == "1 ${B} c   x$"


def test_shell_text() -> None:
    assert split_words("a 'b c' \\\n d", "x") == ["a", "b c", "d"]
    assert split_commands("a 1; b && c | d\ne # 5", "x") == [
        ["a", "1"],
        ["b"],
        ["c"],
        ["d"],
        ["e", "#", "5"],
    ]
    assert "no closing quotation" in problem(split_words, "a 'b", "command").reason
    assert "characters" in problem(split_commands, "a" * 200_000, "command").reason


def test_shells_in_shells_come_to_an_end() -> None:
    text = f"vllm serve {M}"
    for _ in range(6):
        text = f"sh -c {shlex.quote(text)}"
    assert find_launch(shlex.split(text), "x") is None
