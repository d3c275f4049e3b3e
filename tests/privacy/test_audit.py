"""An honest-but-curious server: what it reads of samples from the messages of the deployed handlers."""

from dataclasses import fields, replace

import numpy as np
import pytest

from psofed.experiment import Experiment
from psofed.fleet.protocol.deployment import Deploy
from psofed.methods import fedavg, local, memofed, onlinefed, psofed
from psofed.privacy import attack, audit, view
from psofed.privacy.reconstruction import Reader
from psofed.privacy.view import Contact, ServerView
from psofed.rivals import raw, structured, topk
from psofed.stages.privacy import Privacy
from psofed.streams import paper, table

ALL = {"clients": 10, "cohort": 10}


def told(name):
    return lambda done, total: None


def played(options, rounds=10, wire="float32", **changes):
    experiment = Experiment(methods=(options,), rounds=rounds, **ALL | changes)
    return view.play(view.deployed(experiment, 0, Deploy(wire=wire)), rounds)


def audited(options, rounds=10, attacked=1, **changes):
    seen = played(options, rounds, **changes)
    return audit.of_view(seen, audit.whom(seen, attacked), "it", told)


@pytest.mark.parametrize(
    ("options", "wire", "error"),
    [
        (onlinefed.Options(), "float32", 1e-4),
        (psofed.Options(200, "coordinated"), "float32", 1e-4),
        (psofed.Options(40, "coordinated"), "float32", 1e-4),
        (psofed.Options(40), "float32", 1e-4),
        (psofed.Options(40, mask="block"), "float32", 1e-4),
        (psofed.Options(40, "coordinated"), "float16", 1e-2),
    ],
    ids=lambda each: getattr(each, "title", lambda: str(each))(),
)
def test_who_is_in_every_round_is_read_sample_by_sample(options, wire, error):
    seen = played(options, wire=wire)
    truth = view.truth(seen.plan, [0], seen.stop)
    attacked = attack.attack(seen, [0])
    true, found, _ = audit.compared(attacked, truth)
    assert len(true) == 10
    assert np.abs(found - true).max() <= error
    judged = audit.judge(attacked, truth, seen.plan.experiment.stream)
    assert (judged.read, judged.inputs) == (1, 1)
    assert (judged.equations, judged.contacts) == (seen.method.shared, 10)


def test_whole_updates_of_some_steps_are_read_too():
    found = audited(fedavg.Options(3), rounds=9)
    assert found.read == 1
    assert found.error < 1e-4


def test_where_nothing_came_up_nothing_is_said():
    found = audited(fedavg.Options(5), rounds=3)
    assert (found.attack, found.samples) == ("", 0)
    assert "nothing has come up" in found.note


def test_too_few_entries_are_not_enough():
    """By the counting rule: one number for two unknowns, and four for five."""
    one = audited(psofed.Options(1), rounds=20)
    four = audited(psofed.Options(4, "coordinated"), rounds=6, stream=paper.Options(inputs="iid"))
    assert (one.inputs, one.gauge) == (0, "not by our attacks")
    assert (four.inputs, four.gauge) == (0, "not by our attacks")
    assert one.margin < 1
    assert four.margin < 1


def test_as_many_equations_as_unknowns_are_solved_at_times_though_nobody_can_be_sure():
    five = audited(psofed.Options(5, "coordinated"), rounds=6, stream=paper.Options(inputs="iid"))
    assert five.gauge == "partly"
    assert five.searches == 0


def test_inputs_that_are_windows_of_a_series_tell_more():
    """A sample of a delay line has two new numbers, not five: M = 5 is then enough for many."""
    found = audited(psofed.Options(5, "coordinated"), rounds=12)
    assert found.unknowns == pytest.approx((2 * 12 + 3) / 12)
    assert found.margin > 1
    assert found.inputs > 0.3


def test_between_contacts_the_newest_sample_is_seen_alone():
    """Entries that go down and come up in one contact have changed by one sample."""
    found = audited(
        psofed.Options(40), rounds=60, attacked=2, cohort=1, stream=paper.Options(inputs="iid")
    )
    assert found.margin < 1
    assert found.fresh > 5
    assert 0 < found.inputs < 0.5
    assert found.gauge == "partly"


def test_samples_that_are_sent_are_read_and_nothing_is_read_of_nothing():
    sent = audited(raw.Options())
    assert (sent.read, sent.gauge) == (1.0, "readable")
    experiment = Experiment(methods=(local.Options(),), rounds=5, **ALL)
    (alone,) = audit.audit(experiment, Deploy(), 5, 1, told).methods
    assert (alone.read, alone.samples, alone.note) == (0.0, 0, "nothing is sent")


def test_what_has_no_attack_is_not_called_safe():
    for options, why in (
        (psofed.Options(40, wire="4 bit"), "not followed"),
        (memofed.Options(least=1), "examples/first_upload.py"),
    ):
        found = audited(options, rounds=3)
        assert not found.attack
        assert why in found.note


def summed(clients, shared, rounds):
    who = {"clients": clients, "cohort": clients, "privacy": Privacy(masks=True)}
    return audited(psofed.Options(shared, "coordinated"), rounds, **who)


def test_masked_sums_hide_samples_if_there_are_more_of_them_than_numbers():
    masked = summed(10, 3, 6)
    assert (masked.attack, masked.inputs, masked.gauge) == (attack.SUMS, 0, "closed")
    assert masked.unknowns == 25 > masked.equations > masked.searches == 0
    assert masked.note.startswith(attack.UNTRIED)  # by counting, and it says so
    assert "searches were made anyway" in masked.note


def test_sums_of_several_rounds_are_read_jointly_though_one_is_not_enough():
    assert summed(5, 20, 8).read == 1


@pytest.mark.parametrize(
    "setting", [(10, 40, 3, 1), (10, 20, 4, 0), (20, 10, 6, 0), (4, 12, 3, 1), (4, 12, 2, 0)]
)
def test_sums_determine_as_many_samples_as_the_counting_rule_says(setting, monkeypatch):
    monkeypatch.setattr(Reader, "_solve", lambda reader: None)
    (clients, _, rounds, share), found = setting, summed(*setting[:3])
    assert found.determined == pytest.approx(share, abs=0.05)
    first = replace(found.count, members=clients).rounds
    assert (first is not None and rounds >= first) == share


def test_a_sum_over_many_who_have_no_sample_is_read(monkeypatch):
    monkeypatch.setattr(Reader, "_solve", lambda reader: None)
    rare = {"clients": 20, "cohort": 20, "stream": paper.Options(rate=(0.05, 0.05))}
    found = audited(psofed.Options(5, "coordinated"), 15, privacy=Privacy(masks=True), **rare)
    assert found.samples == 5
    assert (found.determined, found.gauge) == (1, "determined")


def test_masked_sums_of_whole_models_over_few_clients_hide_little():
    """Four samples of five numbers each are in 200 sums: masks need a cohort, or partial sharing."""
    masked = audited(onlinefed.Options(), rounds=4, cohort=4, privacy=Privacy(masks=True))
    assert masked.inputs > 0.8
    assert masked.margin == pytest.approx(200 / 15.75)  # of a delay line


@pytest.mark.parametrize(("epsilon", "read"), [(4.0, 0.0), (1e8, 1.0)])
def test_noise_makes_the_attack_fail_if_there_is_enough_of_it(epsilon, read):
    private = Privacy(epsilon=epsilon)
    found = audited(psofed.Options(40, "coordinated"), rounds=4, privacy=private)
    assert found.attack
    assert found.inputs == read
    assert (found.searches > 0) == (read > 0)  # the larger noise is as large as the changes


def test_updates_in_parts_are_followed_with_what_was_held_back():
    for options in (topk.Options(20), topk.Options(20, memory=0.0), structured.Options("mask", 40)):
        found = audited(options, rounds=6)
        assert (found.read, found.gauge) == (1.0, "readable")
    assert "not followed" in audited(topk.Options(20, memory=0.5), rounds=2).note


def test_attacks_get_bytes_and_the_public_plan(monkeypatch):
    assert {field.type for field in fields(Contact)} == {"int", "bytes", "tuple[int, ...]"}
    known = {field.name for field in fields(ServerView)}
    assert known == {"plan", "first", "stop", "contacts"}
    seen = played(psofed.Options(40), rounds=3)

    def forbidden(*_, **__):
        raise AssertionError("an attack has asked for samples")

    monkeypatch.setattr(type(seen.plan.experiment.stream), "samples", forbidden)
    monkeypatch.setattr(table.Options, "snapshot", forbidden)
    monkeypatch.setattr(view, "replay", forbidden)
    assert len(attack.attack(seen, [0]).samples[0]) == 3
    with pytest.raises(AssertionError, match="asked for samples"):
        audit.of_view(seen, [0], "it", told)


def test_guessing_the_mean_reads_nothing_and_no_client_is_no_error():
    found = audited(psofed.Options(40), rounds=3)
    assert found.chance == 0
    assert "nobody" in audit.of_view(played(memofed.Options(), rounds=1), [], "it", told).note
