"""Multimodal models around a language model of another row."""

from __future__ import annotations

from typing import Final

from kvplan_cli.models.architecture import Architecture, Wrapped

ROWS: Final = (
    Architecture(
        name="Gemma3ForConditionalGeneration",
        model=Wrapped(architecture="Gemma3ForCausalLM"),
        is_multimodal=True,
    ),
    Architecture(name="LlavaForConditionalGeneration", model=Wrapped(), is_multimodal=True),
)
