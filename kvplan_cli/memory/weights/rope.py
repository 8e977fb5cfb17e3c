"""Rotary position tables: one for each distinct rotation on a stage.

Source: vLLM 0.33.0 ``layers/rotary_embedding/__init__.py:get_rope``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from kvplan_cli.errors import InputError, Problem
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.layers import Size, sized
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensor, Tensors
from kvplan_cli.models.shape import AttentionKind, AttentionLayer, CacheLayer
from kvplan_cli.values import dataclass

Parameters = Mapping[str, Any]
_LAYER_TYPES: Final = ("full_attention", "sliding_attention", "chunked_attention")
_TYPE_OF: Final[Mapping[AttentionKind, str]] = {
    AttentionKind.FULL: "full_attention",
    AttentionKind.SLIDING: "sliding_attention",
    AttentionKind.CHUNKED: "chunked_attention",
    AttentionKind.ENCODER_ONLY: "full_attention",
}
_FACTORS: Final = ("partial_rotary_factor", "rotary_pct", "rotary_emb_fraction")
MAX_POSITIONS: Final[Size] = sized("max_position_embeddings")
# Kinds whose table has as many rows as positions were asked for.
_PLAIN: Final = frozenset({"default", "llama3", "dynamic", "ntk", "proportional", "bailing_mrope"})


class Rotation(NamedTuple):
    """What one rotation needs: head size, rows asked for, and its parameters.

    positions_factor: rows of a multimodal rotation for each position.
    """

    head_size: int
    positions: int
    parameters: tuple[tuple[str, Any], ...]
    positions_factor: int = 4


def parameters_of(config: HfConfig, layer_type: str | None = None) -> dict[str, Any]:
    """The rope parameters of a config, old and new spelling, for one kind of layer."""
    section = config.optional_section("rope_scaling") or config.optional_section("rope_parameters")
    values: dict[str, Any] = dict(section.values) if section is not None else {}
    if values and layer_type is not None and any(name in values for name in _LAYER_TYPES):
        nested = values.get(layer_type)
        values = dict(nested) if isinstance(nested, Mapping) else {}
    for key in _FACTORS:
        if "partial_rotary_factor" not in values and config.has(key):
            values["partial_rotary_factor"] = config.optional_number(key)
    for key in ("rope_theta", "rotary_emb_base"):
        # A list has a theta for each layer, which its family reads.
        listed = isinstance(config.raw(key), list)
        if "rope_theta" not in values and config.has(key) and not listed:
            values["rope_theta"] = config.optional_number(key)
    kind = values.pop("type", None)
    values.setdefault("rope_type", kind or "default")
    values["rope_type"] = {"su": "longrope", "mrope": "default"}.get(
        values["rope_type"], values["rope_type"]
    )
    if values["rope_type"] in ("llama3", "yarn", "longrope"):
        _original_length(values, config)
    return values


def _original_length(values: dict[str, Any], config: HfConfig) -> None:
    key = "original_max_position_embeddings"
    outside = config.optional_integer(key)
    if outside is not None:
        values[key] = outside
    elif key not in values:
        values[key] = config.positive("max_position_embeddings")


def freeze(parameters: Parameters) -> tuple[tuple[str, Any], ...]:
    """Parameters as a value that can be compared and hashed."""
    pairs = [
        (key, repr(value) if isinstance(value, list | tuple | dict) else value)
        for key, value in parameters.items()
    ]
    if any(key == "mrope_section" for key, _ in pairs):
        pairs.append(("is_mrope", True))
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


def table(rotation: Rotation, itemsize: int, where: str) -> Tensors:
    """The cosine and sine table of a rotation."""
    values = dict(rotation.parameters)
    kind = values.get("rope_type", "default")
    rotary = _rotary_dim(rotation, values)
    rows = _rows(rotation, values, kind, where)
    width = 2 * (-(-rotary // 2))
    return (Tensor("rotary_emb.cos_sin_cache", rows * width, itemsize),)


def _rotary_dim(rotation: Rotation, values: Parameters) -> int:
    if values.get("rope_type") == "proportional":
        return rotation.head_size
    given = values.get("rope_dim")
    if given:
        return int(given)
    return int(rotation.head_size * float(values.get("partial_rotary_factor") or 1.0))


def _rows(rotation: Rotation, values: Parameters, kind: str, where: str) -> int:
    positions = rotation.positions
    multimodal = rotation.positions_factor if values.get("is_mrope") else 1
    if kind == "default":
        return positions * multimodal
    if kind in _PLAIN:
        return positions
    if kind == "longrope":
        return positions + int(_number(values, "original_max_position_embeddings", where))
    factor = _number(values, "factor", where)
    if kind == "linear":
        return int(positions * factor)
    if kind in ("yarn", "deepseek_yarn"):
        original = _number(values, "original_max_position_embeddings", where)
        return int(original * multimodal * factor)
    raise unknown(f"rope type {kind!r}", where)


def _number(values: Parameters, key: str, where: str) -> float:
    value = values.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(Problem(where=f"{where}: {key}", reason=f"expected a number: {value!r}"))
    return float(value)


def attentions(layers: Sequence[CacheLayer]) -> tuple[AttentionLayer, ...]:
    return tuple(layer for layer in layers if isinstance(layer, AttentionLayer))


def uses_rope(layer: AttentionLayer, config: HfConfig) -> bool:
    return True


def _as_listed(layers: Sequence[AttentionLayer], config: HfConfig) -> tuple[AttentionLayer, ...]:
    """The layers by the types that the config lists, where no window is in use: they turn by
    these still.
    """
    listed = config.optional_list("layer_types") or ()
    if any(layer.kind is not AttentionKind.FULL for layer in layers):
        return tuple(layers)
    return tuple(
        replace(layer, kind=AttentionKind.SLIDING)
        if layer.decoder_layer < len(listed)
        and listed[layer.decoder_layer] == _TYPE_OF[AttentionKind.SLIDING]
        else layer
        for layer in layers
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeTables:
    """The tables of a decoder's layers.

    positions: rows asked for. head_size: None takes each layer's. itemsize: None takes the
    model dtype's. by_type: layers of other kinds have other parameters. rotates: which layers
    have positions at all. adjust: a family's own parameters of a layer. interleaved: pairs of
    neighbours turn, so that no other model's table is the same one.
    """

    positions: Size = MAX_POSITIONS
    head_size: Size | None = None
    itemsize: int | None = None
    by_type: bool = False
    positions_factor: int = 4
    rotates: Callable[[AttentionLayer, HfConfig], bool] = uses_rope
    adjust: Callable[[dict[str, Any], AttentionLayer, HfConfig], dict[str, Any]] | None = None
    interleaved: bool = False

    def __call__(self, config: HfConfig, layers: Sequence[CacheLayer], itemsize: int) -> Tensors:
        return tuple(self.by_rotation(config, layers, itemsize).values())

    def by_rotation(
        self, config: HfConfig, layers: Sequence[CacheLayer], itemsize: int
    ) -> Mapping[object, Tensor]:
        """The tables by what the engine tells them apart by."""
        width = itemsize if self.itemsize is None else self.itemsize
        turning = [layer for layer in attentions(layers) if self.rotates(layer, config)]
        if self.by_type:
            turning = list(_as_listed(turning, config))
        rotations = dict.fromkeys(self._rotation(config, layer) for layer in turning)
        made = ((each, table(each, width, config.origin)) for each in rotations)
        return {(each, width, self.interleaved): tensor for each, (tensor,) in made}

    def _rotation(self, config: HfConfig, layer: AttentionLayer) -> Rotation:
        parameters = parameters_of(config, _TYPE_OF[layer.kind] if self.by_type else None)
        if self.adjust is not None:
            parameters = self.adjust(parameters, layer, config)
        head_size = layer.head_size if self.head_size is None else self.head_size(config)
        positions = self.positions(config)
        return Rotation(head_size, positions, freeze(parameters), self.positions_factor)


def of_listed_type(
    parameters: dict[str, Any], layer: AttentionLayer, config: HfConfig
) -> dict[str, Any]:
    """Parameters by the type that the config lists for the layer."""
    return parameters_of(config, str(config.list("layer_types")[layer.decoder_layer]))


@dataclass(frozen=True, slots=True, kw_only=True)
class InverseFrequencies:
    """The rotary module of ``transformers``: two small fp32 vectors, no table.

    by_type: one pair for each kind of layer that the config names.
    """

    by_type: bool = False

    def __call__(self, config: HfConfig, layers: Sequence[CacheLayer], itemsize: int) -> Tensors:
        turning = attentions(layers)
        if not turning:
            return ()
        types = self._types(config, turning) if self.by_type else (None,)
        tensors: list[Tensor] = []
        for layer_type in types:
            parameters = parameters_of(config, layer_type)
            rotary = int(
                turning[0].head_size * float(parameters.get("partial_rotary_factor") or 1.0)
            )
            vector = Tensor("rotary_emb.inv_freq", -(-rotary // 2), FLOAT32)
            tensors += [vector, vector._replace(name="rotary_emb.original_inv_freq")]
        return tuple(tensors)

    @staticmethod
    def _types(config: HfConfig, layers: Sequence[AttentionLayer]) -> tuple[str | None, ...]:
        named = config.optional_list("layer_types")
        if named is None:
            named = [_TYPE_OF[layer.kind] for layer in layers]
        return tuple(sorted({str(name) for name in named}))


def no_rope(config: HfConfig, layers: Sequence[CacheLayer], itemsize: int) -> Tensors:
    """No rotation, or one without a table."""
    return ()


Rope = Callable[[HfConfig, Sequence[CacheLayer], int], Tensors]


@runtime_checkable
class TellsRotations(Protocol):
    """Tables that the engine finds again by their rotation."""

    def by_rotation(
        self, config: HfConfig, layers: Sequence[CacheLayer], itemsize: int
    ) -> Mapping[object, Tensor]: ...


@runtime_checkable
class CallsKernel(Protocol):
    """Tables that differ where the engine calls its kernel instead of compiling the rotation."""

    def uncompiled(self, config: HfConfig, itemsize: int) -> Rope: ...


def rope_of(rope: Rope, config: HfConfig, itemsize: int, *, is_compiled: bool) -> Rope:
    """The tables as this start keeps them."""
    if is_compiled or not isinstance(rope, CallsKernel):
        return rope
    return rope.uncompiled(config, itemsize)


TABLES: Final = RopeTables()
INTERLEAVED: Final = RopeTables(interleaved=True)
