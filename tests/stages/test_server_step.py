"""The server's own step: momentum and Adam as published, in plain loops, and where they rest."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from helpers.battery import METHODS, same, small
from helpers.drawn import D, agree, drawn, federated
from psofed import Experiment, InputError, read
from psofed.cli.laws.drivers import prepare
from psofed.federation.options import ServerStep
from psofed.methods import fedavg, psofed

EVERY = 3


def moving(rule):
    """What the server makes of w and the mean U of what the members have learned, in numbers."""
    m, v = [0.0] * D, [rule.tau**2] * D

    def move(w, U):
        w = list(w)
        for i in range(D):
            if rule.rule == "momentum":
                m[i] = rule.beta * m[i] + U[i]
                w[i] += m[i]
            else:
                m[i] = rule.beta * m[i] + (1 - rule.beta) * U[i]
                v[i] = rule.second * v[i] + (1 - rule.second) * U[i] ** 2
                w[i] += rule.rate * m[i] / (sqrt(v[i]) + rule.tau)
        return np.array(w)

    return move


@pytest.mark.parametrize("rule", [ServerStep(beta=0.7), ServerStep("adam", 0.8, 0.05)])
def test_the_server_steps_as_published(rule):
    world, models = drawn(fedavg.Options(EVERY, server=rule))
    agree(federated(world, EVERY, move=moving(rule)), models)


@pytest.mark.parametrize("options", [fedavg.Options(EVERY), psofed.Options(3, average=True)])
def test_momentum_of_nothing_is_the_plain_fold(options):
    assert same(replace(options, server=ServerStep(beta=0.0)), options)
    assert not same(replace(options, server=ServerStep(beta=0.5)), options)


def test_every_server_with_a_step_from_w_to_w_takes_its_own_and_no_other():
    """No method says so by itself: what it declares for other reasons is enough."""
    refused = set()
    for options in METHODS:
        if options.serves and options.steps:
            method, _ = prepare(small(replace(options, server=ServerStep(beta=0.5))))
            assert "w" in method.server()
        else:
            with pytest.raises(InputError, match="server is given, but the server of"):
                small(replace(options, server=ServerStep()))
            refused.add(options.name)
    assert refused == {"local", "memofed", "pdlms", "pdrls", "psorls", "raw"}


def test_a_file_has_it_as_a_table_and_names_what_is_wrong_in_it(tmp_path):
    stepping = fedavg.Options(5, server=ServerStep("adam", rate=0.02))
    (tmp_path / "a.toml").write_text(Experiment(methods=(stepping,)).to_toml())
    assert read(tmp_path / "a.toml").methods == (stepping,)
    assert read(tmp_path / "a.toml").titles == ["FedAvg E=5, Adam 0.02"]
    for line, wrong in (("beta = 1.0", "beta is 1.0"), ('rule = "sgd"', "rule is 'sgd'")):
        (tmp_path / "b.toml").write_text(f'[[methods]]\nname = "fedavg"\n[methods.server]\n{line}')
        with pytest.raises(InputError, match=rf"methods\[0\].server.{wrong}"):
            read(tmp_path / "b.toml")
