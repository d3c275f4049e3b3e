"""What the tests share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parent.parent
GOLDEN = sorted((ROOT / "tests" / "golden").glob("*.json"))

# Compiling and shared machines make single examples slow; what counts is that they hold.
settings.register_profile(
    "psofed", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("psofed")


@pytest.fixture
def psofed(tmp_path):
    """The command line as a process of its own, in an empty folder."""

    def call(*arguments, **options):
        return subprocess.run(
            [sys.executable, "-m", "psofed", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=300,
            env=os.environ | {"PYTHONWARNINGS": "error"},
            **{"cwd": tmp_path} | options,
        )

    return call


@pytest.fixture(scope="session")
def chromium():
    """A real browser without a screen."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    # As root, as in containers, Chromium has no sandbox; and it shall look nothing up by itself.
    quiet = "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=quiet.split())
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium):
    """Open a page in a tab of its own; whatever goes wrong on it fails the test.

    `tab(url_or_path, allow="http://127.0.0.1:8000/", **context)` gives Playwright's page. A console
    message of type error or warning, an exception, or a request to anywhere else fails the test;
    `expect` names the console messages, by a part of each, that the test itself brings about.
    """
    contexts, wrong = [], []

    def open_tab(address, allow=None, expect=(), **options):
        context = chromium.new_context(**{"viewport": {"width": 1100, "height": 900}} | options)
        contexts.append(context)
        page = context.new_page()
        address = address.as_uri() if isinstance(address, Path) else address
        fine = (address, "data:", "blob:", *([allow] if allow else []))

        def on_console(message):
            if message.type in ("error", "warning") and not any(e in message.text for e in expect):
                wrong.append(f"console {message.type}: {message.text}")

        def on_request(request):
            if not request.url.startswith(fine):
                wrong.append(f"request: {request.url}")

        page.on("console", on_console)
        page.on("pageerror", lambda error: wrong.append(f"exception: {error}"))
        page.on("request", on_request)
        page.goto(address)
        return page

    yield open_tab
    for context in contexts:
        context.close()
    assert not wrong, "\n".join(wrong)
