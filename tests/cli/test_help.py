"""What `psofed --help` lists, and what a shell completes."""

from __future__ import annotations

import os
import shutil
import subprocess
from unittest import mock

import click
import pytest

from psofed.cli.groups import GROUPS, REST, ByTask
from psofed.cli.verbs import cli


def test_every_command_is_in_a_group_on_purpose():
    listed = [name for names in GROUPS.values() for name in names]
    assert len(listed) == len(set(listed))
    assert set(cli.commands) <= set(listed), "name it in GROUPS of cli/groups.py"


def test_help_lists_commands_by_task_with_whole_sentences(psofed):
    text = psofed("--help").stdout
    assert "..." not in text.replace("[ARGS]...", "")
    titles = [f"\n{title}:\n" for title in GROUPS]
    assert sorted(titles, key=text.index) == titles
    plain = " ".join(text.split())
    for name, command in cli.commands.items():
        summary = command.get_short_help_str(1000)
        assert f" {name} {summary}" in plain
        assert summary.endswith(".")


@pytest.mark.parametrize("width", [80, 100, 140])
def test_help_fits_the_terminal(psofed, width):
    with mock.patch.object(shutil, "get_terminal_size", return_value=os.terminal_size((width, 40))):
        for words in ([], *([name] for name in cli.commands)):
            for line in psofed(*words, "--help").stdout.splitlines():
                assert len(line) <= width, line


def test_a_command_of_no_group_is_listed_last():
    group = ByTask("g", {n: click.Command(n, help="Does it.") for n in ("new", "run", "init")})
    text = group.get_help(click.Context(group))
    assert text.index("init") < text.index("run") < text.index(REST) < text.index("new")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_asks_psofed_itself(psofed, shell):
    done = psofed("completion", shell)
    assert done.returncode == 0
    assert "_PSOFED_COMPLETE=" + f"{shell}_complete" in done.stdout


def test_tab_completes_commands_and_options(process):
    words = {"_PSOFED_COMPLETE": "bash_complete", "COMP_CWORD": "1", "COMP_WORDS": "psofed re"}
    done = process(env=os.environ | words)
    assert done.stdout.split() == ["plain,reproduce", "plain,report", "plain,restore"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_script_is_valid_bash(psofed):
    script = psofed("completion", "bash").stdout
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
