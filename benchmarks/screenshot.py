"""A picture of a page, as Chromium shows it: python benchmarks/screenshot.py PAGE.html OUT.png.

Needs Chromium and Playwright. `--press NAME` presses a button first, and may be repeated.
"""

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright


def main() -> None:
    """Open the page, press what is asked, take the picture."""
    wanted = argparse.ArgumentParser(description=__doc__)
    wanted.add_argument("page", type=Path)
    wanted.add_argument("out", type=Path)
    wanted.add_argument("--width", type=int, default=1100)
    wanted.add_argument("--height", type=int, default=1300)
    wanted.add_argument("--dark", action="store_true")
    wanted.add_argument("--whole", action="store_true", help="all of the page, however long")
    wanted.add_argument("--press", action="append", default=[], metavar="NAME")
    asked = wanted.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(
            viewport={"width": asked.width, "height": asked.height},
            color_scheme="dark" if asked.dark else "light",
        )
        page.goto(asked.page.resolve().as_uri())
        for name in asked.press:
            page.get_by_role("button", name=name, exact=True).first.click()
        page.screenshot(path=asked.out, full_page=asked.whole)
        browser.close()


if __name__ == "__main__":
    main()
