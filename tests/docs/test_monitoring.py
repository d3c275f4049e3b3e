"""The example alerts and the Grafana dashboard ask for what a server exports, and for all alarms."""

import json
import re
import shutil
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families

from helpers import ROOT
from helpers.stage import Stage
from psofed.fleet.alarms import ALARMS
from psofed.fleet.dashboard.listener import exposition

yaml = pytest.importorskip("yaml", reason="needs PyYAML, which the extra docs brings")
FOLDER = ROOT / "docs" / "monitoring"
RULES = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0]["rules"]
BOARD = json.loads((FOLDER / "grafana.json").read_text())
ASKED = [rule["expr"] for rule in RULES]
SHOWN = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
SHOWN += [json.dumps(BOARD[part]) for part in ("templating", "annotations")]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """By metric: its labels and their values; of a server that knows all that can be known."""
    stage = Stage(tmp_path_factory.mktemp("stage") / "server")
    try:
        stage.play(3)
        whole = stage.state()
    finally:
        stage.close()
    whole |= {"certificates": {"own": 30}, "seen": [-8.5, 1.5, 4], "reasons": {"late": 1}}
    for row in whole["clients"].values():
        row[:] = [1 if value is None else value for value in row]
    found = {}
    for family in text_string_to_metric_families(exposition(whole)[0].decode()):
        for sample in family.samples:
            for label, value in (sample.labels or {"": ""}).items():
                found.setdefault(sample.name, {}).setdefault(label, set()).add(value)
    return found


def selectors(text):
    """Every metric of ours in an expression, with what is asked of its labels."""
    for name, labels in re.findall(r"\b(psofed_\w+)(?:\{(.*?)\})?", text.replace('\\"', '"')):
        yield name, re.findall(r'(\w+)[!=]=?~?"(.*?)"', labels)


@pytest.mark.parametrize("text", ASKED + SHOWN)
def test_what_is_asked_for_is_exported(exported, text):
    for name, labels in selectors(text):
        assert name in exported
        for label, wanted in labels:
            if label != "instance":  # that of Prometheus
                assert set(wanted.split("|")) <= exported[name][label], (name, label)


def test_every_alarm_has_a_rule_and_every_rule_says_whom_to_wake():
    named = [
        wanted
        for text in ASKED
        for name, labels in selectors(text)
        for _, wanted in labels
        if name == "psofed_alarm"
    ]
    assert sorted("|".join(named).split("|")) == sorted(ALARMS)
    assert {rule["labels"]["severity"] for rule in RULES} == {"page", "ticket"}
    assert all(rule["annotations"]["summary"] for rule in RULES)


def test_the_dashboard_for_grafana_is_whole():
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 12
    places = [panel["gridPos"] for panel in panels]
    taken = {
        (x, y)
        for p in places
        for x in range(p["x"], p["x"] + p["w"])
        for y in range(p["y"], p["y"] + p["h"])
    }
    assert len(taken) == sum(p["w"] * p["h"] for p in places), "panels lie over each other"
    assert max(p["x"] + p["w"] for p in places) == 24
    assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}
    assert {one["name"] for one in BOARD["templating"]["list"]} == {"datasource", "instance"}


def test_the_page_lists_the_rules_with_whom_they_wake():
    page = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(Psofed\w+)` \|[^|]*\| (yes|no) \|", page, re.MULTILINE)
    wakes = {"page": "yes", "ticket": "no"}
    assert rows == [(rule["alert"], wakes[rule["labels"]["severity"]]) for rule in RULES]


def test_rules_fire_at_the_values_that_are_written_and_not_before(promtool, tmp_path):
    for path in (FOLDER / "alerts.yml", ROOT / "tests" / "docs" / "alerts_test.yml"):
        shutil.copy(path, tmp_path)
    for command in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]):
        done = subprocess.run(
            [promtool, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_test_of_the_rules_names_each_of_them_as_firing_or_not():
    cases = yaml.safe_load((ROOT / "tests" / "docs" / "alerts_test.yml").read_text())["tests"]
    checks = [check for case in cases for check in case["alert_rule_test"]]
    for fires in (False, True):
        named = {one["alertname"] for one in checks if bool(one.get("exp_alerts")) == fires}
        assert named == {rule["alert"] for rule in RULES}
