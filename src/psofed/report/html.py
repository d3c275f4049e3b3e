"""report.html: one page from the files of one or several results, the same for the same files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from psofed.errors import InputError
from psofed.report import (
    attack_section,
    comparison_section,
    run_section,
    section,
    sweep_section,
    table_section,
    theory_section,
)
from psofed.report.results import KINDS, Result, kind
from psofed.report.section import NONE
from psofed.report.thinning import POINTS, pack
from psofed.web.page import CHART_STYLES, CHARTS, page

NAME = "report.html"
SCRIPTS = (*CHARTS, "report_data.js", "report_curves.js", "report_parts.js", "report.js")
STYLES = (*CHART_STYLES, "report.css")
BUILDERS = {
    "theory.json": theory_section.build,
    "comparison.json": comparison_section.build,
    "sweep.json": sweep_section.build,
    "attack.json": attack_section.build,
    "summary.json": run_section.build,
    "scores.csv": table_section.build_fit,
    "advice.json": table_section.build_advice,
}


def with_report(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a result, and the report that is made of them."""
    return {**files, NAME: render([Result("", files)])}


def render(sources: Sequence[Result]) -> bytes:
    """The page of some results. One alone has no name, so that its page is that of its files."""
    data = gathered(sources)
    return page(data["title"], data, SCRIPTS, STYLES).encode()


def gathered(sources: Sequence[Result]) -> dict[str, Any]:
    """The data of the page."""
    built = [_build(source) for source in sources]
    count = sum(len(each["curves"]) for each in built)
    names = short_names([source.name for source in sources]) if len(sources) > 1 else [""]
    for name, each in zip(names, built, strict=True):
        each["name"] = name
        share = POINTS * len(each["curves"]) // max(count, 1)
        each["curves"] = pack(each["curves"], share)
    if len(built) == 1:
        del built[0]["experiment"]
        return {"title": built[0]["title"], "sections": built}
    differs = differences([each.pop("experiment") for each in built])
    title = f"{len(built)} results side by side"
    return {"title": title, "sections": built, "differs": differs, "notes": warnings(built)}


def warnings(sections: Sequence[dict[str, Any]]) -> list[str]:
    """What keeps curves of several results from being compared, a sentence each."""
    kinds: dict[str, list[str]] = {}
    for each in sections:
        if "targets" in each:
            kinds.setdefault(each["targets"], []).append(each["name"])
    if len(kinds) < 2:
        return []
    which = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items())
    return [
        f"The errors of these results are not of one kind ({which}): do not compare their levels."
        " Noisy targets add the noise variance to every error."
    ]


def _build(source: Result) -> dict[str, Any]:
    name = kind(source)
    if name not in BUILDERS:
        raise InputError(source.name, f"holds none of {', '.join(KINDS)}", "give a result folder")
    built = BUILDERS[name](source)
    threat = source.table(name).get("threat") if name.endswith(".json") else None
    if threat:
        built["facts"] += f" · {section.minus(str(threat))}"
    if "stream" in built["experiment"]:
        built.setdefault("targets", section.targets({"experiment": built["experiment"]}))
        built["facts"] += f" · {built['targets']}"
        shown = built["targets"].removesuffix(" targets")
        built["experiment"] = {**built["experiment"], "targets": shown}
    return built


def differences(experiments: Sequence[dict[str, Any]]) -> list[list[str]]:
    """The settings in which experiments differ, but for their methods: one row each.

    >>> differences([{"rounds": 5, "stream": {"name": "iid"}}, {"rounds": 6, "stream": {}}])
    [['rounds', '5', '6'], ['stream.name', 'iid', '–']]
    """
    flat = [dict(_flat(experiment)) for experiment in experiments]
    keys = dict.fromkeys(key for each in flat for key in each if not key.startswith("methods"))
    rows = [[key, *(each.get(key, NONE) for each in flat)] for key in keys]
    return [row for row in rows if len(set(row[1:])) > 1]


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if not isinstance(value, dict):
        yield key, str(value)
        return
    for name, inner in value.items():
        yield from _flat(inner, f"{key}.{name}" if key else str(name))


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
