"""A policy in a file: its table, its title, and each mistake in it."""

import tomllib
from dataclasses import replace

import pytest

from helpers.battery import POLICIES, prepare, small
from helpers.mistakes import is_named
from psofed import experiment as experiments
from psofed.errors import InputError
from psofed.fleet.protocol.server import Server
from psofed.methods import psofed
from psofed.rivals.policies import fedcs, optimal
from psofed.simulate import family


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.describe())
def test_a_policy_survives_toml_and_shows_in_the_title(policy):
    one = small(psofed.Options(shared=3, policy=policy), psofed.Options(shared=3))
    assert experiments.parse(tomllib.loads(one.to_toml())) == one
    assert one.methods[0].title() == f"PSO-Fed M=3 uncoordinated, {policy.describe()}"
    assert replace(one.methods[0], label="mine").title() == "mine"
    with_policy, without = one.start(one.task(0))
    assert not family.supports(with_policy)
    assert family.supports(without)


def test_a_policy_is_read_from_its_own_table(tmp_path):
    path = tmp_path / "some.toml"
    path.write_text(
        '[[methods]]\nname = "fedavg"\n[methods.policy]\nname = "fedcs"\ndeadline = inf\n'
        '[[methods]]\nname = "fedavg"\n[methods.policy]\nname = "optimal"\nasked = 20\n'
    )
    first, second = (options.policy for options in experiments.read(path).methods)
    assert first == fedcs.Options(deadline=float("inf"))
    assert second == optimal.Options(asked=20)


HEAD = "[[methods]]\nname = 'psofed'\n[methods.policy]\n"

WRONG = {
    HEAD: "methods[0].policy.name is missing; use one of fedcs, folb, importance, optimal",
    HEAD + "name = 'importanc'": "methods[0].policy.name is 'importanc', which does not exist; did you mean 'importance'?",
    HEAD + "name = 'importance'\nbeta = 1": "methods[0].policy.beta is 1.0; use 0 or more, below 1",
    HEAD + "name = 'importance'\nbeta = 'a'": "methods[0].policy.beta is 'a', a text; use a number",
    HEAD + "name = 'importance'\nbta = 1": "methods[0].policy.bta is not a known key; did you mean 'beta'?",
    HEAD + "name = 'optimal'\nasked = 101": "methods[0].policy.asked is 101, but there are only 100 clients; use 1 to 100",
    HEAD + "name = 'optimal'\nasked = 0": "methods[0].policy.asked is 0; use 1 to 100",
    HEAD + "name = 'optimal'\nuploads = 17": "methods[0].policy.uploads is 17, but 16 are asked; use 1 to 16",
    HEAD + "name = 'fedcs'\nshare = 0": "methods[0].policy.share is 0.0; use a number above 0, at most 1",
    HEAD + "name = 'fedcs'\ndeadline = nan": "methods[0].policy.deadline is nan; use a number of seconds",
    HEAD + "name = 'fedcs'\nrates = [5, 1]": "methods[0].policy.rates is [5.0, 1.0]; use the smallest and",
    HEAD + "name = 'fedcs'\ncomputing = [-1, 1]": "methods[0].policy.computing is [-1.0, 1.0]; use the smallest and",
    "[[methods]]\nname = 'psofed'\npolicy = 3": "methods[0].policy is 3, a whole number; use a table",
    "[[methods]]\nname = 'local'\n[methods.policy]\nname = 'fedcs'": "methods[0].policy is given, but local itself decides who takes part",
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_in_a_policy_is_named(text, tmp_path):
    assert is_named(text, WRONG[text], tmp_path)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.describe())
def test_a_deployed_server_refuses_policies(policy):
    method, _ = prepare(small(psofed.Options(shared=3, policy=policy)))
    says = "clients could choose" if policy.name == "optimal" else "has no messages"
    with pytest.raises(InputError, match=says):
        Server(method)
