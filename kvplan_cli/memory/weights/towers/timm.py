"""Encoders of the timm library, whose sizes stand in the encoder's name alone.

Source: vLLM 0.33.0 ``models/{deepseek_vl2,openvla,kanana_v}.py``, timm 1.0.31 ``models/
{vision_transformer,regnet}.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kvplan_cli.hf_config import HfConfig
from kvplan_cli.memory.weights.norms import Norm
from kvplan_cli.memory.weights.ranks import Site
from kvplan_cli.memory.weights.schemes import unknown
from kvplan_cli.memory.weights.tensors import Tensors
from kvplan_cli.memory.weights.towers.clip_like import vision
from kvplan_cli.memory.weights.towers.encoder import Block, text_hidden
from kvplan_cli.memory.weights.towers.qwen import qwen2_encoder
from kvplan_cli.values import dataclass

_PATCH: Final = 14
_PIXELS: Final = _PATCH * _PATCH * 3


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionTransformer:
    """One of timm's encoders over patches of 14 pixels.

    marks: tokens before the patches. scaled: each half of a layer has a scale. pooled: a head
    attends to the patches by one learned query.
    """

    hidden_size: int
    intermediate_size: int
    depth: int
    marks: int = 0
    scaled: bool = False
    pooled: bool = False

    def tensors(self, site: Site, image_size: int) -> Tensors:
        """Whole on every rank but the feed-forwards, which ``site`` may share out."""
        width = self.hidden_size
        block = Block(
            hidden_size=width, intermediate_size=self.intermediate_size, whole_attention=True
        )
        return (
            *site.vector("pos_embed", (image_size // _PATCH) ** 2 * width),
            *site.vector("marks", self.marks * width),
            *site.plain("patch_embed.proj", _PIXELS, width, bias=True),
            *block.tensors(site, self.depth),
            *(site.vector("ls.gamma", width) * (2 * self.depth if self.scaled else 0)),
            *Norm.WITH_BIAS.at(site, width),
            *(self._pool(site) if self.pooled else ()),
        )

    def _pool(self, site: Site) -> Tensors:
        width, inner = self.hidden_size, self.intermediate_size
        return (
            *site.vector("attn_pool.latent", width),
            *site.plain("attn_pool.q", width, width, bias=True),
            *site.plain("attn_pool.kv", width, 2 * width, bias=True),
            *site.plain("attn_pool.proj", width, width, bias=True),
            *Norm.WITH_BIAS.at(site, width, "attn_pool.norm"),
            *site.column("attn_pool.mlp.fc1", width, inner, bias=True),
            *site.row("attn_pool.mlp.fc2", inner, width, bias=True),
        )


SIGLIP: Final = VisionTransformer(hidden_size=1152, intermediate_size=4304, depth=27, pooled=True)
_DINO: Final = VisionTransformer(
    hidden_size=1024, intermediate_size=4096, depth=24, marks=1 + 4, scaled=True
)
# The encoder is the same whatever the config names; the projector's sizes are its class's.
# Source: vLLM 0.33.0 ``transformers_utils/configs/deepseek_vl2.py:MlpProjectorConfig``.
_DEEPSEEK_PIXELS: Final = 384
_PROJECTOR: Final[Mapping[str, Any]] = {
    "projector_type": "downsample_mlp_gelu",
    "input_dim": 1152,
    "n_embed": 2048,
    "depth": 2,
    "mlp_ratio": 1,
    "downsample_ratio": 2,
}


def _projector_part(config: HfConfig) -> HfConfig:
    given = config.optional_section("projector_config")
    values = {} if given is None else given.values
    return HfConfig({**_PROJECTOR, **values}, config.origin, config.where("projector_config"))


def deepseek_vl2(site: Site, config: HfConfig) -> Tensors:
    """SigLIP, of which the ranks share the feed-forwards, and a projector."""
    part = _projector_part(config)
    outputs, seen = part.positive("n_embed"), part.positive("input_dim")
    encoder = SIGLIP.tensors(site, _DEEPSEEK_PIXELS)
    kind = part.text("projector_type")
    if kind == "linear":
        return encoder + site.plain("projector.layers", seen, outputs, bias=True)
    if kind != "downsample_mlp_gelu":
        raise unknown(f"projector {kind!r} is not described", part.where("projector_type"))
    inner, merged = outputs * part.positive("mlp_ratio"), part.positive("downsample_ratio") ** 2
    return (
        *encoder,
        *site.plain("projector.layers.0", seen * merged, inner, bias=True),
        *site.plain("projector.layers", inner, inner, bias=True) * (part.positive("depth") - 2),
        *site.plain("projector.layers", inner, outputs, bias=True),
    )


def deepseek_vl2_marks(site: Site, config: HfConfig) -> Tensors:
    """A line break and a separator of views: of no module, so every stage has them."""
    return site.vector("mark", _projector_part(config).positive("n_embed")) * 2


_OPENVLA_PIXELS: Final = 224


def openvla(site: Site, config: HfConfig) -> Tensors:
    """DINOv2 and SigLIP side by side, whole on every rank, and a projector of three linears."""
    whole, hidden = site.replicated_site(), text_hidden(config)
    seen = _DINO.hidden_size + SIGLIP.hidden_size
    return (
        *_DINO.tensors(whole, _OPENVLA_PIXELS),
        *SIGLIP.tensors(whole, _OPENVLA_PIXELS),
        *site.column("projector.fc1", seen, 4 * seen, bias=True),
        *site.row("projector.fc2", 4 * seen, hidden, bias=True),
        *site.plain("projector.fc3", hidden, hidden, bias=True),
    )


# A squeeze of a block's channels has a quarter of what the block takes in; a kernel's side.
_SQUEEZE: Final = 0.25
_KERNEL: Final = 3 * 3


def _reg_block(site: Site, inputs: int, width: int) -> Tensors:
    """Convolutions over single channels between two over all of them."""
    squeezed = round(inputs * _SQUEEZE)
    shortcut = () if inputs == width else site.plain("downsample.conv", inputs, width)
    norms = 3 if inputs == width else 4
    return (
        *site.plain("conv1", inputs, width),
        *site.plain("conv2", _KERNEL, width),
        *site.plain("se.fc1", width, squeezed, bias=True),
        *site.plain("se.fc2", squeezed, width, bias=True),
        *site.plain("conv3", width, width),
        *shortcut,
        *Norm.WITH_BIAS.at(site, width) * norms,
    )


def _reg_stage(site: Site, inputs: int, width: int, depth: int) -> Tensors:
    return _reg_block(site, inputs, width) + _reg_block(site, width, width) * (depth - 1)


def kanana(site: Site, config: HfConfig) -> Tensors:
    """Qwen2's encoder, stages of RegNet around the merging of patches, and linears."""
    part = config.section("projector_config")
    seen, width, depth = (
        part.positive("encoder_hidden_size"),
        part.positive("hidden_size"),
        part.integer("depth"),
    )
    merged, outputs = part.positive("merge_size") ** 2, part.positive("output_hidden_size")
    positions = part.positive("pos_emb_size") if part.boolean("pos_emb") else 0
    stages: Tensors = ()
    if depth:
        stages = _reg_stage(site, seen, width, depth)
        stages += _reg_stage(site, merged * width, width, depth)
    return (
        *qwen2_encoder(site, vision(config)),
        *site.vector("pos_emb", positions * seen),
        *stages,
        *site.plain("readout.0", width if depth else seen, outputs, bias=True),
        *site.plain("readout", outputs, outputs, bias=True) * (part.positive("mlp_depth") - 1),
    )
