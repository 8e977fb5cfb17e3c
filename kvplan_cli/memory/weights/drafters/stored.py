"""A drafter's own tensors in a checkpoint: modules behind a model's layers, or a whole draft."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.stored import (
    DRAFTING,
    LAYER,
    Share,
    StoredModel,
    StoredTensor,
    StoredWeights,
    experts_in,
)
from kvplan_cli.values import dataclass

_EMBEDDING: Final = re.compile(r"(?:^|\.)embed_tokens\.")
_HEAD: Final = re.compile(r"(?:^|\.)(?:lm_head|shared_head\.head|output_head)\.")
# Maps of words that the engine reads and does not keep.
_DROPPED: Final = re.compile(r"(?:^|\.)t2d$|rotary_emb\.")
# What joins token and state, by the drafter that shares its rows out.
_JOINED: Final = frozenset({"fc", "fc_embedding", "fc_hidden", "eh_proj"})
_JOINS_SHARED: Final = frozenset(
    {"ExaoneMoeMTP", "NemotronHMTPModel", "Qwen3NextMTP", "Qwen3_5MTP", "Qwen3_5MoeMTP"}
    | {"InternS2MobiusMTP", "Qwen4ExpMTP"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDraft:
    """A drafter as its checkpoint has it.

    tensors: its own, without embedding and head. has_embedding, has_head: whether the checkpoint
    brings them for it.
    """

    tensors: tuple[StoredTensor, ...]
    has_embedding: bool
    has_head: bool

    def on_rank(self, site: Site, architecture: str, num_kv_heads: int) -> StoredWeights:
        """What a rank holds of the drafter's own tensors."""
        joined = Share.COLUMN if architecture in _JOINS_SHARED else Share.WHOLE
        model = StoredModel(
            tensors=self.tensors,
            num_kv_heads=num_kv_heads,
            num_experts=experts_in(self.tensors),
            shares=dict.fromkeys(_JOINED, joined),
        )
        return model.whole(site)


def modules_in(tensors: Iterable[StoredTensor], num_hidden_layers: int) -> StoredDraft | None:
    """The modules of a model's checkpoint that draft; None where it has none."""
    return _draft(at for at in tensors if is_drafting(at.name, num_hidden_layers))


def draft_in(tensors: Iterable[StoredTensor]) -> StoredDraft | None:
    """A checkpoint that is a drafter as a whole."""
    return _draft(tensors)


def is_drafting(name: str, num_hidden_layers: int) -> bool:
    """Whether a tensor belongs to modules behind the model's own layers."""
    if DRAFTING.search(name):
        return True
    layer = LAYER.search(name)
    return layer is not None and int(layer.group(1)) >= num_hidden_layers


def ends_among(names: Iterable[str]) -> tuple[bool, bool]:
    """Whether an embedding and a head are among the names of a drafter's tensors."""
    listed = tuple(names)
    embedding = any(_EMBEDDING.search(name) for name in listed)
    return embedding, any(_HEAD.search(name) for name in listed)


def _draft(tensors: Iterable[StoredTensor]) -> StoredDraft | None:
    kept = [tensor for tensor in tensors if not _DROPPED.search(tensor.name)]
    own = tuple(at for at in kept if not _EMBEDDING.search(at.name) and not _HEAD.search(at.name))
    if not own:
        return None
    embedding, head = ends_among(tensor.name for tensor in kept)
    return StoredDraft(tensors=own, has_embedding=embedding, has_head=head)
