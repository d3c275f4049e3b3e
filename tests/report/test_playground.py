"""The playground in a real browser: its picture and its controls."""

import re

import numpy as np
import pytest

from helpers import ROOT
from helpers.playing import answer, curve, hash_of, settle, slide, until
from psofed.core.schedule import Rotating


def test_the_picture_highlights_exactly_the_schedule_s_windows(open_play):
    shown = open_play(hash_of(scheme="uncoordinated", M=5, shift=3, mask="scattered"))
    boxes = """(way) => {
      const { picture } = playground, list = [];
      const old = picture.outline;
      picture.outline = (x, y, width, height, kind) => {
        const first = Math.round((x - picture.lay.left) / picture.lay.cell);
        const count = Math.round(width / picture.lay.cell);
        const k = y < picture.lay.top ? -1 : Math.floor((y - picture.lay.top) / picture.lay.row);
        if (kind === way) for (let i = 0; i < count; i += 1) list.push([k, first + i]);
      };
      picture.draw("up", 1, false);
      picture.outline = old;
      return list;
    }"""
    start = {}
    for n in (0, 1, 7, 120):
        shown.evaluate(f"playground.seek({n})")
        until(shown, f"playground.n === {n} && !playground.asked")
        cohort = shown.evaluate("playground.shown.cohort")
        for way, at in (("down", n), ("up", n + 1)):
            marked = shown.evaluate(boxes, way)
            for k in cohort:
                entries = sorted(i for row, i in marked if row == k)
                first = sorted((np.array(entries) - 3 * at) % 40)
                assert start.setdefault(k, first) == first  # the same S_{k,0} from every round
                again = Rotating(np.array([start[k]]), 3, 40).entries(0, at)
                assert sorted(again.tolist()) == entries
                assert len(entries) == 5
            server = {i for row, i in marked if row == -1}
            assert server == {i for row, i in marked if row in cohort}
            assert {row for row, _ in marked} == {-1, *cohort}


def test_the_parts_of_a_round_change_what_they_should_and_nothing_else(open_play):
    shown = open_play(hash_of())
    shown.evaluate("playground.seek(20)")
    until(shown, "playground.n === 20 && !playground.asked")
    frame = shown.evaluate(
        """() => { const f = playground.shown; return { ...f, server: Array.from(f.server),
          clients: Array.from(f.clients), down: f.down.map((w) => Array.from(w)),
          up: f.up.map((w) => Array.from(w)) }; }"""
    )
    before, down, learned = np.reshape(frame["clients"], (3, 12, 40))
    server, after = np.reshape(frame["server"], (2, 40))
    idle = [k for k in range(12) if k not in frame["cohort"]]
    np.testing.assert_array_equal(before[idle], down[idle])
    assert (np.abs(learned - down).sum(axis=1) > 0).all()  # everybody learns, the idle too
    for k, window in zip(frame["cohort"], frame["down"], strict=True):
        rest = np.setdiff1d(np.arange(40), window)
        np.testing.assert_array_equal(down[k, window], server[window])
        np.testing.assert_array_equal(down[k, rest], before[k, rest])
    up = frame["up"][0]
    np.testing.assert_allclose(after[up], learned[frame["cohort"]][:, up].mean(axis=0), atol=1e-6)
    rest = np.setdiff1d(np.arange(40), up)
    np.testing.assert_array_equal(after[rest], server[rest])


def test_pointing_at_a_cell_or_moving_there_by_keyboard_reads_its_number(open_play):
    shown = open_play(hash_of())
    shown.evaluate("playground.seek(50)")
    until(shown, "playground.n === 50 && playground.part === 1 && !playground.dirty")
    spot = "[picture.lay.left + 10.5 * picture.lay.cell, picture.lay.top + 2.4 * picture.lay.row]"
    x, y = shown.evaluate(f"(() => {{ const {{ picture }} = playground; return {spot}; }})()")
    shown.locator("canvas.picture").hover(position={"x": x, "y": y})
    value = shown.evaluate("playground.shown.clients[2 * 480 + 2 * 40 + 10]")
    text = shown.locator(".readout").inner_text()
    assert text.startswith("Client 3, entry 11: ")
    assert float(text.split(": ")[1].replace("\N{MINUS SIGN}", "-")) == pytest.approx(
        value, rel=0.01
    )
    canvas, texts = shown.locator("canvas.picture"), []
    shown.locator("h1").hover()
    canvas.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowUp", "ArrowUp", "ArrowLeft"):
        canvas.press(key)
        texts.append(shown.locator(".readout").inner_text().split(":")[0])
    assert [text.split(",")[0] for text in texts[1:4]] == ["Client 1", "Server", "Server"]
    shown.locator("#M").focus()
    assert shown.locator(".readout").inner_text().startswith("Point at a cell")


def test_another_m_moves_the_curve_and_costs_exactly_m_over_d(open_play):
    shown = open_play(hash_of(mask="scattered", shift=1))
    first, online = curve(shown), curve(shown, "online")
    assert first[0] == online[0]
    assert first[-1] < first[0] - 3
    for shared in (1, 10, 40):
        slide(shown, "M", shared)
        assert curve(shown) != first
        assert curve(shown, "online") == online  # on the same data, features and cohorts
        cost = shown.evaluate("playground.cost")
        assert cost == {"psofed": 2 * 4 * 3 * shared, "online": 2 * 4 * 3 * 40}
    assert curve(shown) == online  # M = D


def test_every_control_moves_the_curve(open_play):
    shown = open_play(hash_of())
    seen = [curve(shown)]
    for name in ("each its own", "scattered", "Idle clients learn"):
        shown.get_by_label(name).click()
        seen.append(curve(shown))
    assert all(a != b for i, a in enumerate(seen) for b in seen[:i])
    values = {"K": 20, "D": 60, "S": 6, "shift": 7, "mu": 0.3, "noise": 0.2, "runs": 3, "N": 400}
    for name, value in values.items():
        before = curve(shown)
        slide(shown, name, value)
        assert curve(shown) != before, name
        assert shown.locator(f"output[for={name}]").inner_text() == str(value)
        shown.locator(f"#{name}").press("ArrowLeft")  # and by keyboard
        settle(shown)
        assert shown.evaluate(f"playground.settings.{name}") < value


def test_the_switch_to_bytes_shows_the_same_errors_over_what_has_travelled(open_play):
    shown = open_play(hash_of())
    until(shown, "Boolean(playground.curveChart.chart)")
    shown.get_by_role("button", name="bytes", exact=True).click()
    until(shown, "playground.curveChart.chart.spec.xLog === true")
    series = shown.evaluate(
        "playground.curveChart.chart.spec.series.map((s) => [s.label, s.x, s.y])"
    )
    assert [label for label, *_ in series] == ["PSO-Fed", "Online-Fed"]
    assert series[0][1] == [n * 96 for n in range(201)]
    assert series[1][1] == [n * 960 for n in range(201)]
    assert series[0][2] == curve(shown)
    shown.get_by_role("button", name="rounds", exact=True).click()
    until(shown, "playground.curveChart.chart.spec.xLog === false")
    until(shown, "!playground.numbersDirty")
    cells = shown.locator("tbody tr").first.locator("td").all_inner_texts()
    assert cells[:2] == ["96 B", "19.2 kB"]
    assert float(cells[2].split()[0].replace("\N{MINUS SIGN}", "-")) == pytest.approx(
        curve(shown)[-1], abs=0.01
    )


def test_play_pause_step_and_the_round_slider_move_the_picture(open_play):
    shown = open_play(hash_of(), playing=True)
    shown.evaluate("playground.setSpeed(5)")
    until(shown, "playground.n > 5")
    shown.get_by_role("button", name="Pause").click()
    settle(shown)
    assert not shown.evaluate("playground.playing")
    slide(shown, "round", 31)
    until(shown, "playground.n === 30 && !playground.asked")
    for phase in ("select", "down", "learn", "up", "select"):
        shown.get_by_role("button", name="Next part").click()
        until(shown, f"PHASES[playground.phase] === '{phase}' && !playground.asked")
    assert shown.evaluate("playground.n") == 32
    shown.get_by_role("button", name="Next round").click()
    until(shown, "playground.n === 33")
    slide(shown, "round", 3)  # back again, to what was there before
    until(shown, "playground.n === 2 && !playground.asked")
    until(shown, "!playground.dirty")
    assert shown.locator(".caption").inner_text().startswith("Round 3.")


def test_playing_to_the_end_shows_every_part_of_the_way_and_what_came_of_it(open_play):
    shown = open_play(hash_of(N=1000), playing=True)
    shown.evaluate("""() => { window.seen = []; const { picture } = playground, old = picture.set;
      picture.set = (frame, settings) => { seen.push(frame.n); old.call(picture, frame, settings); };
      playground.setSpeed(8); }""")
    shown.get_by_role("button", name="Play to the end").click()
    until(shown, "!playground.playing")
    seen = shown.evaluate("seen")
    assert seen[-1] == shown.evaluate("playground.n") == 999
    assert len(seen) > 20  # it is watched, not skipped
    assert seen == sorted(seen)
    until(shown, "!playground.dirty")
    caption = shown.locator(".caption").inner_text()
    assert caption.startswith("Round 1000.")
    assert "with a tenth of its traffic" in caption
    assert shown.locator(".verdict").inner_text() in caption
    shown.evaluate("playground.setSpeed(0)")
    shown.get_by_role("button", name="Play", exact=True).click()  # and from the beginning
    until(shown, "playground.playing && playground.n === 0 && playground.phase < 3")


def test_the_speed_is_kept_and_never_claimed_when_it_is_not(open_play):
    shown = open_play(hash_of(N=5000), playing=True)
    rate = """(wished) => { const clock = new Clock(); let n = 0, now = 0;
      clock.speed = RATES.indexOf(wished);
      clock.start(0, 0, 0);
      return (cost) => { while (now < 10000) {
          now += 16;
          const due = clock.due(now);
          if (due > n) { now += (due - n) * cost; n = due; clock.arrived(n, now); }
        }
        return [n / 10, clock.measured, 1000 / cost]; }; }"""
    for wished in (4, 60, 1000):
        reached, measured, _ = shown.evaluate(f"({rate})({wished})(0.1)")
        assert reached == pytest.approx(wished, rel=0.05)
    hurry = "() => { const c = new Clock(); c.start(10, 0, 4990); return [c.rate, c.inPhases]; }"
    assert shown.evaluate(hurry) == [249.5, False]  # 5,000 rounds in 20 s, whatever the speed
    reached, measured, limit = shown.evaluate(f"({rate})(1000)(5)")  # 5 ms a round
    assert 0.7 * limit < reached < limit
    assert measured == pytest.approx(reached, rel=0.1)


def test_the_examples_lead_from_one_to_the_next_and_each_says_what_to_look_for(open_play):
    shown, texts = open_play(""), set()
    names = shown.locator(".presets button").all_inner_texts()
    for name in (*names[1:], names[0]):
        following = shown.locator(".next")
        assert following.inner_text() == f"Next: {name} \N{BLACK RIGHT-POINTING SMALL TRIANGLE}"
        following.click()
        pressed = shown.locator(".presets button[aria-pressed=true]").all_inner_texts()
        assert pressed == [name]
        texts.add(shown.locator(".look").inner_text())
        until(shown, "!playground.asked && !playground.dirty && playground.curves.n.length > 0")
    assert len(texts) == len(names)
    slide(shown, "M", 7)
    assert shown.locator(".next").inner_text() == "Back to the first example"


def test_several_runs_have_a_spread_in_the_picture_and_in_words(open_play):
    shown = open_play(hash_of(runs=3))
    until(shown, "!playground.numbersDirty && Boolean(playground.curveChart.chart)")
    series = "playground.curveChart.chart.spec.series.map((s) => Boolean(s.low))"
    assert shown.evaluate(series) == [True, True, False]
    words = shown.locator(".verdict").inner_text()
    assert "\N{PLUS-MINUS SIGN}" in words or "as far as these runs can tell" in words


def test_a_window_that_cannot_reach_everything_is_warned_about(open_play):
    shown = open_play(hash_of())
    assert shown.locator(".warning").inner_text() == ""
    slide(shown, "shift", 0)
    settle(shown)
    assert "36 of the 40 entries never travel" in shown.locator(".warning").inner_text()
    slide(shown, "shift", 1)
    settle(shown)
    assert "overlap in 3 entries" in shown.locator(".warning").inner_text()


def test_models_that_run_away_break_nothing(open_play):
    shown = open_play(hash_of(mu=2, noise=0.25, N=1000))
    shown.evaluate("playground.seek(900)")
    until(shown, "playground.n === 900 && !playground.asked")
    assert len(curve(shown)) == 1001


def test_the_exercise_has_the_figures_of_the_examples(open_play):
    """Its table names an example, two errors and the bytes of a round."""
    page = (ROOT / "docs" / "exercise.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w[^|]*) \| (\S+) dB \| (\S+) dB \| (\d+) of (\d+) \|", page, re.M)
    assert len(rows) == 4
    shown = open_play("")
    for name, *figures in rows:
        shown.locator(".presets button", has_text=name).click()
        errors = [f"{curve(shown, key)[-1]:.1f}" for key in ("psofed", "online")]
        sent = answer(shown, "() => [playground.cost.psofed, playground.cost.online]")
        assert [*errors, *map(str, sent)] == figures, name
