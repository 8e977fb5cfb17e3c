"""Refusals in the engine's words, while it resolves its settings."""

from __future__ import annotations

from typing import Final

from kvplan_cli.errors import EngineRefusalError

STAGE: Final = "config_error"
# What pydantic makes of a ValueError that a config class raises about itself.
VALIDATION_ERROR: Final = "ValidationError"


def refuses(
    message: str, *, error_type: str = VALIDATION_ERROR, way_out: str | None = None
) -> EngineRefusalError:
    """The error for ``message``: the engine's own sentence, without pydantic's frame."""
    return EngineRefusalError(stage=STAGE, error_type=error_type, message=message, way_out=way_out)


def check_at_least(field: str, value: int | None, minimum: int) -> None:
    """A field's lower bound, as pydantic words it; None was not given."""
    if value is not None and value < minimum:
        raise refuses(f"{field}: Input should be greater than or equal to {minimum}")


def check_positive(field: str, value: int | float | None) -> None:
    """A field that must be above zero, as pydantic words it; None was not given."""
    if value is not None and value <= 0:
        raise refuses(f"{field}: Input should be greater than 0")


def check_one_of(field: str, value: str | None, allowed: tuple[str, ...]) -> None:
    """A closed choice, as pydantic words it; None was not given."""
    if value is None or value in allowed:
        return
    quoted = [f"'{name}'" for name in allowed]
    choices = ", ".join(quoted[:-1]) + f" or {quoted[-1]}"
    raise refuses(f"{field}: Input should be {choices}")
