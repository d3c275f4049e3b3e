"""A run whose report is opened in a browser, and how its switches are pressed."""

import json
import re

from psofed.experiment import Experiment, Features
from psofed.methods import local, onlinefed, psofed

SMALL = Experiment(
    clients=6, cohort=2, rounds=300, runs=4, test_samples=50, features=Features(dim=8),
    methods=(
        onlinefed.Options(), psofed.Options(1, "coordinated"), psofed.Options(2, "coordinated"),
        psofed.Options(1), psofed.Options(2), local.Options(),
    ),
)  # fmt: skip

X = "[chart.plot.scales.x.min, chart.plot.scales.x.max]"

CHARTS = """() => { const made = []; const draw = LineChart.prototype.build;
  LineChart.prototype.build = function () { if (!made.includes(this)) made.push(this); window.chart = made[0]; draw.call(this); };
  main.replaceChildren(); waiting.length = 0; show(); }"""


def press(shown, name):
    shown.get_by_role("button", name=name, exact=True).first.click()


def told(page):
    """What a page was told, as bytes or in its folder."""
    text = page.decode() if isinstance(page, bytes) else (page / "report.html").read_text()
    return json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
