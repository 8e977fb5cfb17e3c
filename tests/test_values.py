"""kvplan's dataclasses beside the standard ones: whatever a user of them can see is alike."""

# The decorator is a parameter here, which a type checker cannot follow.
# mypy: disable-error-code="call-arg,misc,no-untyped-call"

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kvplan_cli import values

Decorator = Callable[..., Any]
BOTH = pytest.mark.parametrize("decorator", [dataclasses.dataclass, values.dataclass])


def make(decorator: Decorator) -> tuple[type[Any], type[Any]]:
    @decorator(frozen=True, slots=True, kw_only=True)
    class Base:
        size: int
        name: str = "base"
        mark: bool = dataclasses.field(default=False, compare=False)
        parts: list[int] = dataclasses.field(default_factory=list, compare=False, repr=False)
        total: int = dataclasses.field(init=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.size + len(self.parts))

    @decorator(frozen=True, slots=True, kw_only=True)
    class Derived(Base):
        name: str = "derived"
        depth: int

    return Base, Derived


@BOTH
def test_construction_and_defaults(decorator: Decorator) -> None:
    base, derived = make(decorator)
    value = derived(size=3, depth=1)
    assert (value.size, value.name, value.mark, value.parts, value.total) == (
        3,
        "derived",
        False,
        [],
        3,
    )
    assert base(size=1).parts is not base(size=1).parts


@BOTH
@pytest.mark.parametrize("given", [{}, {"size": 1, "colour": 2}, {"size": 1, "total": 2}], ids=str)
def test_wrong_arguments(decorator: Decorator, given: dict[str, Any]) -> None:
    base, _ = make(decorator)
    with pytest.raises(TypeError):
        base(**given)


@BOTH
def test_places_are_refused_where_all_is_by_word(decorator: Decorator) -> None:
    base, _ = make(decorator)
    with pytest.raises(TypeError):
        base(1)


@BOTH
def test_places(decorator: Decorator) -> None:
    @decorator(frozen=True, slots=True)
    class Point:
        x: int
        y: int = 2

    assert (Point(1).y, Point(1, 5).y, Point(1, y=6).y) == (2, 5, 6)
    for wrong in ((1, 2, 3), ()):
        with pytest.raises(TypeError):
            Point(*wrong)
    with pytest.raises(TypeError):
        Point(1, x=1)
    match Point(4):
        case Point(x, y):
            assert (x, y) == (4, 2)


@BOTH
def test_equality_and_hash(decorator: Decorator) -> None:
    base, derived = make(decorator)
    assert base(size=1) == base(size=1, mark=True)
    assert hash(base(size=1)) == hash(base(size=1, mark=True))
    assert base(size=1) != base(size=2)
    assert base(size=1, name="derived") != derived(size=1, depth=0)
    assert len({base(size=1), base(size=1), base(size=2)}) == 2


@BOTH
def test_without_equality_identity_counts(decorator: Decorator) -> None:
    @decorator(frozen=True, slots=True, kw_only=True, eq=False)
    class Thing:
        size: int

    assert Thing(size=1) != Thing(size=1)


@BOTH
def test_frozen(decorator: Decorator) -> None:
    base, _ = make(decorator)
    value = base(size=1)
    for change in (
        lambda: setattr(value, "size", 2),
        lambda: delattr(value, "size"),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert not hasattr(value, "__dict__")


@BOTH
def test_replace_fields_copy_and_repr(decorator: Decorator) -> None:
    base, derived = make(decorator)
    value = derived(size=3, depth=1)
    changed = dataclasses.replace(value, size=5)
    assert (changed.size, changed.depth, changed.total) == (5, 1, 5)
    with pytest.raises(ValueError, match="init=False"):
        dataclasses.replace(value, total=9)
    assert [field.name for field in dataclasses.fields(base)] == [
        "size",
        "name",
        "mark",
        "parts",
        "total",
    ]
    assert copy.copy(value) == value
    assert repr(value).endswith("Derived(size=3, name='derived', mark=False, total=3, depth=1)")


def test_mutable_classes_are_refused() -> None:
    for wrong in ({"frozen": False, "slots": True}, {"frozen": True, "slots": False}):
        with pytest.raises(TypeError):
            values.dataclass(**wrong)


def test_specs_pickle() -> None:
    from kvplan_cli.dtypes import DType
    from kvplan_cli.specs import FullAttentionSpec

    spec = FullAttentionSpec(block_size=16, num_kv_heads=8, head_size=128, dtype=DType.BFLOAT16)
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_all_of_kvplan_uses_it() -> None:
    """No module on the way of a plan pays for the standard decorator's methods."""
    code = (
        "import dataclasses, sys\n"
        "made = []\n"
        "standard = dataclasses._process_class\n"
        "def counted(cls, init, repr, eq, *rest):\n"
        "    if init and cls.__module__.startswith('kvplan_cli'):\n"
        "        made.append(f'{cls.__module__}.{cls.__name__}')\n"
        "    return standard(cls, init, repr, eq, *rest)\n"
        "dataclasses._process_class = counted\n"
        "import kvplan_cli.service\n"
        "frozen = [n for n in made if sys.modules[n.rpartition('.')[0]].__dict__"
        "[n.rpartition('.')[2]].__dataclass_params__.frozen]\n"
        "print(*frozen)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == []
