"""What the tests share."""

import gc
import os
import subprocess
from collections import defaultdict
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest
import tomli_w
from hypothesis import HealthCheck, settings

from helpers import processes, programs, schedule, skips
from helpers.command import Done, call
from helpers.devices import Mosquitto

# Compiling and shared machines make single examples slow; what counts is that they hold.
# In CI the examples are the same every time: what fails there fails again here, with CI=true.
for profile, examples in {"usual": 20, "thorough": 60}.items():
    settings.register_profile(
        profile, deadline=None, max_examples=examples, suppress_health_check=[HealthCheck.too_slow],
        derandomize=bool(os.environ.get("CI")),
    )  # fmt: skip


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests one by one to whoever is free, in order; files with a dear fixture as a whole."""
    return schedule.Dealer(config, log)


def pytest_addoption(parser):
    text = "all settings of every method, and more examples of each law"
    parser.addoption("--thorough", action="store_true", help=text)


def pytest_configure(config):
    """For all paths: a hook of this file is asked about those beside it only."""
    settings.load_profile("thorough" if config.getoption("--thorough") else "usual")
    gc.disable()  # until all tests are found: what that makes stays to the end
    config.pluginmanager.register(schedule.Examples())
    config.pluginmanager.register(skips.Skips())


def pytest_collection_modifyitems(config, items):
    """Those that take long come first: at the end they would run alone."""
    if skips.HIDDEN in os.environ:
        skips.keep_those_with_programs(config, items)
    if not config.getoption("--thorough"):
        more = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=more)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    items.sort(key=lambda item: not schedule.is_long(item))


def pytest_collection_finish(session):
    gc.freeze()
    gc.enable()


@pytest.fixture
def psofed(tmp_path):
    """The command line in an empty folder, without a process of its own."""
    return partial(call, cwd=tmp_path)


@pytest.fixture
def works(psofed):
    """`works("run", ...)`: the same, which has to end well."""

    def run(*words, **options):
        done = psofed(*words, **options)
        assert done.returncode == 0, done
        return done

    return run


@pytest.fixture
def file(tmp_path):
    """`file(clients=4, methods=[...])`: these settings in a file."""

    def write(name="run.toml", **settings):
        (tmp_path / name).write_text(tomli_w.dumps(settings))
        return tmp_path / name

    return write


@pytest.fixture
def sketched(monkeypatch):
    """Pictures are drawn small and once, not large and in two formats: nobody looks at them."""
    from psofed.report import figures

    def sketch(figure, suffix):
        file = BytesIO(b"%PDF-")
        if suffix != "pdf":
            figure.savefig(file, format=suffix, dpi=20)
        return file.getvalue()

    monkeypatch.setattr(figures, "to_bytes", sketch)


@pytest.fixture
def hasty(monkeypatch):
    """Bytes of a setting are counted in fewer rounds: enough where every round sends as many."""
    monkeypatch.setattr("psofed.compare.budget.BYTE_ROUNDS", 20)


@pytest.fixture
def start(tmp_path):
    """`start("run", ..., **options)`: the command line as a process, which ends with the test."""
    started = []

    def begin(*arguments, **options):
        options = {"cwd": tmp_path, "text": True} | options
        started.append(processes.start(*processes.PSOFED, *arguments, **options))
        return started[-1]

    yield begin
    for process in started:
        processes.end(process)


@pytest.fixture
def process(start):
    """The command line as a process of its own, until it has ended."""

    def run(*arguments, **options):
        piped = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        begun = start(*arguments, **piped | options)
        try:
            out, err = begun.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            processes.kill(begun)
            out, err = begun.communicate()
            pytest.fail(f"it does not end; it said:\n{(out or '')[-2000:]}\n{(err or '')[-4000:]}")
        return Done(begun.returncode, out, err)

    return run


def installed(name):
    """The path of a program; what needs one that is not here is skipped, with the reason."""
    try:
        return programs.find(name)
    except FileNotFoundError as error:
        pytest.skip(str(error))


def program(name):
    """A fixture: the path of a program."""
    return pytest.fixture(scope="session", name=name)(lambda: installed(name))


# Compilers of C, here and for microcontrollers, and one of these, emulated; the broker and a client
# that prints what it hears; what makes certificates, and what checks rules for alerts and units.
gcc, clang, arm_gcc, qemu_arm = map(program, ("gcc", "clang", "arm_gcc", "qemu_arm"))
mosquitto, mosquitto_sub = map(program, ("mosquitto", "mosquitto_sub"))
openssl, promtool, systemd_analyze = map(program, ("openssl", "promtool", "systemd_analyze"))
node = program("node")


@pytest.fixture(scope="session")
def micropython(node):
    """MicroPython, which node runs."""
    try:
        return programs.micropython()
    except FileNotFoundError as error:
        pytest.skip(str(error))


@pytest.fixture
def brokers(mosquitto, tmp_path):
    """`brokers(folder, config)` starts a real broker, which ends with the test."""
    started = []

    def begin(folder=tmp_path, config=""):
        started.append(Mosquitto(mosquitto, folder, config))
        return started[-1]

    yield begin
    for each in started:
        each.stop()


@pytest.fixture
def broker(brokers):
    """A real broker, which anybody may use."""
    return brokers()


@pytest.fixture(scope="session")
def chromium():
    """A real browser without a screen."""
    path = installed("chromium")
    from playwright.sync_api import sync_playwright

    # As root, as in containers, Chromium has no sandbox; and it shall look nothing up by itself.
    quiet = "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update"
    playwright = sync_playwright().start()
    browser = playwright.chromium.launch(executable_path=path, args=quiet.split())
    yield browser
    browser.close()
    playwright.stop()


@pytest.fixture(scope="session")
def spare_tabs():
    """Tabs that showed what a test wanted and are empty again, by their settings.

    A tab is a process, which takes longer to start than most pages to show; our pages store nothing.
    """
    return defaultdict(list)


@pytest.fixture
def tab(chromium, spare_tabs):
    """Open a page in a tab of its own; whatever goes wrong on it fails the test.

    `tab(url_or_path, allow="http://127.0.0.1:8000/", **context)` gives Playwright's page. A console
    message of type error or warning, an exception, or a request to anywhere else fails the test;
    `expect` names the console messages, by a part of each, that the test itself brings about.
    """
    opened, wrong = [], []

    def open_tab(address, allow=None, expect=(), **options):
        options = {"viewport": {"width": 1100, "height": 900}} | options
        spare = spare_tabs[repr(sorted(options.items()))]
        page = spare.pop() if spare else chromium.new_context(**options).new_page()
        page.set_viewport_size(options["viewport"])
        address = address.as_uri() if isinstance(address, Path) else address
        fine = (address, "data:", "blob:", "about:blank", *([allow] if allow else []))

        def on_console(message):
            if message.type in ("error", "warning") and not any(e in message.text for e in expect):
                wrong.append(f"console {message.type}: {message.text}")

        def on_error(error):
            wrong.append(f"exception: {error}")

        def on_request(request):
            if not request.url.startswith(fine):
                wrong.append(f"request: {request.url}")

        heard = {"console": on_console, "pageerror": on_error, "request": on_request}
        for name, handler in heard.items():
            page.on(name, handler)
        opened.append((page, heard, spare))
        page.goto(address)
        return page

    yield open_tab
    for page, heard, spare in opened:
        page.goto("about:blank")
        for name, handler in heard.items():
            page.remove_listener(name, handler)
        spare.append(page)
    assert not wrong, "\n".join(wrong)
