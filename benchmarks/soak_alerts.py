"""Of the soak: which alerts of docs/monitoring/alerts.yml would have fired, by promtool.

The metrics of a soak are told as if each second were ten, so that "for 5 minutes" is half a minute.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from prometheus_client.parser import text_string_to_metric_families

from helpers import ROOT, programs

RULES = ROOT / "docs" / "monitoring" / "alerts.yml"
SCRAPE, FACTOR = 2.0, 10  # seconds between two scrapes, and what a second stands for
Samples = dict[str, list[str]]  # by series: its values in order, "_" where there is none


def series(scrapes: list[tuple[float, str]]) -> Samples:
    """All series that alerts ask for, and whether the server answered."""
    asked = set(re.findall(r"psofed_\w+", RULES.read_text()))
    found: Samples = defaultdict(list)
    for number, (_, text) in enumerate(scrapes):
        now = {'up{job="psofed"}': str(int(bool(text)))}
        for family in text_string_to_metric_families(text):
            for one in family.samples:
                if one.name in asked:
                    labels = ",".join(f'{k}="{v}"' for k, v in sorted(one.labels.items()))
                    now[f"{one.name}{{{labels}}}"] = f"{one.value:g}"
        for name in found.keys() | now.keys():
            values = found[name]
            values += ["_"] * (number - len(values)) + [now.get(name, "_")]
    return found


def fired(scrapes: list[tuple[float, str]]) -> dict[str, set[str]]:
    """By alert: labels with which it has fired; the last commit is of no use in another time."""
    step = round(SCRAPE * FACTOR)
    names = re.findall(r"alert: (\w+)", RULES.read_text())
    times = range(0, len(scrapes) * step, 60)
    checks = [{"eval_time": f"{t}s", "alertname": name, "exp_alerts": []}
              for t in times for name in names if name != "PsofedNoRounds"]  # fmt: skip
    given = [{"series": name, "values": " ".join(values)}
             for name, values in series(scrapes).items()]  # fmt: skip
    test = {"interval": f"{step}s", "input_series": given, "alert_rule_test": checks}
    whole = {"rule_files": ["alerts.yml"], "evaluation_interval": f"{step}s", "tests": [test]}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(RULES, folder)
        (Path(folder) / "test.yml").write_text(json.dumps(whole))  # JSON is YAML
        command = [programs.find("promtool"), "test", "rules", "test.yml"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found: dict[str, set[str]] = defaultdict(set)
    for name, got in re.findall(r"alertname: (\w+), time: .*?got:\[(.*?)\n\s*\]", said(done), re.S):
        labels = re.findall(r'(?:alarm|state|whose)="(\w+)"', got)
        found[name].update(labels)
    return dict(found)


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Both outputs of a process."""
    return done.stdout + done.stderr
