"""The transformer block that most encoders repeat, and small helpers of their sizes."""

from __future__ import annotations

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.layers import size
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.tensors import FLOAT32, Tensors
from kvplan_cli.models.text import text_config
from kvplan_cli.values import dataclass

# Rotary tables of vision encoders have as many rows, whatever the image.
# Source: vLLM 0.33.0 ``models/qwen2_vl.py`` and kin.
VISION_POSITIONS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One layer: attention, two norms, a feed-forward.

    kv_size: rows of keys, and of values; None for as many as queries. gated: two matrices up.
    head_norm: elements of the norms of queries and keys, 0 for none. norms: how many.
    key_bias: the keys have a bias where the queries have one. one_matrix: queries, keys and
    values have one scale. whole_attention: every rank
    holds the attention whole, though the feed-forward is shared out; whole_mlp: the reverse.
    """

    hidden_size: int
    intermediate_size: int
    kv_size: int | None = None
    norm: Norm = Norm.WITH_BIAS
    norms: int = 2
    qkv_bias: bool = True
    key_bias: bool = True
    output_bias: bool = True
    mlp_bias: bool = True
    gated: bool = False
    head_norm: int = 0
    whole_attention: bool = False
    one_matrix: bool = False
    whole_mlp: bool = False

    def tensors(self, site: Site, depth: int) -> Tensors:
        """``depth`` such layers."""
        attention = site.replicated_site() if self.whole_attention else site
        mlp = site.replicated_site() if self.whole_mlp else site
        return (self._attention(attention) + self._rest(mlp)) * depth

    def _attention(self, site: Site) -> Tensors:
        hidden, keys = self.hidden_size, self.kv_size or self.hidden_size
        if self.key_bias:
            parts = (hidden + 2 * keys,) if self.one_matrix else (hidden, keys, keys)
            qkv = site.column("qkv", hidden, parts, bias=self.qkv_bias)
        else:
            qkv = site.column("q_proj", hidden, hidden, bias=self.qkv_bias)
            qkv += site.column("k_proj", hidden, keys)
            qkv += site.column("v_proj", hidden, keys, bias=self.qkv_bias)
        output = site.row("out_proj", hidden, hidden, bias=self.output_bias)
        head_norms = site.vector("qk_norm", self.head_norm) * 2 if self.head_norm else ()
        return qkv + output + head_norms

    def _rest(self, site: Site) -> Tensors:
        hidden, inner = self.hidden_size, self.intermediate_size
        widths = (inner, inner) if self.gated else (inner,)
        return (
            *site.column("fc1", hidden, widths, bias=self.mlp_bias),
            *site.row("fc2", inner, hidden, bias=self.mlp_bias),
            *self.norm.at(site, hidden) * self.norms,
        )


def text_hidden(config: HfConfig) -> int:
    """The language model's width, which projectors end in."""
    return size(text_config(config), "hidden_size")


def pair(config: HfConfig, key: str) -> tuple[int, int]:
    """A size that is one number for both sides, or a list of two."""
    value = config.raw(key)
    if isinstance(value, list | tuple):
        if len(value) != 2 or not all(isinstance(each, int) for each in value):
            raise config.wrong(key, "a number, or a list of two")
        return int(value[0]), int(value[1])
    side = config.positive(key)
    return side, side


def patches(config: HfConfig) -> int:
    """Patches of one image."""
    height, width = pair(config, "image_size")
    patch_height, patch_width = pair(config, "patch_size")
    return (height // patch_height) * (width // patch_width)


def pixels(config: HfConfig, channels: str = "num_channels") -> int:
    """Numbers in one patch of an image."""
    height, width = pair(config, "patch_size")
    count = config.optional_integer(channels, minimum=1)
    return (3 if count is None else count) * height * width


def vision_rope(site: Site, head_size: int) -> Tensors:
    """Cosines and sines of an image's rows and columns."""
    return site.vector("rotary_pos_emb.cos_sin_cache", VISION_POSITIONS * (head_size // 2))


def two_linears(site: Site, inputs: int, inner: int, outputs: int, *, bias: bool = True) -> Tensors:
    """A projector of two layers, whose inner width is shared out."""
    up = site.column("linear_1", inputs, inner, bias=bias)
    return up + site.row("linear_2", inner, outputs, bias=bias)


def frequencies(site: Site, count: int) -> Tensors:
    """The inverse frequencies of a ``transformers`` rotary module."""
    return site.vector("inv_freq", count, FLOAT32) * 2
