"""A picture of a sweep as SVG or PNG, by matplotlib, which the extra ``plot`` brings."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kvplan_cli.errors import InputError, Problem, UnplannableError
from kvplan_cli.report.series import Picture

SUFFIXES: Final = (".svg", ".png", ".pdf")
_MARKERS: Final = "o^sDv<>p"


def check_plot_file(path: Path) -> None:
    """Say what is missing before anything is planned.

    Raises: InputError for a suffix that is no picture's, UnplannableError without matplotlib.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(
            Problem(
                where="--plot-file",
                reason=f"{path.suffix or 'no suffix'} is no kind of picture",
                way_out=f"one of {', '.join(SUFFIXES)}",
            )
        )
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise UnplannableError(
            Problem(
                where="--plot-file",
                reason="matplotlib is not installed",
                way_out="pip install 'kvplan-cli[plot]', or --plot for the terminal",
            )
        )


def write_plot(picture: Picture, path: Path) -> None:
    """Draw the picture into a file. Raises: InputError where it can't be written."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for line, marker in zip(picture.lines, _MARKERS, strict=False):
        xs, ys = zip(*line.points, strict=True)
        axes.plot(xs, ys, marker=marker, markersize=4, label=line.name or None)
    if picture.log_x:
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted({x for line in picture.lines for x, _ in line.points})[:12])
        axes.minorticks_off()
    if picture.log_y:
        axes.set_yscale("log")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    if picture.log_y:
        axes.yaxis.set_minor_formatter(StrMethodFormatter("{x:,g}"))
    axes.tick_params(axis="x", rotation=30 if picture.log_x else 0)
    axes.set(title=picture.title, xlabel=picture.x_title, ylabel=picture.y_title)
    axes.grid(visible=True, alpha=0.3)
    if any(line.name for line in picture.lines):
        axes.legend(fontsize="small")
    try:
        # No date: the same sweep makes the same file.
        metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
        figure.savefig(path, dpi=150, metadata=metadata)
    except OSError as error:
        reason = f"{path} can't be written: {error.strerror or error}"
        raise InputError(Problem(where="--plot-file", reason=reason)) from error
