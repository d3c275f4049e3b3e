"""How results look in a notebook: small tables, readable on a dark and on a light page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], note: str = "") -> str:
    """A table as HTML. All texts are escaped: a label is never markup. Colours are the page's.

    >>> made = table("<T>", ["method", "dB"], [["a & b", "-1.0"]])
    >>> "&lt;T&gt;" in made, "a &amp; b</td>" in made, "-1.0</td></tr></tbody>" in made
    (True, True, True)
    """
    body = "".join(_line(row, "td") for row in rows)
    small = f"<p><small>{escape(note)}</small></p>" if note else ""
    return (
        f"<div><p><b>{escape(title)}</b></p><table><thead>{_line(head, 'th')}</thead>"
        f"<tbody>{body}</tbody></table>{small}</div>"
    )


def _line(cells: Sequence[str], kind: str) -> str:
    """A row: names on the left, numbers to the right."""
    sides = ["left", *["right"] * (len(cells) - 1)]
    made = (
        f'<{kind} style="text-align:{side};padding:0 .5em">{escape(str(cell))}</{kind}>'
        for side, cell in zip(sides, cells, strict=True)
    )
    return f"<tr>{''.join(made)}</tr>"


def estimate(value: float, stderr: float, sign: str = "") -> str:
    """A value in dB with its standard error; what is not finite has diverged.

    >>> estimate(-11.25, 0.125), estimate(-3, float("nan")), estimate(float("inf"), 0.0)
    ('-11.25 ±0.12', '-3.00', 'diverged')
    """
    if not abs(value) < float("inf"):
        return "diverged"
    return f"{value:{sign}.2f}" + (f" ±{stderr:.2f}" if abs(stderr) < float("inf") else "")


def counted(number: int, what: str) -> str:
    """A number with its noun.

    >>> counted(1, "run"), counted(5000, "round")
    ('1 run', '5,000 rounds')
    """
    return f"{number:,} {what}" + ("" if number == 1 else "s")
