"""The report of a run: one HTML file, readable without a network.

Everything in it comes from the registry: the step metrics that the trainer wrote there, and the environments with their
measurements. So a report can be made during a run, after it, or years later from the file alone.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from spade_registry.registry import Registry


@dataclass(frozen=True)
class Chart:
    """Curves that belong in one picture."""

    title: str
    series: Mapping[str, str]
    """Label of a curve -> name of its metric in `steps`."""
    limits: tuple[float, float] | None = None
    """Range of the vertical axis; None fits the data."""
    note: str = ""


CHARTS = (
    Chart(
        "Win rate by arm",
        {"unhinted": "spade/player/win_rate", "hinted": "spade/player/win_rate_hinted"},
        (0.0, 1.0),
        "Share of counted plays won. Cut, faulty and timed-out plays are not counted.",
    ),
    Chart(
        "Regret of the designed environments",
        {"mean regret": "spade/designer/regret"},
        None,
        "Mean return with the hint minus without it, over the same seeds.",
    ),
    Chart(
        "Programs accepted by the gate",
        {"acceptance": "spade/designer/acceptance"},
        (0.0, 1.0),
        "Accepted programs over programs written.",
    ),
    Chart(
        "Learnable share",
        {"learnable share": "spade/player/learnable_share"},
        (0.0, 1.0),
        "Share of the played environments with an unhinted win rate in [0.2, 0.8].",
    ),
    Chart("Designer reward", {"reward": "spade/designer/reward"}, None, "Mean over the released designer samples."),
    Chart("Seconds a step", {"step": "spade/seconds/step"}, None, "Wall-clock time of the whole step."),
)


def write_report(registry: Registry, run: int, path: Path, top: int = 12) -> Path:
    """Write the report of `run` to `path` (replaced in one move) and return the path.

    `top` is the number of environments in the table of highest regret. Raises `SpadeError` if the run is unknown.
    """
    steps = registry.steps(run)
    html = _template().render(
        run=registry.run(run),
        steps=steps,
        last=steps[-1].metrics if steps else {},
        charts=[(chart, draw(chart, steps)) for chart in CHARTS],
        environments=registry.leaderboard(run=run, n=top),
        graveyard=registry.graveyard(run=run, n=top),
        number=number,
    )
    partial = path.with_suffix(".partial")
    partial.write_text(html, encoding="utf-8")
    partial.replace(path)
    return path


def number(value: Any, digits: int = 2) -> str:
    """Format a statistic for people; a missing or undefined one is a dash."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def points(steps: Sequence[Any], metric: str) -> tuple[list[int], list[float]]:
    """Return the steps at which `metric` was recorded, and its finite values there."""
    found = [(step.step, step.metrics.get(metric)) for step in steps]
    kept = [(at, float(value)) for at, value in found if value is not None and math.isfinite(float(value))]
    return [at for at, _ in kept], [value for _, value in kept]


def draw(chart: Chart, steps: Sequence[Any]) -> str:
    """Draw a chart as an SVG element; an empty string when nothing was recorded for it."""
    # The object interface, not pyplot: no global state, no display, safe in any thread.
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    curves = {label: points(steps, metric) for label, metric in chart.series.items()}
    curves = {label: curve for label, curve in curves.items() if curve[0]}
    if not curves:
        return ""
    figure = Figure(figsize=(5.6, 2.9), layout="constrained")
    axes = figure.add_subplot()
    for label, (at, values) in curves.items():
        axes.plot(at, values, marker="o", markersize=3, linewidth=1.6, label=label)
    axes.set_xlabel("step")
    axes.grid(alpha=0.25)
    if chart.limits:
        axes.set_ylim(*chart.limits)
    if len(curves) > 1:
        axes.legend(frameon=False)
    drawn = io.StringIO()
    FigureCanvasSVG(figure).print_svg(drawn, metadata={"Date": None})
    text = drawn.getvalue()
    return text[text.index("<svg") :]


def _template() -> jinja2.Template:
    loader = jinja2.PackageLoader("spade_trainer", "templates")
    return jinja2.Environment(loader=loader, autoescape=True).get_template("report.html.j2")
