"""Our part of Datasette: links from ids to a page for each environment, and that page."""

from __future__ import annotations

import html
import io
from typing import Any
from urllib.parse import quote

from datasette import hookimpl
from datasette.utils.asgi import NotFound, Response
from markupsafe import Markup

from spade_envs.contract import NAMESPACE
from spade_registry import details
from spade_registry.registry import Registry


class BrowsePlugin:
    """Registered with Datasette for as long as one registry is browsed."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.__name__ = __name__  # Datasette asks for it, as most plugins are modules

    @hookimpl
    def register_routes(self) -> list[tuple[str, Any]]:
        """The page of an environment."""
        return [(r"^/-/environment/(?P<name>[^/]+)$", self.page)]

    @hookimpl
    def render_cell(self, value: Any, column: str) -> Any:
        """An id links to its page; a program is highlighted."""
        if column in ("env_id", "parent") and isinstance(value, str) and value.startswith(f"{NAMESPACE}/"):
            return Markup('<a href="{}">{}</a>').format(link(value), value)
        if column == "source" and isinstance(value, str) and "class " in value:
            return Markup(highlighted(value))
        return None

    async def page(self, request: Any, datasette: Any) -> Response:
        """Source, hint, checks, figures and curve of one environment."""
        query = request.url_vars["name"]
        if self.registry.get(query, statuses=details.ANY_STATUS) is None:
            raise NotFound(f"no environment {query}")
        facts = details.facts(self.registry, self.registry.find_id(query, statuses=details.ANY_STATUS))
        context = {"facts": facts, "source": Markup(highlighted(facts["program"])), "chart": Markup(chart(facts))}
        return Response.html(await datasette.render_template("spade_environment.html", context, request=request))


def link(env_id: str) -> str:
    """Address of an environment's page."""
    return "/-/environment/" + quote(env_id.removeprefix(f"{NAMESPACE}/"))


def highlighted(source: str) -> str:
    """A program as HTML with colours and line numbers."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    return str(highlight(source, PythonLexer(), HtmlFormatter(noclasses=True, linenos="inline")))


def chart(facts: dict[str, Any], width: int = 560, height: int = 220) -> str:
    """Win rates in both arms and regret over the measurements of an environment, as SVG; empty without any."""
    measured = facts["measurements"]
    if not measured:
        return ""
    curves = {"win_rate": "#1f77b4", "win_rate_hinted": "#ff7f0e", "regret": "#2ca02c"}
    left, top, right, bottom = 40, 12, 130, 24
    across, down = width - left - right, height - top - bottom

    def place(index: int, value: float) -> tuple[float, float]:
        x = left + across * (index / max(1, len(measured) - 1))
        return x, top + down * (1 - (value + 1) / 2)

    out = io.StringIO()
    out.write(f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="win rates and regret">')
    for mark in (-1, 0, 1):
        y = place(0, mark)[1]
        out.write(f'<line x1="{left}" x2="{left + across}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ccc"/>')
        out.write(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end" font-size="11">{mark}</text>')
    for row, (name, colour) in enumerate(curves.items()):
        points = [place(i, one[name]) for i, one in enumerate(measured) if one[name] is not None]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        out.write(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out.writelines(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points)
        out.write(f'<text x="{left + across + 12}" y="{top + 14 + 16 * row}" font-size="12" fill="{colour}">')
        out.write(f"{html.escape(name.replace('_', ' '))}</text>")
    steps = [f"run {one['run']}, step {one['step']}" for one in (measured[0], measured[-1])]
    for x, text, anchor in ((left, steps[0], "start"), (left + across, steps[-1], "end")):
        out.write(f'<text x="{x}" y="{height - 6}" font-size="11" text-anchor="{anchor}">{text}</text>')
    out.write("</svg>")
    return out.getvalue()
