"""The use cases, in sequence; the command line and the Python API make the same calls."""

from kvplan_cli.service.fit import fit

__all__ = ["fit"]
