"""What is told of privacy: to who runs a simulation, a client or a server."""

from dataclasses import replace

import pytest

from helpers.command import call
from helpers.stage import Stage
from psofed import Experiment, Features, Privacy, PSOFed
from psofed.cli.laws.drivers import small
from psofed.federation.learners import lms
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.member import Member
from psofed.report.runs import promise
from psofed.streams import function, paper, table
from psofed.streams.data.columns import Columns

COLUMNS = Columns("y", ("t",), inputs=("a",))
TABLE = table.Options(COLUMNS, dict.fromkeys("ay", (0, 1)), tuple(map(str, range(20))))
CLIENT = Privacy(epsilon=2.0, level="client", uploads=4)


class Own(lms.Options):
    """It may learn by the sign of an error alone."""


def digits(client, count):
    return client.random.integers(3, size=(count, 4)) / 2


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


@pytest.mark.parametrize("privacy", [CLIENT, Privacy(masks=True)])
def test_a_private_client_tells_nothing_that_has_no_noise_and_no_masks(privacy, tmp_path):
    path = tmp_path / "run.toml"
    made = small(PSOFed(3, "coordinated"), privacy=privacy, cohort=3)
    path.write_text(made.to_toml(), encoding="utf-8")
    where = ("--id", 0, "--state", "k", "--broker", "mqtt://127.0.0.1:1")
    done = call("deploy", "client", path, *where, "--set", "report=true", cwd=tmp_path)
    assert done.returncode == 2
    assert "deploy.report is true, but these numbers have no noise and no masks" in done.stderr
    assert not (tmp_path / "k").exists()
    Deployment(replace(made, privacy=Privacy(clip_error=1.0)), Deploy(report=True))


def test_a_run_says_what_it_promises_and_to_whom():
    methods, privacy = (PSOFed(3, "coordinated"),), Privacy(epsilon=4.0, masks=True)
    told = promise(Experiment(privacy=privacy, methods=methods, rounds=100, cohort=10), 0)["words"]
    assert told.startswith("a sum of 3 numbers over 6 clients is closed: 12 unknowns a round")
    assert "epsilon 4 at delta 1e-05 for each sample, 22 for a measurement, which is in 4" in told
    assert promise(small(PSOFed(3)), 0) is None


@pytest.mark.parametrize("changes", [
    {"stream": TABLE}, {"features": Features("gaussian")},
    *({"privacy": Privacy(masks=True, **{f"clip_{what}": 0.1})} for what in ("error", "change")),
    {"stream": function.Options(paper.f, taps=4, inputs=digits)},
    {"stream": paper.Options(rate=(0.05, 0.1))}, {"learner": Own()},
], ids=["table", "bumps", "clipped", "scaled", "own inputs", "gaps", "own learner"])  # fmt: skip
def test_what_can_be_tried_is_never_called_closed(changes):
    """A quarter of what counting needs, but unknowns that take few values are no unknowns."""
    methods, privacy = (PSOFed(1, "coordinated"),), Privacy(masks=True)
    free = Experiment(clients=20, cohort=20, methods=methods, privacy=privacy)
    assert free.counts[0].closed
    assert "not known to be closed" in replace(free, **changes).counts[0].in_words()
