"""Which release's rules a plan follows, where releases differ.

What is listed here is followed; settings, backends and all else are those of vLLM 0.33.0
whatever release is asked for. Read from the releases' own sources (0.10.1.1, 0.19.1, 0.20.0 to
0.22.1, 0.25.1 to 0.33.0), and held against public start-up logs.
"""

from __future__ import annotations

import re
from enum import Enum, IntEnum
from typing import Final

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.values import dataclass

# The release whose answers prove every part of kvplan.
NEWEST: Final = "0.33.0"
# Releases whose planner was put to the kept cases.
KEPT: Final = ("0.33.0", "0.32.0")

Version = tuple[int, int, int]
_OLDEST_KNOWN: Final[Version] = (0, 10, 0)
_CONCURRENT_BATCHES_FROM: Final[Version] = (0, 26, 0)
_TOKENS_BY_CONCURRENCY_FROM: Final[Version] = (0, 20, 1)
_STATES_CHECKED_FROM: Final[Version] = (0, 20, 0)
_RETAINED_TOKENS_FROM: Final[Version] = (0, 28, 0)
_NULL_BLOCK_RESERVED_FROM: Final[Version] = (0, 29, 0)
_DELTA_CHECKPOINTS_FROM: Final[Version] = (0, 29, 0)
_MAMBA2_CHECKPOINTS_FROM: Final[Version] = (0, 32, 0)
_GATED_DELTA_CHECKPOINTS_FROM: Final[Version] = (0, 33, 0)
_NGRAMS_OVERLAP_FROM: Final[Version] = (0, 33, 0)
_CACHE_MODE_DERIVED_FROM: Final[Version] = (0, 33, 0)
_DRAFT_LAYERS_MARKED_FROM: Final[Version] = (0, 33, 0)


class DrafterRule(Enum):
    """How the engine tells which groups hold a drafter's layers.

    BY_SPEC_AND_POSITION: the spec's non-causal mark, then the last registered layer
    (vLLM 0.32.0 ``kv_cache_utils.py:_annotate_eagle_groups``).
    BY_LAYER: the layers' own ``is_draft`` (vLLM 0.33.0 ``get_global_kv_cache_groups``).
    """

    BY_SPEC_AND_POSITION = "by_spec_and_position"
    BY_LAYER = "by_layer"


class TokenLine(Enum):
    """What the engine prints as "GPU KV cache size".

    BY_BLOCKS: num_blocks // groups x block size (x decode context parallel size); up to 0.20.0.
    BY_CONCURRENCY: int(max_concurrency x max_model_len); from 0.20.1.
    """

    BY_BLOCKS = "by_blocks"
    BY_CONCURRENCY = "by_concurrency"


class PrefillCheckpoints(IntEnum):
    """Which recurrent layers hand out states from inside a prefill; each with those before it.

    They take a further block of a request, and gated delta layers align their blocks to it.
    """

    NONE = 0
    DELTA_ATTENTION = 1
    MAMBA2 = 2
    GATED_DELTA = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRules:
    """The rules of one release.

    single_batch_in_flight: windows and chunks keep room for one batch of tokens, not for every
    batch in flight. retains_draft_tokens: windows keep the tokens that several draft modules
    read again. reserves_null_block: checks and auto-fit leave out the block that is never
    handed out. overlaps_ngrams: steps overlap by default also where n-grams are drafted.
    derives_mamba_cache_mode: the mode follows prefix caching, whatever its flag says.
    checks_captured_states: graphs are captured for max_num_seqs states or not at all; before,
    for as many as there are blocks.
    """

    release: str
    drafter_rule: DrafterRule = DrafterRule.BY_LAYER
    token_line: TokenLine = TokenLine.BY_CONCURRENCY
    single_batch_in_flight: bool = False
    retains_draft_tokens: bool = True
    reserves_null_block: bool = True
    prefill_checkpoints: PrefillCheckpoints = PrefillCheckpoints.GATED_DELTA
    overlaps_ngrams: bool = True
    derives_mamba_cache_mode: bool = True
    checks_captured_states: bool = True


NEWEST_RULES: Final = EngineRules(release=NEWEST)


def engine_rules(release: str, where: str = "--engine-version") -> EngineRules:
    """The rules of a release, as in ``0.25.1``; ``0.25`` is its first one.

    where: what named it, for the error. Raises: InputError where nothing is known of it.
    """
    version = _version(release)
    if version is None:
        raise _unknown(where, f"{release!r} is not a release")
    if version < _OLDEST_KNOWN:
        raise _unknown(where, f"nothing is known of the rules of vLLM {release}")
    if version[:2] > _version_of(NEWEST)[:2]:
        raise _unknown(where, f"vLLM {release} is newer than the newest release known")
    marked = version >= _DRAFT_LAYERS_MARKED_FROM
    by_concurrency = version >= _TOKENS_BY_CONCURRENCY_FROM
    return EngineRules(
        release=".".join(str(part) for part in version),
        drafter_rule=DrafterRule.BY_LAYER if marked else DrafterRule.BY_SPEC_AND_POSITION,
        token_line=TokenLine.BY_CONCURRENCY if by_concurrency else TokenLine.BY_BLOCKS,
        single_batch_in_flight=version < _CONCURRENT_BATCHES_FROM,
        retains_draft_tokens=version >= _RETAINED_TOKENS_FROM,
        reserves_null_block=version >= _NULL_BLOCK_RESERVED_FROM,
        prefill_checkpoints=_prefill_checkpoints(version),
        overlaps_ngrams=version >= _NGRAMS_OVERLAP_FROM,
        derives_mamba_cache_mode=version >= _CACHE_MODE_DERIVED_FROM,
        checks_captured_states=version >= _STATES_CHECKED_FROM,
    )


def _prefill_checkpoints(version: Version) -> PrefillCheckpoints:
    if version >= _GATED_DELTA_CHECKPOINTS_FROM:
        return PrefillCheckpoints.GATED_DELTA
    if version >= _MAMBA2_CHECKPOINTS_FROM:
        return PrefillCheckpoints.MAMBA2
    if version >= _DELTA_CHECKPOINTS_FROM:
        return PrefillCheckpoints.DELTA_ATTENTION
    return PrefillCheckpoints.NONE


def _version(release: str) -> Version | None:
    """A release's numbers; None for builds between releases and for other words."""
    matched = re.fullmatch(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:\.\d+)?", release, re.ASCII)
    if matched is None:
        return None
    major, minor, patch = (int(part or 0) for part in matched.groups())
    return major, minor, patch


def _version_of(release: str) -> Version:
    version = _version(release)
    assert version is not None
    return version


def _unknown(where: str, reason: str) -> InputError:
    return InputError(
        Problem(
            where=where,
            reason=reason,
            way_out=f"{' and '.join(KEPT)} are kept; those from 0.10 on are followed in part",
        )
    )
