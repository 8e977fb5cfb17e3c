"""Per-layer attention kinds of a config: as declared, or as its class derives them.

Every rule takes the language part, its number of layers and its window in tokens, and gives
one kind a layer, or None where the class knows no kinds.
Source: transformers 5.20.2 ``models/*/configuration_*.py`` and
``configuration_utils.py:validate_layer_type``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kvplan_cli.errors import InputError, MissingFieldError, Problem
from kvplan_cli.hf_config import HfConfig

FULL: Final = "full_attention"
SLIDING: Final = "sliding_attention"
CHUNKED: Final = "chunked_attention"
LINEAR: Final = "linear_attention"

KNOWN_LAYER_TYPES: Final = (
    FULL,
    SLIDING,
    CHUNKED,
    "window_attention",
    "indexed_attention",
    "compressed_sparse_attention",
    "heavily_compressed_attention",
    "minimax_m3_sparse",
    "conv",
    "moe",
    "hybrid",
    "hybrid_sliding",
    "reference_sliding_attention",
    LINEAR,
)
_LEGACY: Final[Mapping[str, str]] = {
    "mamba": LINEAR,
    "attention": FULL,
    "deepseek_sparse_attention": "indexed_attention",
    "qwen_sparse_attention": "indexed_attention",
}

# The window is asked for only by the rules that turn on it.
Window = Callable[[], int | None]
LayerTypes = Callable[[HfConfig, int, Window], Sequence[str] | None]


def declared(config: HfConfig, layers: int, window: Window) -> Sequence[str] | None:
    """``layer_types`` of the file; InputError for an unknown kind or a wrong length."""
    kinds = config.optional_list("layer_types")
    if kinds is None:
        return None
    problems = [
        _problem(config, f"layer_types[{index}]", f"unknown layer type {kind!r}", _KINDS)
        for index, kind in enumerate(kinds)
        if not isinstance(kind, str) or _LEGACY.get(kind, kind) not in KNOWN_LAYER_TYPES
    ]
    if len(kinds) != layers:
        reason = f"{len(kinds)} entries for num_hidden_layers {layers}"
        problems.append(_problem(config, "layer_types", reason, "give one entry a layer"))
    if problems:
        raise InputError(problems[:8])
    return [_LEGACY.get(kind, kind) for kind in kinds]


_KINDS: Final = "known: " + ", ".join(KNOWN_LAYER_TYPES)


def _problem(config: HfConfig, key: str, reason: str, way_out: str) -> Problem:
    return Problem(where=f"{config.origin}: {config.where(key)}", reason=reason, way_out=way_out)


def _or_declared(derive: Callable[[HfConfig, int, Window], Iterable[str]]) -> LayerTypes:
    def rule(config: HfConfig, layers: int, window: Window) -> Sequence[str] | None:
        kinds = declared(config, layers, window)
        return list(derive(config, layers, window)) if kinds is None else kinds

    return rule


def _period(config: HfConfig, key: str | None, default: int) -> int:
    given = config.optional_integer(key, minimum=1) if key is not None else None
    return default if given is None else given


def every(period: int, key: str | None = None, *, last_full: bool = False) -> LayerTypes:
    """Full attention at the end of each period, sliding before it.

    period: layers, unless the file's ``key`` gives another. last_full: the last layer is full
    in any case, even against the file.
    """

    def rule(config: HfConfig, layers: int, window: Window) -> Sequence[str] | None:
        kinds = declared(config, layers, window)
        if kinds is None:
            step = _period(config, key, period)
            kinds = [SLIDING if (index + 1) % step else FULL for index in range(layers)]
        return [*kinds[:-1], FULL] if last_full else kinds

    return rule


def every_from_first(period: int) -> LayerTypes:
    """Full attention at the start of each period, sliding after it."""
    return _or_declared(
        lambda config, layers, window: (
            SLIDING if index % period else FULL for index in range(layers)
        )
    )


def every_from_last(period: int) -> LayerTypes:
    """Full attention in the last layer and each ``period`` before it."""
    return _or_declared(
        lambda config, layers, window: (
            SLIDING if (layers - 1 - index) % period else FULL for index in range(layers)
        )
    )


def first_and_every(period: int) -> LayerTypes:
    """Full attention in the first layer and at the end of each period."""
    return _or_declared(
        lambda config, layers, window: (
            FULL if index == 0 or not (index + 1) % period else SLIDING for index in range(layers)
        )
    )


@_or_declared
def global_then_local(config: HfConfig, layers: int, window: Window) -> Iterable[str]:
    """ModernBERT: full attention at the start of each period, three layers where not stated."""
    step = _period(config, "global_attn_every_n_layers", 3)
    return (SLIDING if index % step else FULL for index in range(layers))


@_or_declared
def all_full(config: HfConfig, layers: int, window: Window) -> Iterable[str]:
    """No kinds declared means full attention everywhere."""
    return (FULL for _ in range(layers))


@_or_declared
def all_sliding(config: HfConfig, layers: int, window: Window) -> Iterable[str]:
    """No kinds declared means the window everywhere, where there is one."""
    return (FULL if window() is None else SLIDING for _ in range(layers))


def declared_with_drafts(config: HfConfig, layers: int, window: Window) -> Sequence[str] | None:
    """``layer_types`` that may go on for the draft layers; none declared is full attention."""
    kinds = config.optional_list("layer_types")
    drafts = config.optional_integer("num_nextn_predict_layers", minimum=0) or 0
    if kinds is not None and drafts and len(kinds) == layers + drafts:
        layers_only = {**config.values, "layer_types": kinds[:layers]}
        config = HfConfig(layers_only, config.origin, config.path)
    return all_full(config, layers, window)


@_or_declared
def gated_tail(config: HfConfig, layers: int, window: Window) -> Iterable[str]:
    """Qwen: with a window, it slides from layer ``max_window_layers`` on."""
    if window() is None:
        return (FULL for _ in range(layers))
    first = config.integer("max_window_layers")
    return (FULL if index < first else SLIDING for index in range(layers))


@_or_declared
def gated_alternating(config: HfConfig, layers: int, window: Window) -> Iterable[str]:
    """Qwen2-MoE: with a window, every other layer below ``max_window_layers`` slides."""
    if not config.optional_boolean("use_sliding_window"):
        return (FULL for _ in range(layers))
    end = config.integer("max_window_layers")
    return (SLIDING if (index + 1) % 2 and index < end else FULL for index in range(layers))


@_or_declared
def dense_prefix(config: HfConfig, layers: int, window: Window) -> Iterable[str]:
    """Cohere2-MoE: the dense layers in front have a period of their own."""
    dense = config.optional_integer("first_k_dense_replace", minimum=0) or 0
    prefix_step = _period(config, "prefix_dense_sliding_window_pattern", 1)
    step = _period(config, "sliding_window_pattern", 4)
    prefix = [SLIDING if (index + 1) % prefix_step else FULL for index in range(dense)]
    rest = [SLIDING if (index + 1) % step else FULL for index in range(layers - dense)]
    return prefix + rest


@_or_declared
def exaone_pattern(config: HfConfig, layers: int, window: Window) -> Iterable[str]:
    """EXAONE: a period of ``sliding_window_pattern`` layers (4 where absent)."""
    if config.raw("sliding_window") is None:
        raise MissingFieldError(config.where("layer_types"), config.origin)
    pattern = config.raw("sliding_window_pattern")
    if isinstance(pattern, str):
        raise config.wrong(
            "sliding_window_pattern", "an integer", "or give layer_types, one entry a layer"
        )
    step = _period(config, "sliding_window_pattern", 4)
    return (SLIDING if (index + 1) % step else FULL for index in range(layers))


def no_rope_layers(config: HfConfig, layers: int) -> Sequence[bool]:
    """Which layers use rotary positions, by ``no_rope_layers`` (where 1 means they do)."""
    flags = config.optional_list("no_rope_layers")
    if flags:
        if len(flags) != layers:
            reason = f"{len(flags)} entries for num_hidden_layers {layers}"
            raise InputError(_problem(config, "no_rope_layers", reason, "give one entry a layer"))
        return [bool(flag) for flag in flags]
    step = _period(config, "no_rope_layer_interval", 4)
    return [(index + 1) % step != 0 for index in range(layers)]


@_or_declared
def llama4_chunks(config: HfConfig, layers: int, window: Window) -> Iterable[str]:
    """Llama 4: layers with rotary positions attend in chunks."""
    return (CHUNKED if rope else FULL for rope in no_rope_layers(config, layers))


@_or_declared
def nope_windows(config: HfConfig, layers: int, window: Window) -> Iterable[str]:
    """SmolLM3: with a window, layers without rotary positions slide."""
    windowed = bool(config.optional_boolean("use_sliding_window")) and window is not None
    return (SLIDING if windowed and not rope else FULL for rope in no_rope_layers(config, layers))


@_or_declared
def linear_every_other(config: HfConfig, layers: int, window: Window) -> Iterable[str]:
    """MiniMax: full and linear attention in turn."""
    return (LINEAR if index % 2 else FULL for index in range(layers))


@_or_declared
def attention_at_indices(config: HfConfig, layers: int, window: Window) -> Iterable[str]:
    """Bamba: attention in the layers of ``attn_layer_indices`` only."""
    indices = config.optional_list("attn_layer_indices") or ()
    return (FULL if index in indices else LINEAR for index in range(layers))


def declared_as(key: str) -> LayerTypes:
    """``layer_types`` of the file, which may stand under ``key``."""

    def rule(config: HfConfig, layers: int, window: Window) -> Sequence[str] | None:
        if config.has(key) and not config.has("layer_types"):
            renamed = {**config.values, "layer_types": config.raw(key)}
            config = HfConfig(renamed, config.origin, config.path)
        return declared(config, layers, window)

    return rule


def linear_between(config: HfConfig, layers: int, window: Window) -> Sequence[str] | None:
    """Qwen3-Next: full attention at the end of each ``full_attention_interval`` (4)."""
    kinds = declared(config, layers, window)
    if kinds is not None:
        return kinds
    step = _period(config, "full_attention_interval", 4)
    return [LINEAR if (index + 1) % step else FULL for index in range(layers)]


@_or_declared
def linear_between_or_before(config: HfConfig, layers: int, window: Window) -> Iterable[str]:
    """OLMo hybrid: full attention each fourth layer, and at least in the last one."""
    kinds = [LINEAR if index % 4 != 3 else FULL for index in range(layers)]
    return kinds if FULL in kinds else [*kinds[:-1], FULL]


def linear_unless_declared(config: HfConfig, layers: int, window: Window) -> Sequence[str] | None:
    """Granite 4: states only, unless the file lists kinds."""
    kinds = declared_as("layers_block_type")(config, layers, window)
    return [LINEAR] * layers if kinds is None else kinds


def attention_at_offset(config: HfConfig, layers: int, window: Window) -> Sequence[str] | None:
    """Jamba: one attention layer in each period of layers, whatever the file lists."""
    period, offset = config.positive("attn_layer_period"), config.integer("attn_layer_offset")
    return [FULL if index % period == offset else LINEAR for index in range(layers)]


@_or_declared
def short_convolutions(config: HfConfig, layers: int, window: Window) -> Iterable[str]:
    """LFM2: attention in the layers of ``full_attn_idxs`` only; in all where there is none."""
    indices = config.optional_list("full_attn_idxs")
    return (FULL if indices is None or index in indices else "conv" for index in range(layers))


def indexed_between(config: HfConfig, layers: int, window: Window) -> Sequence[str] | None:
    """Qwen4 Exp: as Qwen3-Next, where what is called full attention is indexed."""
    kinds = linear_between(config, layers, window) or ()
    return ["indexed_attention" if kind == FULL else kind for kind in kinds]


@_or_declared
def indexed_in_fours(config: HfConfig, layers: int, window: Window) -> Iterable[str]:
    """GLM 5 Next: every fourth layer is indexed."""
    return ("indexed_attention" if index % 4 == 3 else LINEAR for index in range(layers))
