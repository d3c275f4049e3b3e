"""A state folder may come from anybody: what is in it is read, and never run."""

import os

import pytest

from helpers.loopback import World
from psofed.errors import InputError
from psofed.fleet.protocol.store import StateFolder, reader

PLACES = (  # where a file can name code
    'methods = [{ name = "./x.py" }]',
    '[attack]\nname = "./x.py"',
    '[defence]\nname = "x.y"',
    '[check]\nname = "./x.py"',
    '[learner]\nname = "x.y"',
    '[stream]\nname = "./x.py"',
    '[stream]\nname = "function"\nf = "./x.py:f"\ntaps = 2',
    '[features]\nname = "x:f"',
)
READING = ("fleet list server", "fleet list server --toml", "restore server --list")
USING = ("fleet add server", "restore server --round 0", "restore server")
EXPORT = "export server --to json"


@pytest.fixture
def state(tmp_path, monkeypatch):
    """The folder of a server, next to which and in which lies a file that somebody would like to be run."""
    world = World(rounds=10, disks={-1: StateFolder(tmp_path / "server")})
    world.plan.keep(world.disks[-1])
    world.rounds(2)
    world.disks[-1].close()
    for folder in (tmp_path, tmp_path / "server"):
        (folder / "x.py").write_text(f"import os\nos.mkdir({str(tmp_path / 'ran')!r})\nexit(1)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "server"


@pytest.mark.parametrize("place", PLACES)
def test_no_command_runs_code_that_a_state_folder_names(state, psofed, refused, place):
    (state / "run.toml").write_text(place)
    for command in READING:
        assert psofed("deploy", *command.split()).returncode == 0
    for command in (*USING, EXPORT):
        refused("code that is not imported here", *command.split())
    assert not (state.parent / "ran").exists()


def test_who_names_the_file_lets_it_run(state, psofed):
    plan = state / "run.toml"
    plan.write_text('methods = [{ name = "./x.py" }]')
    for command in ("restore server", EXPORT):
        assert psofed("deploy", *command.split(), "--plan", plan).returncode == 2
        assert (state.parent / "ran").exists()
        (state.parent / "ran").rmdir()


def test_a_plan_that_is_a_link_is_refused(state, refused):
    (state / "run.toml").rename(state.parent / "run.toml")
    (state / "run.toml").symlink_to(state.parent / "run.toml")
    for command in (*USING, EXPORT):
        refused("is a symbolic link", *command.split())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_the_folder_of_another_user_is_refused(state, refused):
    os.chown(state, 65534, 65534)
    for command in (*READING, *USING, EXPORT):
        refused("belongs to user 65534, not to you", *command.split())
    with pytest.raises(InputError, match="not to you"):
        StateFolder(state)
    with pytest.raises(InputError, match="not to you"):
        reader(state)("record.0")
