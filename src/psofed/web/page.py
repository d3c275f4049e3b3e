"""One page in one file, with scripts, styles and data inside, safe against injection.

What comes from outside (names of methods, ids of clients, file names, messages) enters a page in
one way only: as JSON in a block that no browser executes, which the page's own scripts put on the
screen as text. As a second line of defence the page allows no script but its own, by their hashes,
and no request to anywhere.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

BASE = ("base.css",)
CHART_STYLES = ("uPlot.min.css",)
CHARTS = ("uPlot.iife.min.js", "dom.js", "charts.js")


def page(
    title: str,
    data: Any,
    scripts: Sequence[str],
    styles: Sequence[str] = (),
    connects: bool = False,
    works: bool = False,
) -> str:
    """A whole HTML page, from the names of files in `assets`.

    The scripts find `data` in `DATA`. Only a page that says so may talk to the server it came from
    (`connects`) or start a worker from its own text (`works`).
    """
    css = "\n".join(asset(name) for name in (*BASE, *styles))
    codes = [asset(name) for name in scripts]
    policy = _policy(codes, css, connects, works)
    return "\n".join([
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<link rel="icon" href="data:,">',
        f"<title>{escape(title)}</title>",
        f"<style>{css}</style>",
        "</head>",
        "<body>",
        "<noscript>This page needs JavaScript, which is switched off.</noscript>",
        '<main id="main"></main>',
        f'<script type="application/json" id="data">{embed(data)}</script>',
        *(f"<script>{code}</script>" for code in codes),
        "</body>",
        "</html>",
        "",
    ])  # fmt: skip


def asset(name: str) -> str:
    """The text of a file in `assets`."""
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def embed(data: Any) -> str:
    r"""JSON that cannot end the block around it, for any strings in it.

    >>> embed("</script><script>")
    '"\\u003c/script\\u003e\\u003cscript\\u003e"'
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _policy(codes: Sequence[str], css: str, connects: bool, works: bool) -> str:
    """The page's own scripts and style, by hash, and nothing else."""
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(_hash(code) for code in codes),
        "style-src": _hash(css),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    if connects:
        rules["connect-src"] = "'self'"
    if works:
        rules["worker-src"] = "blob:"
        rules["script-src"] += " blob:"
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
