"""Typed reading of a Hugging Face config; each error carries the key's whole path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvplan_cli.errors import InputError, MissingFieldError, Problem
from kvplan_cli.values import dataclass


@dataclass(frozen=True, slots=True)
class HfConfig:
    """A mapping with its place: ``origin`` is the file, ``path`` the dotted key of this part.

    ``values`` holds the file's own values (or the class defaults merged beneath them).
    Getters without a default raise MissingFieldError; a wrong type is an InputError.
    An explicit null counts as absent for the ``optional_*`` getters.
    """

    values: Mapping[str, Any]
    origin: str = "config.json"
    path: str = ""

    def where(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def with_value(self, path: str, value: Any) -> HfConfig:
        """The whole with the value at a dotted path from here replaced."""
        head, _, rest = path.partition(".")
        inner = self.values.get(head)
        if rest and isinstance(inner, Mapping):
            value = HfConfig(inner).with_value(rest, value).values
        return HfConfig({**self.values, head: value}, self.origin, self.path)

    def has(self, key: str) -> bool:
        """Whether the key is there and not null."""
        return self.values.get(key) is not None

    def nullable_integer(self, key: str, *, minimum: int | None = None) -> int | None:
        """An integer or an explicit null; an absent key is a MissingFieldError.

        For fields whose class default is not null: absent then does not mean "none".
        """
        if key not in self.values:
            raise MissingFieldError(self.where(key), self.origin)
        return self.optional_integer(key, minimum=minimum)

    def raw(self, key: str) -> Any:
        """The value as it stands, None when absent. For values whose form varies."""
        return self.values.get(key)

    def wrong(self, key: str, expected: str, way_out: str | None = None) -> InputError:
        value = repr(self.values.get(key))
        shown = value if len(value) <= 60 else value[:57] + "..."
        return InputError(
            Problem(
                where=f"{self.origin}: {self.where(key)}",
                reason=f"expected {expected}, got {shown}",
                way_out=way_out,
            )
        )

    def integer(self, key: str, *, minimum: int = 0) -> int:
        value = self.optional_integer(key, minimum=minimum)
        if value is None:
            raise MissingFieldError(self.where(key), self.origin)
        return value

    def positive(self, key: str) -> int:
        return self.integer(key, minimum=1)

    def optional_integer(self, key: str, *, minimum: int | None = None) -> int | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, "an integer")
        if minimum is not None and value < minimum:
            raise self.wrong(key, f"an integer of at least {minimum}")
        return value

    def optional_number(self, key: str) -> float | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, "a number")
        return float(value)

    def optional_boolean(self, key: str) -> bool | None:
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def boolean(self, key: str) -> bool:
        value = self.optional_boolean(key)
        if value is None:
            raise MissingFieldError(self.where(key), self.origin)
        return value

    def optional_text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(key, "a string")
        return value

    def text(self, key: str) -> str:
        value = self.optional_text(key)
        if value is None:
            raise MissingFieldError(self.where(key), self.origin)
        return value

    def optional_list(self, key: str) -> Sequence[Any] | None:
        value = self.values.get(key)
        if value is not None and not isinstance(value, list | tuple):
            raise self.wrong(key, "a list")
        return value

    def list(self, key: str) -> Sequence[Any]:
        value = self.optional_list(key)
        if value is None:
            raise MissingFieldError(self.where(key), self.origin)
        return value

    def optional_section(self, key: str) -> HfConfig | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.wrong(key, "an object")
        return HfConfig(value, self.origin, self.where(key))

    def section(self, key: str) -> HfConfig:
        value = self.optional_section(key)
        if value is None:
            raise MissingFieldError(self.where(key), self.origin)
        return value
