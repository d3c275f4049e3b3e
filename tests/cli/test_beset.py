"""Commands that take an experiment honour its attack and its defence, or refuse them by name."""

import pytest

FILE = """
clients = 6
cohort = 3
rounds = 30
runs = 2
world = 0

[features]
dim = 6

[attack]
name = "{attack}"
share = 0.5

[[methods]]
name = "psofed"
shared = 2
scheme = "coordinated"
"""
TO = ("--broker", "127.0.0.1:1", "--state", "s")


@pytest.fixture
def file(tmp_path):
    def write(attack, more=""):
        (tmp_path / "e.toml").write_text(FILE.format(attack=attack) + more)
        return "e.toml"

    return write


def test_verify_honours_an_attack_and_a_defence(psofed, file):
    done = psofed("study", "verify", file("perturbation", '[defence]\nname = "median"\n'))
    assert done.returncode == 0, done.stderr
    assert "All within 1e-12" in done.stdout


@pytest.mark.parametrize("attack", ["alie", "ipm", "minmax"])
def test_an_attack_that_needs_to_know_what_others_send_is_refused_where_clients_are_alone(
    psofed, file, attack
):
    for command in (
        ("study", "verify"),
        ("deploy", "serve", *TO),
        ("deploy", "client", "--id", 0, *TO),
    ):
        done = psofed(*command, file(attack))
        assert done.returncode == 2, command
        assert f"attack.name is '{attack}', whose clients know what others send" in done.stderr


def test_a_client_with_samples_of_its_own_refuses_an_attack_on_the_stream(psofed, file):
    done = psofed("deploy", "client", file("labels"), "--id", 0, *TO, "--stream", "mine.csv")
    assert done.returncode == 2
    assert "--stream is 'mine.csv', but [attack] labels changes samples of FILE's" in done.stderr


def test_a_sweep_reaches_the_keys_of_an_attack_and_of_a_defence(psofed, file, sketched):
    both = file("perturbation", '[defence]\nname = "trimmed"\n')
    done = psofed("study", "sweep", both, "--set", "attack.sigma=0,5", "--out", "s")
    assert done.returncode == 0, done.stderr
    assert "attack.sigma" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("PSO-Fed")][:2]
    assert rows[0][-3] != rows[1][-3]
    unknown = psofed("study", "sweep", both, "--set", "attack.factor=0,5", "--out", "t")
    assert unknown.returncode == 2
    assert "attack.factor is not a setting of this experiment" in unknown.stderr
