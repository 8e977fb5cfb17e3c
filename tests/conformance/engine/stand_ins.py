"""Parts of a checkpoint's folder that a case has not: its tokenizer, its own config class.

None of them decides a figure of the KV cache. A config class that stands in the checkpoint's own
code keeps the file's values, and reads sections of a known type with the library's class.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from copy import copy
from importlib import import_module
from types import SimpleNamespace
from typing import Any, ClassVar

from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig
from vllm.transformers_utils.config import _CONFIG_REGISTRY

# What classes derive from that stand in the checkpoints' code, or in a later release of the
# library: by type, or by type and version.
_BASES = {
    "minicpm_ocr": "minicpmv4_6",
    "minicpmo 4.5": "qwen3",
    "minicpmo": "qwen2",
    "minicpmv 2.6": "qwen2",
    "minicpmv 4.0": "llama",
    "minicpmv 4.5": "qwen3",
}
# Types whose class in the library the engine can't read; that of the checkpoint's code keeps the
# file's values, and so does its language part's.
_OWN_CLASS = {"molmo2": "molmo2_text", "step3p7": "step3p5"}
# Sections that are configs, though their names do not say so.
_PARTS = frozenset({"decoder", "encoder"})


class _Tokenizer:
    """Knows every token, and calls each by one number."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: 0

    @property
    def vocab(self) -> Any:
        return _AnyToken()

    def get_vocab(self) -> Any:
        return _AnyToken()

    @property
    def instruct(self) -> Any:
        audio = SimpleNamespace(get_num_delay_tokens=lambda: 0)
        return SimpleNamespace(audio_encoder=SimpleNamespace(audio_config=audio))

    def encode(self, *args: Any, **kwargs: Any) -> list[int]:
        return [0]


class _AnyToken(dict[str, int]):
    def __missing__(self, key: str) -> int:
        return 0


def use_tokenizer() -> None:
    """Let model classes that ask for a tokenizer have one; the folder of a case has none."""
    name = "cached_tokenizer_from_config"
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("vllm") and hasattr(module, name):
            setattr(module, name, lambda *args, **kwargs: _Tokenizer())


# Tokens of the longest audio clip, as the processors of Gemma 4 have it by default: fewer than
# those of a video, which the engine asks for in the same breath.
_AUDIO_TOKENS = 750
_AUDIO_INFO = {
    "vllm.model_executor.models.gemma4_mm": "Gemma4ProcessingInfo",
    "vllm.model_executor.models.gemma4_unified": "Gemma4UnifiedProcessingInfo",
}


def use_audio_processor() -> None:
    """Let Gemma 4 have its processor's default where the folder of a case has no processor."""
    processor = SimpleNamespace(audio_seq_length=_AUDIO_TOKENS)
    for module_name, name in _AUDIO_INFO.items():
        if module_name in sys.modules:
            info = getattr(sys.modules[module_name], name)
            info.get_hf_processor = lambda self, **kwargs: processor


def use_timm() -> None:
    """Let the library take timm's stub for the package, as Gemma 3n's image tower needs."""
    from transformers.models.timm_wrapper import modeling_timm_wrapper
    from transformers.utils.import_utils import BACKENDS_MAPPING

    BACKENDS_MAPPING["timm"] = (lambda: True, "")
    vars(modeling_timm_wrapper)["timm"] = import_module("timm")


def use_sparse_kernels() -> None:
    """Let FlashInfer's stub say which heads its sparse kernels serve on Blackwell's small cards.

    As the release that the engine pins does: any up to 128.
    """
    import vllm.utils.flashinfer as flashinfer

    flashinfer.has_flashinfer_sparse_mla_sm120_config = lambda heads, top_k: heads <= _SPARSE_HEADS


_SPARSE_HEADS = 128
_HOST_MEMORY = {
    "is_uva_available": lambda: True,
    "get_accelerator_view_from_cpu_tensor": lambda tensor: tensor,
}


def use_host_tables() -> None:
    """Let tables of n-grams stand in host memory that a card sees, and be hashed by a tokenizer
    of as many words as the config says.
    """
    for module_name, module in list(sys.modules.items()):
        for name, stands_in in _HOST_MEMORY.items():
            if module_name.startswith("vllm") and hasattr(module, name):
                setattr(module, name, stands_in)
    engram = sys.modules.get("vllm.models.deepseek_v41.common.engram")
    if engram is not None:
        _use_hashes(engram)


def _use_hashes(module: Any) -> None:
    import transformers

    build = module.NgramHashState.__init__

    def build_with_words(self: Any, vllm_config: Any, layout: Any, cache: Any) -> None:
        words = [0] * vllm_config.model_config.hf_text_config.vocab_size
        sizes = (words, layout.compressed_vocab_size)
        module.build_compressed_token_map = lambda tokenizer: sizes
        setattr(transformers.AutoTokenizer, "from_pretrained", lambda *args, **kwargs: None)  # noqa: B010
        build(self, vllm_config, layout, cache)

    module.NgramHashState.__init__ = build_with_words


def register_remote_config(config: Mapping[str, Any]) -> None:
    """Let the library read a config whose class is in the checkpoint's code."""
    model_type = config.get("model_type")
    known = {*CONFIG_MAPPING, *_CONFIG_REGISTRY} - _OWN_CLASS.keys()
    if not isinstance(model_type, str) or model_type in known:
        return
    made = _remote_class(model_type, str(config.get("version")))
    AutoConfig.register(model_type, made, exist_ok=True)


def _remote_class(model_type: str, version: str) -> Any:
    if model_type == "dots_ocr":
        from vllm.transformers_utils.configs import dotsocr

        return dotsocr.DotsOCRConfig
    if model_type == "moss_audio":
        return _moss_audio()
    if model_type in _TEXT_CLASSES:
        return _TEXT_CLASSES[model_type]
    name = _BASES.get(f"{model_type} {version}", _BASES.get(model_type))
    base = _Plain if name is None else CONFIG_MAPPING[name]

    def build(self: Any, **values: Any) -> None:
        made = {key: _section(key, value) for key, value in values.items()}
        base.__init__(self, **made)

    return type("RemoteConfig", (base,), {"model_type": model_type, "__init__": build})


class _Plain(PreTrainedConfig):  # type: ignore[no-untyped-call]
    """Has its values before the library's base class asks for them, as such classes do."""

    def __init__(self, **values: Any) -> None:
        for key, value in values.items():
            if not hasattr(PreTrainedConfig, key):
                setattr(self, key, value)
        super().__init__(**values)


def _section(key: str, value: Any) -> Any:
    named = key.endswith("_config") or key in _PARTS
    if not named or not isinstance(value, dict) or key == "quantization_config":
        return value
    model_type = value.get("model_type", "")
    if model_type in CONFIG_MAPPING and model_type not in _OWN_CLASS.values():
        return CONFIG_MAPPING[model_type](**value)
    return _Plain(**value)


def _moss_audio() -> Any:
    """The engine's own class, whose audio section alone the library cannot write out."""
    from vllm.model_executor.models.moss_audio import MossAudioConfig

    def build(self: Any, audio_config: Any = None, **values: Any) -> None:
        MossAudioConfig.__init__(self, **values)
        self.audio_config = PreTrainedConfig(**audio_config or {})

    return type("RemoteConfig", (MossAudioConfig,), {"__init__": build})


class _Blocks(_Plain):  # type: ignore[no-untyped-call]
    """Has an object for each entry of ``block_configs``, which the library cannot write out."""

    def __init__(self, block_configs: Any = (), **values: Any) -> None:
        self.block_configs = [_object(block) for block in block_configs]
        super().__init__(**values)

    def to_dict(self) -> dict[str, Any]:
        values: dict[str, Any] = super().to_dict()
        values.pop("block_configs", None)
        return values


def _object(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return SimpleNamespace(**{key: _object(item) for key, item in value.items()})


class _Puzzle(_Plain):  # type: ignore[no-untyped-call]
    """Has a config of its own for each layer."""

    def get_nemotron_h_config_for_layer(self, index: int) -> Any:
        own = copy(self)
        for key, value in self.block_configs[index].items():
            setattr(own, key, value)
        return own


class _Telechat(_Plain):  # type: ignore[no-untyped-call]
    attribute_map: ClassVar[dict[str, str]] = {
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
        "intermediate_size": "ffn_hidden_size",
        "rms_norm_eps": "layer_norm_epsilon",
    }


# Classes that do more than hold the file's values.
_TEXT_CLASSES: Mapping[str, Any] = {
    "nemotron-nas": _Blocks,
    "nemotron_h_puzzle": _Puzzle,
    "telechat": _Telechat,
}
