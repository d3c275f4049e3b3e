"""Results side by side: each folder has its page, and the page has its data as JSON."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from psofed.errors import InputError
from psofed.report.files import is_unfinished
from psofed.report.page import NAME, NONE, document

MARK = '<script type="application/json" id="data">'  # what is between it and its end is read
AGAIN = "make the result again"
KEYS: dict[str, Any] = {
    "title": str, "answer": str, "facts": str, "curves": dict | None, "parts": list, "ends": list,
    "targets": str, "figures": list, "plan": bool, "command": str, "toml": str, "versions": list,
    "settings": dict,
}  # fmt: skip
CHART = {"title": str, "x": str, "y": str, "series": list, "levels": list, "groups": list,
         "marks": list, "ticks": list}  # fmt: skip


def read(path: Path) -> dict[str, Any]:
    """The page's data of a result folder, or an InputError that says why there are none."""
    if not path.is_dir():
        found = "is not a folder" if path.exists() else "does not exist"
        raise InputError(str(path), found, "give a folder with a result, as `psofed run` makes")
    where = str(path / NAME)
    try:
        text = (path / NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        if is_unfinished(path):
            raise InputError(
                str(path), "holds an unfinished result", "finish it with --resume"
            ) from None
        found = f"holds no result: there is no {NAME}"
        right = "give a folder that `psofed run` or another verb made"
        raise InputError(str(path), found, right) from None
    except OSError as error:
        found = f"cannot be read: {error.strerror}"
        raise InputError("", found, "make it readable", where) from None
    except UnicodeDecodeError:
        raise InputError("", "is not text", AGAIN, where) from None
    return _checked(text, where)


def _checked(text: str, where: str) -> dict[str, Any]:
    """What a page holds, if it is as psofed writes it. It is text to the page that shows it."""
    block = re.search(f"{re.escape(MARK)}(.*?)</script>", text)
    if block is None:
        found = "is cut off" if MARK in text else "is not a page of psofed"
        raise InputError("", found, "is the file complete?", where)
    try:
        data = json.loads(block[1])
    except (ValueError, RecursionError) as error:
        found = f"does not hold JSON: {error}"
        raise InputError("", found, "is the file complete?", where) from None
    pages = data.get("pages") if isinstance(data, dict) else None
    if not isinstance(pages, list) or not pages:
        raise InputError("", "is not the page of a result", "give a result folder", where)
    if len(pages) > 1:
        raise InputError("", f"is of {len(pages)} results", "give their folders instead", where)
    (page,) = pages
    _check(page, KEYS, "", where)
    charts = [page["curves"], *(p for p in page["parts"] if isinstance(p, dict) and "series" in p)]
    for chart in filter(None, charts):
        _check(chart, CHART, "curves.", where)
        for series in chart["series"]:
            _check(series, {"label": str, "x": list, "y": list}, "series.", where)
            _check_numbers(series, where)
    return dict(page)


def _check(table: Any, keys: dict[str, Any], inside: str, where: str) -> None:
    for key, kind in keys.items():
        if not isinstance(table, dict) or key not in table:
            raise InputError(f"{inside}{key}", "is missing", AGAIN, where)
        if not isinstance(table[key], kind):
            found = f"is not as psofed writes it: {str(table[key])[:40]!r}"
            raise InputError(f"{inside}{key}", found, AGAIN, where)


def _check_numbers(series: dict[str, Any], where: str) -> None:
    """The x of a curve grows from mark to mark, or lines would run back."""
    x, label = series["x"], series["label"]
    numbers = all(isinstance(v, int | float) for v in x)
    if not numbers or len(x) != len(series["y"]):
        raise InputError(f"the curve {label!r}", "is not made of numbers", AGAIN, where)
    if not all(a < b for a, b in pairwise(x)):
        raise InputError(f"the round of {label!r}", "does not grow", AGAIN, where)


def render(pages: Sequence[dict[str, Any]], folders: Sequence[str]) -> str:
    """One page of them all: curves in one chart, settings that differ, then each by itself."""
    if len(pages) == 1:
        return document(pages[0]["title"], {"title": pages[0]["title"], "pages": list(pages)})
    named = [{**page, "name": name} for page, name in zip(pages, short_names(folders), strict=True)]
    title = f"{len(named)} results side by side"
    differs = differences([page["settings"] for page in named])
    data = {"title": title, "pages": named, "differs": differs, "notes": warnings(named)}
    return document(title, data)


def warnings(pages: Sequence[dict[str, Any]]) -> list[str]:
    """What keeps curves of several results from being compared, a sentence each."""
    kinds: dict[str, list[str]] = {}
    for page in pages:
        if page["targets"]:
            kinds.setdefault(page["targets"], []).append(page["name"])
    if len(kinds) < 2:
        return []
    which = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items())
    return [
        f"The errors of these results are not of one kind ({which}): do not compare their levels."
        " Noisy targets add the noise variance to every error."
    ]


def differences(settings: Sequence[dict[str, str]]) -> list[list[str]]:
    """The settings in which results differ: one row each.

    >>> differences([{"rounds": "5", "stream.name": "iid"}, {"rounds": "6"}])
    [['rounds', '5', '6'], ['stream.name', 'iid', '–']]
    """
    keys = dict.fromkeys(key for each in settings for key in each)
    rows = [[key, *(each.get(key, NONE) for each in settings)] for key in keys]
    return [row for row in rows if len(set(row[1:])) > 1]


def short_names(paths: Sequence[str]) -> list[str]:
    """Folders by as much of their paths as tells them apart.

    >>> short_names(["a/x/r", "a/y/r", "q"])
    ['x/r', 'y/r', 'q']
    """
    parts = [Path(os.path.abspath(path)).parts for path in paths]
    names = []
    for own in parts:
        depth = 1
        while depth < len(own) and sum(other[-depth:] == own[-depth:] for other in parts) > 1:
            depth += 1
        names.append("/".join(own[-depth:]).replace("//", "/"))
    return names
