"""Small frames and lines: the same in Python and in C, whatever comes in."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import psofed
from helpers.board import CHECKED, Board, built, frames
from psofed.experiment import Experiment, Features
from psofed.fleet.lines import frames as small
from psofed.fleet.protocol.deployment import Deploy, Deployment

PLAIN = Experiment(clients=3, cohort=1, rounds=300, check=psofed.checks.NoCheck())


def plan(shared, wire="float32", **changes):
    method = psofed.PSOFed(shared=shared, shift=1)
    return Deployment(replace(PLAIN, methods=(method,), **changes), Deploy(wire=wire))


def heard_by_python(pieces):
    line = small.SerialLine()
    return [frame for piece in pieces for frame in line.feed(piece)], line.broken


def test_a_line_carries_frames_through_noise_in_both_languages(small_board):
    rng = np.random.default_rng(5)
    odd = np.array([0xC0, 0xDB, 0xDC, 0xDD, 0, 255], np.uint8)
    sent, stream = [], b""
    for _ in range(300):
        bag = odd if rng.random() < 0.5 else np.arange(256, dtype=np.uint8)
        frame = rng.choice(bag, rng.integers(1, small.FRAME + 1)).tobytes()
        data = small.packed(frame)
        assert small_board.pack(frame) == data
        if rng.random() < 0.2:  # a byte is lost, or another
            at = rng.integers(1, len(data) - 1)
            data = data[:at] + rng.bytes(rng.integers(2)) + data[at + 1 :]
        else:
            sent.append(frame)
        if rng.random() < 0.1:
            data = rng.bytes(rng.integers(1, 70)) + data
        stream += data
    pieces = [stream[at : at + 64] for at in range(0, len(stream), 64)]
    found, broken = heard_by_python(pieces)
    assert [frame for frame in found if frame in sent] == sent
    assert broken > 20
    assert [frame for piece in pieces for frame in small_board.hear(piece)] == found
    assert heard_by_python([bytes([byte]) for byte in stream]) == (found, broken)


@pytest.mark.parametrize("wire", ["float16", "float32"])
def test_windows_of_any_size_come_and_go_in_frames_of_51_bytes(wire, gcc, tmp_path):
    rng, size = np.random.default_rng(6), np.dtype(wire).itemsize
    for i, shared in enumerate((1, 11, 12, 23, 24, 1000)):
        made = plan(shared, wire, features=Features(dim=max(shared, 200)))
        (tmp_path / str(i)).mkdir()
        with Board(built(tmp_path / str(i), made, "1", gcc, "-O1")) as board:
            assert board.hello() == small.hello(-1, made.digest)
            for n in (0, 3, small.LAST_ROUND):
                values = rng.normal(size=shared).astype(wire)
                down = frames(n, values, wire)
                assert max(map(len, down)) <= 51
                assert [board.receive(frame) for frame in down][-1] == 1
                board.learn(np.zeros(4), 0)
                up, come = board.upload(), small.Parts(n, shared * size, size)
                assert [len(frame) for frame in up] == [len(frame) for frame in down]
                found = [come.take(frame) for frame in (*rng.permutation(np.array(up, object)),)]
                assert found[:-1] == [None] * (len(up) - 1)
                assert len(found[-1]) == shared * size
            assert board.hello() == small.hello(small.LAST_ROUND, made.digest)


def test_what_is_no_part_of_a_body_is_passed_over():
    good = small.split(9, b"12345678" * 10, 4)
    come = small.Parts(9, 80, 4)
    (other,) = small.split(8, b"1" * 36, 4)
    assert [come.take(f) for f in (b"", b"123", other, good[1] + b"0", b"\7" + good[1][1:])] == [
        None
    ] * 5
    assert come.take(good[1]) is None is come.take(good[1])
    assert come.take(good[0]) == b"12345678" * 10


@given(data=st.data())
@settings(max_examples=5)
def test_any_bytes_are_taken_without_harm(data, small_board):
    for each in data.draw(st.lists(st.binary(max_size=60), max_size=20)):
        assert small_board.receive(each) in (-3, -2, -1, 0, 1, 2)
    assert all(len(part) <= small.FRAME for part in small_board.upload())


@pytest.fixture(scope="module")
def small_board(gcc, tmp_path_factory):
    with Board(
        built(
            tmp_path_factory.mktemp("small"),
            plan(3, features=Features(dim=5), check=psofed.checks.Outliers(window=3)),
            "0",
            gcc,
            *CHECKED,
        )
    ) as board:
        yield board
