"""The playground's settings and controls, from outside its page."""

import json
import time
from urllib.parse import urlencode

FIRST = {
    "K": 12, "D": 40, "M": 4, "S": 3, "shift": 4, "mu": 0.75, "noise": 0.0175, "N": 200,
    "runs": 1, "seed": 1, "scheme": "coordinated", "mask": "block", "idle": True,
}  # fmt: skip


def until(shown, condition):
    """Wait until it holds, asking from outside: the page allows no evaluation within."""
    end = time.monotonic() + 60
    while not shown.evaluate(condition):
        assert time.monotonic() < end, condition
        time.sleep(0.02)


def answer(shown, function, argument=None):
    """What a function of the page returns, as one text: the browser packs numbers one by one."""
    return json.loads(shown.evaluate(f"(given) => JSON.stringify(({function})(given))", argument))


def settle(shown):
    until(shown, "playground.curves.done && playground.cost !== null && !playground.asked")


def hash_of(**changes):
    settings = FIRST | changes
    return "#" + urlencode({k: str(v).lower() for k, v in settings.items()})


def slide(shown, name, value):
    """Move a slider as a finger would: its value, then the event."""
    shown.locator(f"#{name}").evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }", value
    )


def curve(shown, key="psofed"):
    settle(shown)
    return answer(shown, f"() => Array.from(playground.curves.{key})")
