"""The client in C: equal to the deployed client, whatever comes in, and after any power cut."""

import subprocess
from dataclasses import replace

import numpy as np
import pytest

import psofed
from helpers.board import ARM, CHECKED, Board, built, emulated, frames, hexed, in_python, joined
from helpers.loopback import disk
from psofed.core import mixing
from psofed.experiment import Experiment, Features
from psofed.federation.learners import nlms
from psofed.federation.round import begins
from psofed.fleet.lines import frames as small
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.client import Client
from psofed.fleet.protocol.deployment import Deploy, Deployment
from psofed.fleet.protocol.member import Member
from psofed.stages.mix import MixOptions
from psofed.tables.export import device

ROUNDS = 300
PLAIN = Experiment(clients=3, cohort=1, rounds=ROUNDS, methods=(psofed.PSOFed(shared=40),),
                   check=psofed.checks.NoCheck())  # fmt: skip
SMALL = replace(PLAIN, features=Features(dim=30), methods=(psofed.PSOFed(shared=7),))
SETTINGS = {
    "PSO-Fed": PLAIN,
    "coordinated blocks": replace(
        SMALL, methods=(psofed.PSOFed(shared=6, scheme="coordinated", mask="block"),)
    ),
    "only when asked": replace(SMALL, methods=(psofed.PSOFed(shared=7, idle=False),)),
    "Online-Fed": replace(SMALL, methods=(psofed.OnlineFed(),)),
    "blocks of rounds": replace(SMALL, methods=(psofed.methods.Periodic(shared=7, local_steps=5),)),
    "normalised": replace(SMALL, learner=nlms.Options(epsilon=0.01)),
    "checked": replace(SMALL, check=psofed.checks.Outliers(factor=3.0, low=-0.8, repeats=2)),
    "clipped": replace(SMALL, check=psofed.checks.Outliers(factor=2.0, action="clip", window=5)),
}


def plan(experiment, wire="float32"):
    return Deployment(experiment, Deploy(wire=wire))


@pytest.fixture(params=["C", "Python"])
def in_each(request, tmp_path):
    """`in_each(plan, who)`: a board with the client in that language."""

    def begin(made, who):
        if request.param == "Python":
            return Board(*in_python(tmp_path, made, who))
        return Board(built(tmp_path, made, who, request.getfixturevalue("gcc"), *CHECKED))

    return begin


def heard(server, n, plan, client, fresh=False):
    """What a server with model `server` sends to the client in round n."""
    when = begins(client.method, n) if fresh else n
    message = client.method.download(server, np.array([client.k]), when)
    return client.method.encode(message.row(0), up=False), frames(
        n, message.row(0), plan.wire, fresh
    )


def follow(board, made):
    """Client 1 and a board have the same samples and windows; what they answer is the same."""
    wire = made.wire
    method, rng = made.method(), np.random.default_rng(1)
    x = rng.normal(size=(ROUNDS, 4)).astype(np.float32)
    y = np.sin(x.sum(axis=1)) + rng.choice([0.0, 0.1, 3.0], ROUNDS, p=[0.5, 0.4, 0.1])
    y = y.astype(np.float32)
    y[40:44], x[40:44] = y[40], x[40]
    y[100] = np.nan
    client = Client(method, 1, lambda a, b: (x[a:b], y[a:b]))
    server = {"w": rng.normal(size=method.task.dim).astype(np.float32) / 10}
    pace = method.pace
    asked = np.flatnonzero(rng.random(ROUNDS // pace) < 0.2) * pace
    down = []
    for n in range(ROUNDS):
        begin = n - n % pace
        if begin not in asked:
            if method.idle:
                board.learn(x[n], y[n])
            continue
        invitation, fresh = b"", begin == asked[9]
        if n == begin:
            invitation, down = heard(server, n, made, client, fresh)
            came = [board.receive(frame) for frame in rng.permutation(np.array(down, object))]
            assert came == [0] * (len(down) - 1) + [1]
        answer = client.take_part(n, invitation, fresh and n == begin)
        board.learn(x[n], y[n])
        if n == begin + pace - 1:
            round_, values = joined(board.upload(), wire)
            assert round_ == begin
            wanted = method.decode(answer, up=True)
            assert np.abs(values - wanted).max() <= (1e-6 if wire == "float32" else 1e-3)
            assert board.receive(down[0]) == 2
            np.testing.assert_array_equal(joined(board.upload(), wire)[1], values)
        server["w"] += 0.01 * rng.normal(size=method.task.dim).astype(np.float32)
    client.catch_up(ROUNDS)
    assert np.abs(board.w - client.model).max() <= 1e-6


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("wire", ["float16", "float32"])
def test_a_device_ends_with_the_model_of_the_client(name, wire, gcc, tmp_path):
    made = plan(SETTINGS[name], wire)
    with Board(built(tmp_path, made, "1", gcc, *CHECKED)) as board:
        follow(board, made)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_device_in_plain_python_does_so_too(name, tmp_path):
    made = plan(SETTINGS[name])
    with Board(*in_python(tmp_path, made, "1")) as board:
        follow(board, made)


@pytest.mark.parametrize("name", ["PSO-Fed", "blocks of rounds", "checked", "clipped"])
def test_a_device_in_micropython_does_so_too(name, node, micropython, tmp_path):
    made = plan(SETTINGS[name], "float16")
    with Board(*in_python(tmp_path, made, "1", node, micropython)) as board:
        follow(board, made)


def test_on_a_live_clock_a_device_answers_at_once_and_signs_as_a_member_does(in_each):
    experiment = replace(
        SETTINGS["clipped"], methods=(psofed.PSOFed(shared=22),), features=Features(dim=60)
    )
    made = Deployment(experiment, Deploy(wire="float16", clock="live"))
    member, rng = Member(made, 1, disk()), np.random.default_rng(7)
    server = {"w": rng.normal(size=60).astype(np.float32) / 10}
    with in_each(made, "1") as board:
        for n in range(12):
            invitation, (down,) = heard(server, n, made, member.client)
            x = rng.normal(size=(rng.integers(0, 80) * (n % 3), 4)).astype(np.float32)
            y = np.sin(x.sum(axis=1)) + rng.choice(np.float32([0, 5]), len(x))
            for each, label in zip(x, y, strict=True):
                board.learn(each, label)
                member.client.learn(each[None], label[None])
            assert board.receive(down) == 1
            body, _ = member.take(
                wire.encode(wire.Frame(wire.INVITE, made.digest, n, 1, "float16", invitation))
            )
            (up,) = board.upload()
            assert len(up) == len(body) - wire.head(wire.UPLOAD) + small.HEAD <= 51
            assert up[-2:] == body[-2:], n
            assert board.receive(down) == 2
            assert board.upload() == [up]


def exact(made, k):
    """Algorithm 1 of one client in float32, each sum in the order in which the device adds."""
    task, f = made.method().task, np.float32
    slope = (task.features.W / (2 * np.pi)).astype(f)
    offset = (task.features.b / (2 * np.pi)).astype(f)
    sine = (np.sqrt(2 / task.dim) * np.array(device.SINE)).astype(f)
    w = np.zeros(task.dim, f)

    def features(x):
        t = offset.copy()
        for value, column in zip(x, slope.T, strict=True):
            t += value * column
        t = np.abs(np.fmod(t, f(1)))
        s = f(0.25) - np.where(t > 0.5, f(1) - t, t)
        q, p = s * s, np.full_like(s, sine[4])
        for term in sine[3::-1]:
            p = p * q + term
        return s * p

    def learn(x, y):
        z, total = features(x), f(0)
        for a, b in zip(w, z, strict=True):
            total += a * b
        w[:] += f(0.75) * (y - total) * z
        return w

    return learn


def test_where_sums_have_the_same_order_all_bits_are_the_same(gcc, tmp_path):
    made = plan(PLAIN)
    x = np.random.default_rng(2).normal(size=(40, 4)).astype(np.float32)
    learn = exact(made, 0)
    with Board(built(tmp_path, made, "0", gcc, "-O2")) as board:
        for each in x:
            board.learn(each, each[0])
            wanted = learn(each, each[0])
        np.testing.assert_array_equal(board.w, wanted)


TINY = replace(PLAIN, features=Features(dim=5), methods=(psofed.PSOFed(shared=3, shift=1),),
               check=psofed.checks.Outliers(window=3))  # fmt: skip


def test_a_power_cut_at_any_byte_leaves_the_state_before_or_after_a_save(gcc, tmp_path):
    with Board(built(tmp_path, plan(TINY), "0", gcc, *CHECKED)) as board:
        assert board.say("o") == ["0"]
        x = np.ones(4)
        for y in (1, 2, 3, 2):
            board.learn(x * y, y)
        assert board.say("s", -1) == ["0"]
        before, saves, cuts = board.w, 1, 0
        assert before.any()
        while cuts < 10_000:
            board.learn(x * cuts, 2)
            after = board.w
            whole = board.say("s", cuts) == ["0"]
            found = int(*board.say("o"))
            assert found == saves + whole
            np.testing.assert_array_equal(board.w, after if whole else before)
            if whole:
                break
            cuts += 1
        assert 200 < cuts < 10_000


@pytest.mark.parametrize("where", ["here", "MicroPython"])
def test_the_client_in_python_goes_on_from_the_last_file_that_is_whole(where, tmp_path, request):
    made, programs = plan(replace(TINY, mix=MixOptions())), []
    if where == "MicroPython":
        programs = [request.getfixturevalue(name) for name in ("node", "micropython")]
    with Board(*in_python(tmp_path, made, "0", *programs)) as board:
        folder = tmp_path if where == "here" else "."
        assert board.say("o", folder) == ["0"]
        for y in (1, 2, 3, 2):
            board.learn(np.ones(4) * y, y)
        assert board.receive(frames(70, np.arange(3.0), "float32")[0]) == 1
        board.learn(np.ones(4), 1)
        answer, before = board.upload(), (board.w.tolist(), board.predict(np.ones(4)))
        board.say("s", folder)
        board.learn(np.ones(4) * 5, 5)
        board.say("s", folder)
        assert board.say("o", folder) == ["2"]
        assert board.w.tolist() != before[0]
        if where == "here":
            newest = tmp_path / "psofed.0"
            whole = newest.read_bytes()
            for cut in (0, 4, 8, 20, len(whole) - 1):
                newest.write_bytes(whole[:cut])
                assert board.say("o", folder) == ["1"]
                assert (board.w.tolist(), board.predict(np.ones(4))) == before
            assert board.hello() == small.hello(70, made.digest)
            assert board.upload() == answer
            newest.write_bytes(whole.replace(b"1", b"2", 1))
            assert board.say("o", folder) == ["1"]


def test_what_is_no_frame_of_this_run_changes_nothing(in_each):
    made = plan(SMALL)
    good = frames(70, np.arange(7.0), "float32")
    (frame,) = good
    bad = {
        -1: [b"", frame[:3], frame[:-1], frame + b"\0", bytes([1]) + frame[1:],
             bytes([0x80 | 3]) + frame[1:], bytes([0x80]) + frame[1:]],
        -2: frames(69, np.ones(7), "float32"),
        -3: [frames(71, np.full(7, v), "float32")[0] for v in (np.nan, np.inf, -1e10)],
    }  # fmt: skip
    with in_each(made, "0") as board:
        assert board.upload() == []
        assert board.receive(frame) == 1
        board.learn(np.ones(4), 1)
        answer, w = board.upload(), board.w
        for code, those in bad.items():
            for each in those:
                assert board.receive(each) == code, each
                np.testing.assert_array_equal(board.w, w)
        assert board.receive(frame) == 2
        assert board.upload() == answer


def test_values_of_two_bytes_are_those_of_ieee(gcc, tmp_path):
    main = """
    #include "config.h"
    #include "psofed.h"
    #include <stdio.h>
    int main(void)
    {
        uint8_t two[2];
        union { float f; unsigned bits; } a;
        while (scanf("%x", &a.bits) == 1) {
            psofed_put(two, a.f);
            a.f = psofed_get(two);
            printf("%04x %08x\\n", two[0] | two[1] << 8, a.bits);
        }
        return 0;
    }
    """
    (tmp_path / "it.c").write_text(main)
    program = built(tmp_path, plan(SMALL, "float16"), "0", gcc, *CHECKED, main=tmp_path / "it.c")
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)].astype(np.float32)
    rng = np.random.default_rng(0)
    between = (halves[:-1] + halves[1:]) / 2  # of two neighbours the even one
    others = rng.integers(0, 2**32, 20_000, np.uint32).view(np.float32)
    given = np.concatenate([halves, between, others[np.isfinite(others)]])
    said = subprocess.run([program], input=" ".join(hexed(given)), capture_output=True, text=True)
    found = np.array(
        [[int(word, 16) for word in line.split()] for line in said.stdout.splitlines()]
    )
    with np.errstate(over="ignore"):
        wanted = given.astype(np.float16)
    np.testing.assert_array_equal(found[:, 0], wanted.view(np.uint16))
    np.testing.assert_array_equal(
        found[:, 1].astype(np.uint32).view(np.float32), wanted.astype(np.float32)
    )


def test_the_mix_of_a_device_is_that_of_its_equations(in_each):
    made = plan(replace(SMALL, mix=MixOptions()))
    rng, memory, trust = np.random.default_rng(3), mixing.start(2), mixing.equal(2)
    x, last = rng.normal(size=(200, 4)), np.nan
    y = np.cumsum(rng.normal(size=200)) / 10 + np.sin(x[:, 0])
    with in_each(made, "0") as board:
        learn = exact(made, 0)
        w = np.zeros(30)
        for each, label in zip(np.float32(x), np.float32(y), strict=True):
            z = made.method().task.features(each)
            own = float(w @ z)
            guesses = np.array([own, own if np.isnan(last) else last])
            mixed = mixing.weights(memory, trust) @ guesses
            assert abs(board.predict(each) - mixed) < 2e-4
            board.learn(each, label)
            if not np.isnan(last):
                mixing.learn(memory, trust, guesses, mixed, label)
            last, w = float(label), learn(each, label)


@pytest.mark.parametrize("name", ["PSO-Fed", "clipped"])
def test_an_emulated_microcontroller_has_the_bits_of_this_machine(
    name, gcc, arm_gcc, qemu_arm, tmp_path
):
    made, rng = plan(SETTINGS[name], "float16"), np.random.default_rng(4)
    x = rng.normal(size=(60, 4)).astype(np.float32)
    (down,) = frames(40, rng.normal(size=7), "float16") if name == "clipped" else (None,)
    found = []
    for each in (gcc, arm_gcc):
        folder = tmp_path / each[-12:].replace("/", "_")
        folder.mkdir()
        on_board = each == arm_gcc
        program = built(folder, made, "2", each, *(ARM if on_board else ("-O2",)))
        with Board(*(emulated(qemu_arm, program) if on_board else [program])) as board:
            for i, one in enumerate(x):
                if i == 40 and down:
                    assert board.receive(down) == 1
                board.learn(one, np.sin(one.sum()))
            found.append([*board.w.tolist(), board.upload(), board.predict(x[0])])
    assert found[0] == found[1]


def test_both_compilers_take_what_a_device_is_given(gcc, clang, tmp_path):
    for compiler in (gcc, clang):
        for name in SETTINGS:
            built(tmp_path, plan(SETTINGS[name]), "1", compiler, "-Os", main=tmp_path / "main.c")
