"""The language part of a config as the engine's model files see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from kvplan_cli.errors import InputError, MissingFieldError, Problem
from kvplan_cli.hf_config import HfConfig
from kvplan_cli.models.config_classes import Absent, ConfigClass, config_class
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """A language config with what its ``transformers`` class adds to the file.

    config: the language part. rules: what its class does with absent keys.
    Every accessor raises MissingFieldError where only the class's default would tell.
    """

    config: HfConfig
    rules: ConfigClass = field(default_factory=ConfigClass)

    @classmethod
    def of(cls, config: HfConfig) -> Language:
        return cls(config, config_class(config.optional_text("model_type")))

    def key(self, name: str) -> str:
        """The key that holds ``name`` in this config: its own name, or the class's."""
        for alias in self.rules.aliases.get(name, ()):
            if self.config.has(alias):
                return alias
        return name

    @property
    def num_hidden_layers(self) -> int:
        return self.config.positive(self.key("num_hidden_layers"))

    @property
    def num_attention_heads(self) -> int:
        return self.config.positive(self.key("num_attention_heads"))

    @property
    def hidden_size(self) -> int:
        return self.config.positive(self.key("hidden_size"))

    @property
    def num_kv_heads(self) -> int:
        """``num_key_value_heads``; the attention heads where the class says so."""
        heads = self.config.optional_integer("num_key_value_heads", minimum=1)
        if heads is not None:
            return heads
        self._absent_is_fine("num_key_value_heads", self.rules.num_key_value_heads)
        return self.num_attention_heads

    @property
    def head_dim(self) -> int:
        """``head_dim``; the hidden size shared out over the heads where the class says so."""
        head_dim = self.config.optional_integer(self.key("head_dim"), minimum=0)
        if head_dim:
            return head_dim
        self._absent_is_fine("head_dim", self.rules.head_dim)
        return self.split_head_dim

    @property
    def split_head_dim(self) -> int:
        """The hidden size shared out over the attention heads."""
        size = self.hidden_size // self.num_attention_heads
        if size < 1:
            raise self.contradiction(
                self.key("hidden_size"), "is smaller than the number of attention heads"
            )
        return size

    @property
    def sliding_window(self) -> int | None:
        """Tokens of the window, None for none. The engine takes zero for none."""
        return self.rules.sliding_window(self.config) or None

    @property
    def layer_types(self) -> Sequence[str] | None:
        """One attention kind a layer; None where neither file nor class has any."""
        layers = self.num_hidden_layers
        return self.rules.layer_types(self.config, layers, lambda: self.sliding_window)

    @property
    def required_layer_types(self) -> Sequence[str]:
        """One kind a layer; MissingFieldError where neither file nor class row has any."""
        kinds = self.layer_types
        if kinds is None:
            raise MissingFieldError(self.config.where("layer_types"), self.config.origin)
        return kinds

    @property
    def model_window(self) -> int | None:
        """The window of layers that declare none themselves.

        Source: vLLM 0.33.0 ``vllm/engine/arg_utils.py:create_engine_config``.
        """
        types = self.layer_types
        if types is not None and any(kind != "sliding_attention" for kind in types):
            return None
        return self.sliding_window

    def contradiction(self, key: str, reason: str, way_out: str | None = None) -> InputError:
        """An InputError that names ``key`` by its whole path."""
        where = f"{self.config.origin}: {self.config.where(key)}"
        return InputError(Problem(where=where, reason=reason, way_out=way_out))

    def _absent_is_fine(self, key: str, absent: Absent) -> None:
        # A null in the file is an answer; a class's number that the file omits is not.
        if absent is Absent.ASK and key not in self.config.values:
            raise MissingFieldError(self.config.where(key), self.config.origin)
