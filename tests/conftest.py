"""Shared settings of the test suite."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Hundreds of tests start the program; it finds its bytecode, as an installed one does.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# No deadline: machines are shared, and a slow example is no defect.
settings.register_profile(
    "kvplan",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("kvplan")
