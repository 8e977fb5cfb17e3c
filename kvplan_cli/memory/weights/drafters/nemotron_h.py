"""Nemotron-H's modules: a pattern of single mixers between one projection and one norm.

Source: vLLM 0.33.0 ``model_executor/models/nemotron_h_mtp.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvplan_cli.memory.weights.attention import Attention
from kvplan_cli.memory.weights.drafters.own import DraftWeights
from kvplan_cli.memory.weights.drafters.place import DraftPlace
from kvplan_cli.memory.weights.families.nemotron_h import mixture
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import Tensors

_ATTENTION = Attention(path="mixer")


def nemotron_h(place: DraftPlace) -> DraftWeights:
    """The mixers of ``mtp_hybrid_override_pattern``, a norm before each."""
    hidden = place.hidden_size
    once = _layer(place, 0).column("eh_proj", 2 * hidden, hidden) + place.norms(3)
    return DraftWeights(layers=once + tuple(t for mixer in _mixers(place) for t in mixer))


def _mixers(place: DraftPlace) -> Iterator[Tensors]:
    attending = iter(place.blocks)
    for number, letter in enumerate(place.text.text("mtp_hybrid_override_pattern")):
        index = place.first_number + number
        caches = next(attending) if letter == "*" else ()
        facts = replace(place.facts(index, caches, place.text), site=_layer(place, number))
        yield (_ATTENTION if letter == "*" else mixture)(facts) + place.norms(1)


def _layer(place: DraftPlace, number: int) -> Site:
    """The place of a mixer, whether or not it has a cache whose name tells it."""
    return place.site.at(f"mtp.layers.{number}")
