"""Options: what a comparison may try, and what a method cannot have, or what would change nothing."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.battery import network
from helpers.mistakes import refused
from psofed.experiment import Experiment
from psofed.federation import schema
from psofed.federation.options import geometric
from psofed.methods import centralised, fedavg, memofed, paofed, psofed
from psofed.rivals import asofed, cmfl, fedscr, pdlms, pdrls, psorls, quantised, raw, structured
from psofed.rivals.policies import fedcs, importance, optimal
from psofed.stages.defences import krum
from psofed.streams import paper

CLASSES = [schema.load("psofed.methods", name).Options for name in schema.names("psofed.methods")]


@given(st.integers(1, 400), st.integers(1, 5000), st.sampled_from(CLASSES))
def test_every_choice_fits_every_form_that_is_compared(dim, rounds, cls):
    for options, (field, values) in product(cls.compared(dim), cls.choices(dim, rounds).items()):
        assert values
        assert len(set(values)) == len(values)
        for value in values:
            form = replace(options, **{field: value})
            schema.check(form, skip=("policy",))
            form.check(dim, 6)


@given(st.integers(1, 50), st.integers(0, 5000))
def test_values_to_try_grow_geometrically_and_are_never_none(least, most):
    values = geometric(least, most)
    assert values == tuple(sorted(set(values)))
    assert values == (least,) or least <= values[0] <= values[-1] <= most


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.name)
def test_titles_say_which_form_it_is(cls):
    titles = [options.title() for options in cls.compared(200)]
    assert len(set(titles)) == len(titles)


test_options_that_do_not_fit_are_refused_by_name = refused({
    "methods[0].shift is 2, but groups": psofed.Options(shared=3, mask="groups", shift=2),
    "methods[0].decay is 'sqrt', but": cmfl.Options(decay="sqrt"),
    "methods[0].visitors is 0; use": asofed.Options(visitors=0),
    "methods[0].lam is -1.0; use": asofed.Options(lam=-1.0),
    "methods[0].beta is 1.5; use": asofed.Options(beta=1.5),
    "methods[0].scale is -1.0; use": fedscr.Options(block=5, rule="fixed", scale=-1.0),
    "methods[0].shared is 0, but dim is 200": pdlms.Options(shared=0),
    "methods[0].degree is 3; use": pdlms.Options(degree=3),
    "methods[0].degree is 0; use": pdlms.Options(degree=0),
    "methods[0].idle is false, but": pdlms.Options(idle=False),
    "methods[0].forget is 0.0; use": pdrls.Options(forget=0.0),
    "methods[0].start is 0.0; use": pdrls.Options(start=0.0),
    "methods[0].forget is 1.1; use": psorls.Options(forget=1.1),
    "methods[0].regular is -0.1; use": psorls.Options(regular=-0.1),
    "methods[0].shared is 300, but dim is 200": psorls.Options(shared=300),
    "methods[0].rows is 5, but a mask has none; leave it out": structured.Options("mask", 4, 5),
    "methods[0].ridge is 0.0; use a number above 0": raw.Options(solver="ridge", ridge=0.0),
    "methods[0].solver is 'rls'; use": raw.Options(solver="rls"),
    # MEMO-Fed would send too much of too few samples.
    "methods[0].least is 0; use": memofed.Options(least=0),
    "methods[0].silent is -1; use": memofed.Options(silent=-1),
    "methods[0].forget is 0.97, which": memofed.Options(forget=0.97, size=80),
    "methods[0].forget is 0.99, which": memofed.Options(forget=0.99, least=101),
    "methods[0].forget is 0, which": memofed.Options(forget=0.0),
    # Forms of values.
    "methods[0].wire is '7 bit'; use": fedavg.Options(wire="7 bit"),
    "methods[0].wire is '4 bit', but quantised has a form of its own": quantised.Options(wire="4 bit"),
    "methods[0].wire is 'float16', but raw codes its samples itself": raw.Options(wire="float16"),
    "methods[0].wire is '2 bit', but memofed codes its messages": memofed.Options(wire="2 bit"),
    "methods[0].wire is 'float16', but pdlms broadcasts": pdlms.Options(4, wire="float16"),
    "methods[0].wire is '4 bit', but the server does not have late": paofed.Options(4, wire="4 bit"),
    "methods[0].shift is 3, but stochastic windows": psofed.Options(shift=3, selection="stochastic"),
    "methods[0].mask is 'block', but stochastic windows": psofed.Options(selection="stochastic", mask="block"),
    "methods[0].shift is 3, but groups": psofed.Options(shift=3, selection="stochastic", mask="groups"),
    # Policies.
    "methods[0].policy is 'importance'; use the Options": psofed.Options(policy="importance"),
    "methods[0].policy.beta is 'x'": psofed.Options(policy=importance.Options(beta="x")),
    "methods[0].policy is given, but centralised": centralised.Options(policy=importance.Options()),
    "methods[0].policy is given, but the literal": cmfl.Options("literal", policy=importance.Options()),
    "methods[0].policy is given, but a reg": raw.Options(solver="ridge", policy=importance.Options()),
    "methods[0].policy is optimal, but clients that": raw.Options(policy=optimal.Options()),
    "methods[0].policy is optimal, but differences": quantised.Options(reference="last", policy=optimal.Options()),
    "methods[0].policy is optimal, but differences need": fedavg.Options(wire="2 bit", policy=optimal.Options()),
}, lambda options: Experiment(methods=(options,)))  # fmt: skip

test_what_a_method_cannot_do_in_this_experiment_is_refused = refused({
    "methods[0].solver is 'ridge', which needs a linear model": lambda: Experiment(methods=(raw.Options(solver="ridge"),), learner=network.Options()),
    "methods[0].name is memofed, whose server has no fold": lambda: Experiment(methods=(memofed.Options(),), cohort=6, defence=krum.Options()),
    "methods[0].graph is 'complete', but ...2000 clients at most": lambda: Experiment(methods=(pdlms.Options(graph="complete"),), clients=2001),
    "methods[0].policy needs a sample of every client": lambda: Experiment(methods=(psofed.Options(policy=fedcs.Options()),), stream=paper.Options(late=5)),
})  # fmt: skip


@pytest.mark.parametrize(
    ("options", "clients"),
    [
        (memofed.Options(forget=0.97, least=33), 100),
        (memofed.Options(forget=0.0, least=1), 100),
        (pdlms.Options(), 2001),
    ],
)
def test_what_is_just_within_a_limit_is_accepted(options, clients):
    assert Experiment(clients=clients, methods=(options,)).methods == (options,)
