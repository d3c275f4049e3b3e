"""What is told of privacy: to who runs a simulation, a client or a server."""

import pytest

from helpers.command import call
from helpers.stage import Stage
from psofed import Experiment, Privacy, PSOFed
from psofed.cli.laws.drivers import small
from psofed.fleet.protocol.member import Member
from psofed.report.runs import promise

CLIENT = Privacy(epsilon=2.0, level="client", uploads=4)


@pytest.fixture
def stage(tmp_path):
    shown = Stage(tmp_path / "server", privacy=CLIENT)
    yield shown
    shown.close()


def test_a_budget_is_told_as_it_is_spent(stage):
    stage.play(0)
    news = {k: [] for k in stage.devices}
    for k, device in stage.devices.items():
        device.on_news = news[k].append
    stage.play(3)
    early = stage.state()["epsilon"]
    assert 0 < early[0] <= early[1] == 2.0
    stage.play(40)
    assert stage.state()["epsilon"] == [2.0, 2.0]
    metrics = stage.get("/metrics")[1]
    assert 'psofed_epsilon{what="spent"} 2.0' in metrics
    for k, device in stage.devices.items():
        assert device.member.exhausted
        assert device.member.spent == pytest.approx(2.0)
        assert [line for line in news[k] if "epsilon 2 is spent" in line] == news[k][-1:]
    again = Member(stage.plan, 0, stage.devices[0].member.store.disk)
    assert again.exhausted, "a restart does not bring the budget back"


def test_a_client_with_a_budget_tells_nothing_that_has_no_noise(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(small(PSOFed(3), privacy=CLIENT).to_toml(), encoding="utf-8")
    where = ("--id", 0, "--state", "k", "--broker", "mqtt://127.0.0.1:1")
    done = call("deploy", "client", path, *where, "--set", "report=true", cwd=tmp_path)
    assert done.returncode == 2
    assert "deploy.report is true, but these numbers have no noise" in done.stderr
    assert not (tmp_path / "k").exists()


def test_a_run_says_what_it_promises_and_to_whom():
    methods, privacy = (PSOFed(5, "coordinated"),), Privacy(epsilon=4.0, masks=True)
    told = promise(Experiment(privacy=privacy, methods=methods, rounds=100, cohort=10), 0)["words"]
    assert told.startswith("a sum of 5 numbers over 6 clients is closed: 12 unknowns a round")
    assert "epsilon 4 at delta 1e-05 for each sample, 22 for a measurement, which is in 4" in told
    assert promise(small(PSOFed(3)), 0) is None
