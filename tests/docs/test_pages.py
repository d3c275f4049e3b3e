"""Every command and every piece of code in the documents is run, or says why it is not."""

import re
import subprocess
import tomllib
from importlib.util import find_spec

import build_site
import click
import paper_index
import pytest
import sharing_figure

from helpers import ROOT
from helpers.pages import DIRECTIVES, LANGUAGES, PAGES, Shell, blocks, commands, differences, prose
from psofed import experiment as experiments
from psofed.cli.verbs import cli
from psofed.fleet.protocol import deployment as deployed
from psofed.tables import plan as plans

BLOCKS = [block for page in PAGES for block in blocks(page)]
# All that is not run. A new one needs a line here, and a good reason.
NOT_RUN = [
    ("deploy.md", "needs two machines; docs/tutorial.md does it on one, tests/fleet/test_secret.py with secrets"),
    ("deploy.md", "needs root, a user named mosquitto and /etc; tests/fleet/test_tls.py has the rest"),
    ("deploy.md", "needs the machine broker.example; tests/fleet/test_authority.py runs both ends"),
    ("deploy.md", "changes /opt and needs a network"),
    ("deploy.md", "needs root and systemd; tests/docs/test_units.py judges the units"),
    ("device.md", "needs devices; see tests/fleet/test_gateway.py"),
    ("tables.md", "needs a data set that is not ours to ship; benchmarks/air_quality.py does it"),
]  # fmt: skip


@pytest.fixture
def shell(tmp_path):
    opened = Shell(tmp_path)
    yield opened
    opened.close()


@pytest.mark.long
@pytest.mark.usefixtures("sketched")
@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if blocks(p) and p.name != "operate.md"],  # test_operations.py runs it
    ids=lambda page: page.name,
)
def test_a_page_does_what_it_says(page, shell):
    printed = ""
    for block in blocks(page):
        if block.language == "text":
            wrong = differences(block.text, printed)
            assert not wrong, f"{block.where}\n" + "\n".join(wrong)
        elif block.language in ("sh", "python", "toml"):
            printed = play(block, shell)


def play(block, shell):
    if block.how == "save as":
        (shell.work / block.what).write_text(block.text)
    if block.how in ("not run", "run by"):
        return ""
    if block.language == "sh":
        return shell.run(block.what if block.how == "run as" else block.text)
    name = f"block{block.line}.{'py' if block.language == 'python' else 'toml'}"
    (shell.work / name).write_text(block.text)
    if block.language == "python":
        return shell.python(name)
    read(shell.work / name)
    return ""


def read(path):
    """A TOML block is read by whoever reads such files."""
    table = tomllib.loads(path.read_text())
    if "columns" in table:
        return plans.read(path)
    return deployed.read(path) if "deploy" in table else experiments.read(path)


def verb(words):
    """The command of a list of words, and the words after it; None if there is none."""
    command = cli
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            return None, words
        command, words = found, words[1:]
    return command, words


def options(command):
    return [o for p in command.params for o in (*p.opts, *p.secondary_opts)] + ["--help"]


def test_what_is_not_run_is_listed_with_its_reason():
    assert [(b.page, b.what) for b in BLOCKS if b.how == "not run"] == NOT_RUN


def test_every_block_has_a_language_that_is_run_or_none():
    for block in BLOCKS:
        assert block.language in LANGUAGES, block.where
        assert block.how in ("", *DIRECTIVES), f"{block.where}: {block.how}"
        if block.language == "":
            first = block.text.split(maxsplit=1)[0]
            code = ("psofed", "python", "python3", "pip", "from", "import")
            assert first not in code, block.where
        if block.how == "run by":
            file, name = block.what.split("::")
            assert f"def {name}(" in (ROOT / file).read_text(), block.where
    for page in PAGES:
        assert "```" not in prose(page), f"{page.name}: a fence is left open"


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "sh"], ids=lambda b: b.where)
def test_a_shell_block_has_known_verbs_and_options(block):
    assert subprocess.run(["bash", "-n"], input=block.text, text=True).returncode == 0
    for words in commands(block.text):
        check(words, block.where)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_text_have_known_verbs_and_options(page):
    for text in re.findall(r"`(psofed [^`]+)`", prose(page)):
        words = text.split()[1:]
        if words[0].islower():  # not VERB
            check(words, f"{page.name}: {text}")


def check(words, where):
    if words[0] in ("--cite", "--help", "--version"):
        return
    command, rest = verb(words)
    assert command is not None, f"{where}: psofed has no {' '.join(words[:1])}"
    for word in rest:
        if word.startswith("--"):
            assert word.split("=")[0] in options(command), f"{where}: {word}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_scripts_modules_and_extras_that_a_page_names_exist(page):
    text = page.read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for names in re.findall(r"pip install '(?:psofed|\.)\[([\w,]+)\]'", text):
        assert set(names.split(",")) <= set(extras["optional-dependencies"]), names
    for script in re.findall(r"python3? ((?:benchmarks/)?\w+\.py)", text):
        assert (ROOT / script).exists() or f"save as: {script}" in text, script
    for module in re.findall(r"python3? -m ([\w.]+)", text):
        assert find_spec(module) is not None, module


def test_quoted_output_is_compared_number_by_number():
    printed = "a  1.25 dB\nb 7\nc\n"
    for right in ("a 1.27 dB\n...\nc\n", "...\nb 7\n...\n"):
        assert not differences(right, printed)
    for wrong in ("a 1.29 dB\n...\n", "a 1.25 dB\nb 8\nc\n", "a 1.25 dB\nb 7\n", "b 7\nc\n"):
        assert differences(wrong, printed)


def test_a_page_that_fails_is_noticed(shell):
    assert shell.run("x=1\necho $((x + 1))") == "2\n"
    with pytest.raises(AssertionError, match="no such"):
        shell.run("echo no such >&2\nfalse\necho goes on")
    with pytest.raises(AssertionError, match=r"missing\.toml"):
        shell.run("psofed run missing.toml\necho goes on")


def test_every_key_has_a_meaning():
    rows = re.findall(r"^\| `\w+` \|.*$", build_site.from_code()["fields"], re.MULTILINE)
    assert len(rows) > 40
    for row in rows:
        assert re.split(r"(?<!\\)\|", row)[4].strip(), row


def test_the_picture_of_partial_sharing_is_what_the_code_draws():
    written = (ROOT / "docs" / "partial_sharing.svg").read_text(encoding="utf-8")
    assert written == sharing_figure.svg()


def test_the_index_of_the_paper_is_what_the_docstrings_say():
    written = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
    command = "run: python docs/_tools/paper_index.py docs/paper.md"
    assert written == paper_index.updated(written), command


def test_every_equation_of_the_paper_leads_to_code():
    found = {place.key for place in paper_index.places() if not place.variant}
    assert set(range(1, 15)) | {paper_index.ALGORITHM, *paper_index.SYMBOLS} <= found
    assert set(paper_index.EQUATIONS) == set(range(1, 15))
