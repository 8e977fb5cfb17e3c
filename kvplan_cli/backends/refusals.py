"""The engine's refusals while it builds the model."""

from __future__ import annotations

from kvplan_cli.errors import EngineRefusalError


def model_refusal(error_type: str, message: str, way_out: str | None = None) -> EngineRefusalError:
    """A refusal at the engine's model construction, in the engine's words."""
    return EngineRefusalError(
        stage="model_error", error_type=error_type, message=message, way_out=way_out
    )
