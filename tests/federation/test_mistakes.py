"""Handlers of an own method that break the contract: refused by name, noticed, or right."""

import numpy as np
import pytest

from helpers.skeletons import TOML, experiment, put, skeleton
from psofed import experiment as experiments
from psofed.cli.laws.rules import subject
from psofed.errors import InputError
from psofed.simulate import montecarlo

UPLOAD = 'return client["w"].copy()\n'
DOWNLOAD = 'return server["w"].copy()\n'
RECEIVE = 'client["w"][:] = message\n'
LEARN = 'self.learner.learn(client["w"], z, y, self.step)\n'
FOLD = 'server["w"] += self.gain * sum(changes)\n'


def added(code):
    """One more handler, at the end of the class."""
    return FOLD, FOLD + "\n    def " + code.replace("\n", "\n        ") + "\n"


def mse(folder, *changes):
    put(folder, *changes)
    return montecarlo.run(experiments.read(experiment(folder)), 1).mse


INVITED = "return policies.Invited(sorted(order[: self.size].tolist()))\n"
ADMITTED = "return policies.Admitted({k: 1 / len(scores) for k in scores})\n"
SAMPLES = "return streams.Samples(x, f(x), noise)\n"
SNAPSHOT = "return streams.Samples(x, f(x), np.sqrt(self.noise) * drawn[:, -1])\n"
REFUSED = {
    "upload returns a str, not None or numbers [m]": (UPLOAD, 'return "w"\n'),
    "upload returns an array of float32 of shape [1, 6]": (UPLOAD, 'return client["w"][None]\n'),
    "upload returns an array of complex64": (UPLOAD, 'return client["w"] * 1j\n'),
    "upload returns a ragged list": (UPLOAD, "return [[1.0], [1.0, 2.0]]\n"),
    "download returns a int": (DOWNLOAD, "return 5\n"),
    "receive adds state 'seen'": (RECEIVE, 'client["seen"] = message\n'),
    "learn makes state 'w', an array of float32": (LEARN, 'client["w"] = client["w"][:-1]\n'),
    "cohort returns a list, not an array": added("cohort(self, n, server):\nreturn [0, 1]"),
    "cohort returns None, not an array": added("cohort(self, n, server):\nreturn None"),
    "invite returns an array of int64 of shape [5], not Invited": (INVITED, "return order\n"),
    "invite names client 99, of 0 to 4": (INVITED, "return policies.Invited([0, 99])\n"),
    "invite names a client twice": (INVITED, "return policies.Invited([1, 1])\n"),
    "invite gives [0.5], not a list of whole numbers": (INVITED, "return policies.Invited([0.5])\n"),
    "admit returns None, not Admitted": (ADMITTED, "return None\n"),
    "who has uploaded; give 0 to those that should not count": (ADMITTED, "return policies.Admitted({})\n"),
    "who did not ask": (ADMITTED, "return policies.Admitted(dict.fromkeys(range(5), 1.0))\n"),
    "the weight nan": (ADMITTED, "return policies.Admitted(dict.fromkeys(scores, np.nan))\n"),
    "samples returns a tuple, not Samples": (SAMPLES, "return x, f(x), noise\n"),
    "samples gives x the shape [5, 12, 2]": (SAMPLES, "return streams.Samples(x[..., :2], f(x), noise)\n"),
    "samples gives clean the shape [12, 5]": (SAMPLES, "return streams.Samples(x, f(x).T, noise.T)\n"),
    "not an array of real numbers": (SAMPLES, "return streams.Samples(x * 1j, f(x), noise)\n"),
    "samples gives a list as x": (SAMPLES, "return streams.Samples(list(x), f(x), noise)\n"),
    "samples gives NaN or infinity": (SAMPLES, "return streams.Samples(x * np.nan, f(x), noise)\n"),
    "snapshot returns None, not Samples": (SNAPSHOT, "return None\n"),
    "snapshot gives x the shape [3, 3]": (SNAPSHOT, "return streams.Samples(x[:3], f(x)[:3], f(x)[:3])\n"),
    "snapshot gives NaN or infinity": (SNAPSHOT, "return streams.Samples(x, f(x) + np.inf, f(x))\n"),
}  # fmt: skip
# What no shape shows, and the rule that notices it.
NOTICED = [
    ((UPLOAD, 'return client["w"][:1]\n'), "Decoding gives back"),
    ((UPLOAD, 'return client["w"] * (np.nan if n == 5 else 1)\n'), "Models stay finite"),
    ((DOWNLOAD, 'return server["w"] + np.inf\n'), "Models stay finite"),
    ((LEARN, 'client["w"] *= np.nan\n'), "Models stay finite"),
    ((FOLD, 'server["w"] = server["w"][None]\n'), "Models stay finite"),
    ((FOLD, 'del server["w"]\n'), "Models stay finite"),
    (added('models(self, server, clients):\nreturn server["w"][:5]'), "Models stay finite"),
    (added("encode(self, values, up):\nreturn 'abc'"), "Decoding gives back"),
    (added("cohort(self, n, server):\nreturn np.array([0, 99])"), "A cohort is an array"),
    (added("cohort(self, n, server):\nreturn np.array([1, 1])"), "A cohort is an array"),
    (added("client(self):\nreturn None"), "A cohort is an array"),
]
NUMPY = (
    "from typing import Any, ClassVar\n",
    "from typing import Any, ClassVar\n\nimport numpy as np\n",
)


@pytest.mark.parametrize("said", REFUSED)
def test_what_breaks_the_contract_is_refused_with_file_handler_and_rule(tmp_path, said):
    change = REFUSED[said]
    kind = next(each for each in ("method", "policy", "stream") if change[0] in skeleton(each))
    own = put(tmp_path, *([NUMPY] if kind == "method" else []), change, kind=kind, name="own.py")
    text = TOML
    if kind == "policy":
        put(tmp_path)  # the method, whose mistake it is not
        text += '[methods.policy]\nname = "./own.py"\n'
    elif kind == "stream":
        text = text.replace("./mine.py", "onlinefed") + '[stream]\nname = "./own.py"\n'
    else:
        text = text.replace("./mine.py", "./own.py")
    with pytest.raises(InputError) as refused:
        montecarlo.run(experiments.read(experiment(tmp_path, text)), 1)
    assert said in str(refused.value)
    assert str(refused.value).startswith(str(own))


@pytest.mark.parametrize(("change", "rule"), NOTICED)
def test_what_no_shape_shows_is_noticed_by_the_check(tmp_path, change, rule):
    found = subject(str(put(tmp_path, NUMPY, change))).verdicts()
    assert any(v.outcome == "failed" and v.rule.startswith(rule) for v in found)


MEANT = [
    [(UPLOAD, 'return client["w"]\n'), (DOWNLOAD, 'return server["w"]\n')],
    [(UPLOAD, 'return client["w"].tolist()\n')],
    [(RECEIVE, 'client["w"] = message\n')],
    [(DOWNLOAD, 'return server["w"]\n'), (RECEIVE, 'client["w"][:] = message; message *= 0\n')],
    [(FOLD, 'server["w"] = server["w"] + self.gain * sum(changes)\n')],
]


@pytest.mark.parametrize("changes", MEANT, ids=[str(changes[0][1]) for changes in MEANT])
def test_views_lists_and_new_arrays_are_what_was_meant(tmp_path, changes):
    assert np.array_equal(mse(tmp_path / "a", *changes), mse(tmp_path / "b"))


def test_whole_numbers_in_a_message_keep_the_weights_of_the_fold(tmp_path):
    """They come out of the bytes of a deployment as real numbers, too."""
    whole = UPLOAD, 'return (client["w"] * 100).astype(int)\n'
    real = UPLOAD, 'return (client["w"] * 100).astype(int).astype(float)\n'
    assert np.allclose(mse(tmp_path / "a", whole), mse(tmp_path / "b", real), rtol=1e-4)


def test_a_state_that_is_replaced_is_still_there_in_the_next_round(tmp_path):
    first = added('client(self):\nreturn {"w": self.task.initial(), "seen": self.task.zeros(1)}')
    slower = 'self.learner.learn(client["w"], z, y, self.step / float(client["seen"][0]))\n'
    lost = LEARN, 'client["seen"] = client["seen"] + 1\n        ' + slower
    kept = LEARN, 'client["seen"] += 1\n        ' + slower
    assert np.array_equal(mse(tmp_path / "a", lost, first), mse(tmp_path / "b", kept, first))


def test_a_step_that_is_too_large_is_still_a_result(tmp_path):
    put(tmp_path)
    text = experiment(tmp_path).read_text().replace("rounds = 12", "rounds = 400")
    curves = montecarlo.run(experiments.read(experiment(tmp_path, text + "step = 9.0\n")), 1)
    assert not np.isfinite(curves.mse[0, -1])
