"""What `psofed --help` lists, and what a shell completes."""

import os
import shutil
from unittest import mock

import click
import pytest

from helpers.runs import LIVE
from psofed.cli.verbs import cli, deploy, study

CONTEXT = click.Context(cli)
GROUPS = {(): cli, ("study",): study, ("deploy",): deploy}
VERBS = {
    (*words, name): group.get_command(CONTEXT, name)
    for words, group in GROUPS.items()
    for name in group.list_commands(CONTEXT)
}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("serve", "it is `psofed deploy serve`"),
        ("study swep", "did you mean 'sweep'?"),
        ("reproduc", "did you mean 'reproduce'?"),
    ],
)
def test_a_verb_that_is_elsewhere_or_misspelt_is_named(psofed, words, said):
    done = psofed(*words.split())
    assert (done.returncode, said in done.stderr) == (2, True)


@pytest.mark.parametrize("words", GROUPS)
def test_help_lists_commands_by_task_with_whole_sentences(psofed, words):
    text = psofed(*words, "--help").stdout
    assert "..." not in text.replace("[ARGS]...", "")
    titles = [f"\n{title}:\n" for title in GROUPS[words].tasks]
    assert sorted(titles, key=text.index) == titles
    plain = " ".join(text.split())
    for name in GROUPS[words].files:
        summary = VERBS[(*words, name)].get_short_help_str(1000)
        assert f" {name} {summary}" in plain
        assert summary.endswith(".")


@pytest.mark.parametrize("width", [80, 100, 140])
def test_help_fits_the_terminal(psofed, width):
    with mock.patch.object(shutil, "get_terminal_size", return_value=os.terminal_size((width, 40))):
        for words in ((), *VERBS):
            for line in psofed(*words, "--help").stdout.splitlines():
                assert len(line) <= width, line


def test_tab_completes_commands_and_options(process):
    words = {"_PSOFED_COMPLETE": "bash_complete", "COMP_CWORD": "1", "COMP_WORDS": "psofed re"}
    assert process(env=os.environ | words).stdout.split() == ["plain,reproduce"]
    words |= {"COMP_CWORD": "2", "COMP_WORDS": "psofed deploy re"}
    assert process(env=os.environ | words).stdout.split() == ["plain,restore"]


def test_options_have_their_own_names_in_the_environment(psofed, monkeypatch, tmp_path):
    (tmp_path / "run.toml").write_text(LIVE)
    known = {"ID": "attic", "SET": "rate=2 qos=7", "STATE": "s", "BROKER": "mqtt://127.0.0.1:1"}
    for name, value in known.items():
        monkeypatch.setenv(f"PSOFED_DEPLOY_CLIENT_{name}", value)
    assert "--set qos is 7" in psofed("deploy", "client", "run.toml").stderr
    monkeypatch.delenv("PSOFED_DEPLOY_CLIENT_SET")
    assert "--id is 'attic'; use 0 to 2" in psofed("deploy", "client", "run.toml").stderr
