"""Releases as logs print them."""

from __future__ import annotations

import re
from typing import Final

_RELEASE: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", re.ASCII)
# Builds from a checkout without tags call themselves 0.1.dev20073+g8e685d198.
_UNTAGGED: Final = re.compile(r"v?0\.1\.dev\d", re.ASCII)

Release = tuple[int, int, int]


def release_of(text: str | None) -> Release | None:
    """Major, minor and patch; None for builds that do not say which release they follow."""
    if not text or _UNTAGGED.match(text):
        return None
    found = _RELEASE.match(text)
    if found is None:
        return None
    major, minor, patch = found.groups(default="0")
    return int(major), int(minor), int(patch)
