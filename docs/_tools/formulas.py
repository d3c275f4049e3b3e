"""Formulas of the site as pictures: matplotlib sets them, so no page needs a network or a font."""

from __future__ import annotations

import base64
import re
from functools import cache
from html import escape
from io import BytesIO
from typing import Any

import matplotlib as mpl
from docutils import nodes  # type: ignore[import-untyped]
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser

SIZE = 10.0  # points of a letter while it is set; a page has it as wide as its own
LOOK: Any = {
    "mathtext.fontset": "cm", "svg.fonttype": "path", "svg.hashsalt": "psofed", "font.size": SIZE,
}  # fmt: skip


@cache
def picture(formula: str) -> str:
    """An image that stands on the line of the text; its words are the formula."""
    with mpl.rc_context(LOOK):
        wide, high, deep, *_ = MathTextParser("path").parse(f"${formula}$", dpi=72)
        high, deep = high + 1, deep + 0.5  # lines at its edges have a width
        figure, data = Figure(figsize=(wide / 72, high / 72)), BytesIO()
        figure.text(0, deep / high, f"${formula}$")
        figure.savefig(data, format="svg", transparent=True, metadata={"Date": None})
    svg = re.sub(rb"<metadata>.*?</metadata>", b"", data.getvalue(), flags=re.DOTALL)
    source = base64.b64encode(svg).decode()
    place = f"height:{1.2 * high / SIZE:.3f}em;vertical-align:{-1.2 * deep / SIZE:.3f}em"
    return f'<img src="data:image/svg+xml;base64,{source}" alt="{escape(formula)}" style="{place}">'


def _in_text(writer: Any, node: Any) -> None:
    writer.body.append(picture(node.astext()))
    raise nodes.SkipNode


def _alone(writer: Any, node: Any) -> None:
    lines = (line.strip().replace("&", "") for line in node.astext().split(r"\\"))
    made = "".join(f"<div>{picture(' '.join(line.split()))}</div>" for line in lines if line)
    writer.body.append(f'<div class="formula">{made}</div>')
    raise nodes.SkipNode


def set_up(app: Any) -> None:
    """Called by conf.py."""
    app.add_html_math_renderer("matplotlib", (_in_text, None), (_alone, None))
