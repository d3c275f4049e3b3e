"""The live dashboard in a real browser, over a server in this process."""

import numpy as np

from helpers.hostile import HOSTILE
from psofed.fleet import mqtt
from psofed.methods import psofed as pso


def test_texts_from_outside_are_texts(stage, open_page):
    shown = stage(methods=(pso.Options(shared=3, label=HOSTILE[0]),))
    shown.play(2)
    shown.board.about["run"] = HOSTILE[1]
    for text in HOSTILE:
        shown.board.note(text)
    page = open_page(shown)
    page.get_by_text(HOSTILE[2].strip()).wait_for()
    for text in HOSTILE[:3]:
        shown.server._handle(mqtt.Event("down", data=text))
        shown.state()
        page.get_by_role("heading", level=1).get_by_text(f"No broker: {text};").wait_for()
    assert page.locator("header p").inner_text().startswith(f"Run {HOSTILE[1]}: {HOSTILE[0]}")
    assert page.evaluate("window.hacked") is None
    assert page.locator("#main script, #main img, #main svg[onload]").count() == 0


def test_a_thousand_clients_can_be_sorted_and_found_by_keyboard_too(stage, open_page):
    shown = stage(clients=1000, cohort=3)
    shown.play(40)
    page = open_page(shown)
    page.locator(".map.dense i").nth(999).wait_for()
    assert page.locator("#clients tbody tr").count() == 50
    page.get_by_role("button", name="accepted").focus()
    page.keyboard.press("Enter")
    most = int(shown.ledger.accepted.max())
    best = int(np.flatnonzero(shown.ledger.accepted == most)[0])
    assert page.locator("#clients tbody tr").first.locator("th").inner_text() == str(best)
    assert (
        page.get_by_role("columnheader", name="accepted").get_attribute("aria-sort") == "descending"
    )
    page.get_by_label("Client", exact=False).first.fill("17, 999")
    assert sorted(page.locator("#clients tbody th").all_inner_texts()) == ["17", "999"]
    page.get_by_label("Client", exact=False).first.fill("")
    page.get_by_role("button", name="Show all 1,000").click()
    assert page.locator("#clients tbody tr").count() == 1000


def test_clients_are_shown_and_found_by_their_names(stage, open_page):
    shown = stage()
    shown.server.coordinator.names.listed = ("gw00", "1", "a-name-of-twenty-four-sig")
    shown.play(20)
    page = open_page(shown)
    page.locator(".map.named i").get_by_text("gw00").click()
    assert page.locator("#clients tbody th").all_inner_texts() == ["gw00"]
    page.get_by_label("Client", exact=False).first.fill("2 1")
    names = page.locator("#clients tbody th").all_inner_texts()
    assert sorted(names) == ["1", "a-name-of-twenty-four-sig"]


def test_a_phone_shows_it_without_scrolling_sideways(stage, open_page):
    shown = stage(methods=(pso.Options(shared=3, label="M" * 300),))
    shown.play(30)
    page = open_page(shown, viewport={"width": 375, "height": 700})
    page.locator(".u-over").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == 375
