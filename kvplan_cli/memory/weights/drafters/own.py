"""What a drafter holds beside its target, and what it may share with it.

Source: vLLM 0.33.0 ``vllm/v1/worker/gpu/spec_decode/eagle/utils.py:load_eagle_model`` and its
siblings: an embedding or head that the draft's checkpoint lacks, or has as the target has it,
is the target's.
"""

from __future__ import annotations

from enum import Enum

from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.values import dataclass


class Keeps(Enum):
    """Whether a drafter keeps a part of its own where the target has one too."""

    NEVER = "never"
    IF_STORED = "if stored"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftWeights:
    """The tensors of a drafter on a rank of the last stage.

    layers: what is its own in any case. embedding, head: over the vocabulary. other_words: its
    head counts other words than the target's, whose head would not fit.
    """

    layers: Tensors
    embedding: Tensors = ()
    head: Tensors = ()
    keeps_embedding: Keeps = Keeps.NEVER
    keeps_head: Keeps = Keeps.NEVER
    other_words: bool = False

    def tensors(self, *, embedding: bool, head: bool) -> Tensors:
        """All of its own. embedding, head: whether it keeps those that it might share."""
        held = self.layers
        if _kept(self.keeps_embedding, stored=embedding):
            held += self.embedding
        if _kept(self.keeps_head, stored=head):
            held += self.head
        return held


def _kept(keeps: Keeps, *, stored: bool) -> bool:
    return keeps is Keeps.ALWAYS or (stored and keeps is Keeps.IF_STORED)
