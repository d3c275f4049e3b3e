"""The playground's address and its page."""

from itertools import pairwise
from urllib.parse import parse_qs

import pytest

from helpers.command import wrong
from helpers.playing import FIRST, curve, hash_of, settle, slide, until
from psofed.report import playground


def test_settings_live_in_the_address_and_come_back(open_play):
    shown = open_play()
    slide(shown, "M", 9)
    shown.get_by_label("each its own").click()
    shown.get_by_role("button", name="Draw again").click()
    settle(shown)
    address = shown.url.split("#")[1]
    settings = {k: v[0] for k, v in parse_qs(address).items()}
    assert settings["M"] == settings["shift"] == "9"  # a block moves by its own length
    assert settings["scheme"] == "uncoordinated"
    assert settings["seed"] == "2"
    again = open_play("#" + address)
    assert again.evaluate("playground.settings") == shown.evaluate("playground.settings")
    assert curve(again) == curve(shown)
    again.evaluate("location.hash = '#M=2&shift=2'")
    until(again, "playground.settings.M === 2")


@pytest.mark.parametrize(
    "address",
    [
        "#K=<img src=x onerror=window.hacked=1>&scheme=<script>window.hacked=1</script>",
        "#K=1e9&D=-5&M=99999999999999999999&S=NaN&shift=Infinity&mu=0x10&noise=-1&N=1e400",
        "#K=100.7&D=8&M=200&S=500&runs=0&seed=-3&idle=maybe&mask=javascript:alert(1)",
        "#__proto__=1&constructor=2&toString=x&%E0%A4%A&&&===&K=%00&D=%F0%9F%92%A9" + "&K=5" * 5000,
    ],
)
def test_a_hostile_address_ends_as_settings_within_their_limits(open_play, address):
    shown = open_play(address)
    assert shown.evaluate("window.hacked") is None
    s = shown.evaluate("playground.settings")
    assert set(s) == set(FIRST)
    limits = {
        "K": (2, 100), "D": (8, 200), "M": (1, s["D"]), "S": (1, s["K"]), "shift": (0, s["D"] - 1),
        "mu": (0.05, 2), "noise": (0, 0.25), "N": (200, 5000), "runs": (1, 20), "seed": (0, 1e9),
    }  # fmt: skip
    assert [n for n, (low, high) in limits.items() if not low <= s[n] <= high] == []
    assert all(float(s[name]).is_integer() for name in ("K", "D", "M", "S", "shift", "N", "runs"))
    assert s["scheme"] in ("coordinated", "uncoordinated")
    assert s["mask"] in ("block", "scattered")
    assert s["idle"] is True
    assert len(curve(shown)) == s["N"] + 1


# What is wider than its place, or reaches beyond the screen; a table may not scroll by itself either.
CUT = """(width) => [...document.querySelectorAll("main *")].filter((node) => {
  const box = node.getBoundingClientRect();
  const seen = box.width > 0 && !node.closest(".plot, svg") && getComputedStyle(node).display !== "inline";
  return seen && (box.right > width + 0.5 || box.left < -0.5 || node.scrollWidth > node.clientWidth + 1);
}).map((node) => `${node.tagName} ${node.className} ${node.textContent.slice(0, 40)}`)"""


@pytest.mark.parametrize("address", ["", hash_of(K=100, D=200, M=40, S=4, mask="scattered")])
def test_nothing_is_cut_on_a_phone_and_nothing_scrolls_sideways(open_play, address):
    width = 360
    shown = open_play(address, viewport={"width": width, "height": 800}, has_touch=True)
    until(shown, "!playground.numbersDirty && Boolean(playground.fitChart.chart)")
    for name in ("All examples", "More settings", "What is computed here"):
        shown.get_by_text(name, exact=True).click()
    assert shown.locator("#seed").is_visible()
    places = [shown.locator(name).bounding_box()["y"] for name in (".lead", ".picture", ".tour")]
    assert places == sorted(places)  # the picture comes before what to do with it
    assert places[1] < 600
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.evaluate(CUT, width) == []
    shown.locator("canvas.picture").tap(position={"x": width / 2, "y": 30})
    assert shown.locator(".readout").inner_text().startswith("Server, entry ")


def test_settings_stand_beside_the_picture_and_over_nothing(open_play):
    shown = open_play("", viewport={"width": 1280, "height": 900})
    parts = [part.bounding_box() for part in shown.locator("aside .part").all()]
    assert all(a["y"] + a["height"] <= b["y"] for a, b in pairwise(parts))
    picture = shown.locator(".picture").bounding_box()
    assert picture["x"] + picture["width"] <= parts[0]["x"]
    assert shown.evaluate(CUT, 1280) == []


def test_it_plays_at_once_unless_motion_is_unwanted(open_play):
    assert open_play("", playing=True).evaluate("playground.playing") is True
    assert open_play("", playing=False).evaluate("playground.playing") is False


def test_the_command_writes_the_page_and_opens_it(tmp_path, psofed, monkeypatch):
    seen = []
    monkeypatch.setattr("webbrowser.open", lambda url: seen.append(url) or True)
    done = psofed("play")
    assert (done.returncode, done.stdout) == (0, "The playground is in playground.html.\n")
    assert (tmp_path / "playground.html").read_text() == playground.render()
    assert psofed("play", "--out", "p.html").stdout.endswith("p.html. Open it in a browser.\n")
    assert seen == [(tmp_path / "playground.html").as_uri()]
    wrong(psofed("play", "--out", "nowhere/page.html"), "nowhere/page.html cannot be written")
    assert len(playground.render()) < 200_000
