"""A resolved MODEL: its config, and where everything came from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field, replace
from enum import Enum
from typing import Any

from kvplan_cli.loader.checkpoint import Checkpoint
from kvplan_cli.loader.class_defaults import with_class_defaults
from kvplan_cli.loader.overrides import apply_hf_overrides
from kvplan_cli.values import dataclass


class OriginKind(Enum):
    """The form in which a model was named."""

    FILE = "file"
    FOLDER = "folder"
    INLINE = "inline"
    CATALOGUE = "catalogue"
    HUB = "hub"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a config came from.

    place: how errors name it (``llama/config.json``). detail: of a catalogue entry where its
    facts come from, of a hub repository the revision.
    """

    kind: OriginKind
    place: str
    detail: str | None = None

    def __str__(self) -> str:
        return f"{self.kind.value} {self.place}" + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """What a MODEL argument led to.

    config: the raw config.json, with hf_overrides once they are applied. extra_files: what the
    engine reads beside it, by file name (``hf_quant_config.json``, ``tokenizer_config.json``).
    checkpoint: the weights' files, where they are at hand. hub_revision: of a hub repository
    that answers, where the headers of its weights can be read. value_origins: dotted config paths
    whose values are not the file's own.
    """

    name: str
    config: Mapping[str, Any]
    origin: Origin
    extra_files: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    hub_revision: str | None = None
    hub_id: str | None = None
    value_origins: Mapping[str, str] = field(default_factory=dict)

    @property
    def engine_name(self) -> str | None:
        """The model as the engine would find it: a hub id, or the config's folder."""
        match self.origin.kind:
            case OriginKind.CATALOGUE:
                return self.hub_id
            case OriginKind.HUB:
                return self.name
            case OriginKind.FILE | OriginKind.FOLDER:
                return os.path.dirname(self.origin.place) or "."
            case OriginKind.INLINE:
                return None

    def overridden(self, overrides: Mapping[str, Any], where: str) -> ModelSource:
        """The same with hf_overrides in its config. where: the flag or file that gave them."""
        if not overrides:
            return self
        config = apply_hf_overrides(self.config, overrides, self.origin.place)
        origins = {**self.value_origins, **dict.fromkeys(overrides, where)}
        return replace(self, config=config, value_origins=origins)

    def completed(self) -> ModelSource:
        """The same with its config class's values beneath the file's.

        UnplannableError where there is no class to ask, InputError where it refuses the file.
        """
        config, origins = with_class_defaults(self.config, self.origin.place)
        return replace(self, config=config, value_origins={**origins, **self.value_origins})
