"""What the tests of reports share."""

import pytest

from helpers.opened import CHARTS, SMALL
from psofed.report import runs
from psofed.simulate import montecarlo


@pytest.fixture(scope="session")
def result():
    """The files of a run."""
    return runs.render(montecarlo.run(SMALL), "psofed run experiment.toml --runs 4", {})


@pytest.fixture
def opened(tab, result, tmp_path):
    """The page of a run, with its first chart as `chart`."""

    def open_page(page=None, **options):
        path = tmp_path / "report.html"
        path.write_bytes(page or result["report.html"])
        shown = tab(path, **options)
        shown.evaluate(CHARTS)
        return shown

    return open_page
