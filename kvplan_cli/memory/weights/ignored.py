"""Which modules a quantization config leaves in the model dtype.

Source: vLLM 0.33.0 ``quantization/utils/quant_utils.py:is_layer_skipped``,
``quantization/modelopt.py:is_layer_excluded``, ``compressed_tensors/utils.py``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache
from typing import Final

from kvplan_cli.errors import InputError, Problem, UnplannableError
from kvplan_cli.values import dataclass

# Modules that the engine merges, and what a checkpoint calls their parts.
MERGED: Final[Mapping[str, tuple[str, ...]]] = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "fused_qkv_a_proj": ("q_a_proj", "kv_a_proj_with_mqa"),
    "qkvb_proj": ("q_proj", "k_proj", "v_proj", "b_proj"),
}


# Checkpoints and the engine call the way to the layers by different names.
_OUTER: Final = frozenset({"model", "language_model", "backbone"})


def inner_path(path: str) -> str:
    """A module's path without the names that lead to the layers."""
    parts = path.split(".")
    while len(parts) > 1 and parts[0] in _OUTER:
        parts = parts[1:]
    return ".".join(parts)


class Matching(Enum):
    """How a name in the list is compared with a module's path."""

    EXACT = "exact"
    SUBSTRING = "substring"
    SUFFIX = "suffix"
    WILDCARD = "wildcard"
    EXPRESSION = "expression"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """A list of module names, and how the engine compares them."""

    names: tuple[str, ...] = ()
    matching: Matching = Matching.EXACT

    def matches(self, path: str) -> bool:
        """Whether the linear layer at ``path`` stays unquantized."""
        if not self.names:
            return False
        head, _, last = path.rpartition(".")
        parts = [f"{head}.{part}" if head else part for part in MERGED.get(last, ())]
        return self._hit(path) or (bool(parts) and self._hit(parts[0]))

    def matches_experts(self, path: str) -> bool:
        """Whether the routed experts at ``path`` stay unquantized."""
        if not self.names:
            return False
        if self.matching is Matching.EXPRESSION:
            return self._hit(f"{path}.0.gate_proj")
        if self.matching is Matching.SUFFIX:
            return self._hit(path)
        listed = any("experts" in name and path in name for name in self.names)
        return listed or self._hit(path)

    def _hit(self, path: str) -> bool:
        if path in self.names:
            return True
        match self.matching:
            case Matching.EXACT:
                return False
            case Matching.SUBSTRING:
                return any(name in path for name in self.names)
            case Matching.SUFFIX:
                return any(path.endswith(f".{name}") for name in self.names)
            case Matching.WILDCARD:
                return _told(self.names).hits(path)
            case Matching.EXPRESSION:
                return any(_expression(name, path) for name in self.names)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A list's names by what comparing them takes: most are no patterns, and parts of a path."""

    names: tuple[str, ...]
    inner: tuple[str, ...]
    patterns: tuple[str, ...]
    inner_patterns: tuple[str, ...]

    def hits(self, path: str) -> bool:
        bare = inner_path(path)
        return (
            any(name in bare for name in self.inner)
            or any(name in path for name in self.names)
            or any(fnmatchcase(path, pattern) for pattern in self.patterns)
            or any(fnmatchcase(bare, pattern) for pattern in self.inner_patterns)
        )


@cache
def _told(names: tuple[str, ...]) -> _Told:
    inner = tuple(map(inner_path, names))
    return _Told(
        names=names,
        inner=inner,
        patterns=tuple(filter(_WILD.search, names)),
        inner_patterns=tuple(filter(_WILD.search, inner)),
    )


_WILD: Final = re.compile(r"[*?\[]")


# A config is a stranger's text: only expressions that cannot run away are tried, that is
# literals, groups of alternatives, ``.*`` and ``\\d+``.
_TAME: Final = re.compile(r"(?:[\w\-/:|^$.]|\\\.|\.\*|\\d\+|\((?:\?:)?|\))*")
_MOST_WILDCARDS: Final = 6


def _expression(name: str, path: str) -> bool:
    if not name.startswith("re:"):
        return False
    pattern = name[3:]
    if pattern.count("*") + pattern.count("+") > _MOST_WILDCARDS or not _TAME.fullmatch(pattern):
        raise UnplannableError(
            Problem(
                where="quantization_config: ignore",
                reason=f"kvplan does not follow the expression {pattern[:60]!r}",
                way_out="give the rank's weights with --weights",
            )
        )
    try:
        return re.match(pattern, path) is not None
    except re.error as error:
        raise InputError(
            Problem(where="quantization_config: ignore", reason=f"{pattern[:60]!r}: {error}")
        ) from error
