"""The playground: PSO-Fed in a browser, as one page that needs no server and no network."""

from __future__ import annotations

from psofed.report.page import CHART_STYLES, CHARTS, asset, document

WORKER = ("algorithm.js", "play_random.js", "play_world.js", "play_worker.js")
SCRIPTS = (
    "play_settings.js", "play_picture.js", "play_reading.js", "play_words.js", "play_tour.js",
    "play_panel.js", "play_charts.js", "play_time.js", "play.js",
)  # fmt: skip


def render() -> str:
    """The whole page. It computes in a worker, whose text it carries in its data."""
    worker = "\n".join(asset(name) for name in WORKER)
    scripts, styles = (*CHARTS, *SCRIPTS), (*CHART_STYLES, "play.css")
    return document("PSO-Fed playground", {"worker": worker}, scripts, styles, works=True)
