"""The loops of a server and of devices, without a broker: news, live samples, lines, files."""

import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest

from helpers.loopback import Line, disk, plan
from psofed.fleet import mqtt
from psofed.fleet.client_loop import Device
from psofed.fleet.protocol import wire
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy
from psofed.fleet.protocol.member import Member
from psofed.fleet.samples import MalformedError, Sample, lines, parse, read_lines, table
from psofed.fleet.server_loop import ServerLoop as Loop
from psofed.fleet.tally import Tally


def test_a_device_imports_numpy_and_the_mqtt_client_and_nothing_heavy():
    heavy = ("matplotlib", "rich", "pandas", "cryptography", "psofed.simulate")
    code = f"import psofed.cli.client, psofed.fleet.client_loop, paho.mqtt.client, sys; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_who_has_another_file_and_a_number_that_does_not_exist_is_told_about_the_file():
    given, other = plan(), plan(clients=20)
    server, member = Loop(Coordinator(given, disk()), Line()), Member(other, 15, disk())
    news = []
    server.on_news = news.append
    server._message(15, member.hello())
    assert "another experiment" in member.take(server.link.sent[0])[1]
    assert "it runs another experiment: compare the files" in news[0]
    server._message(-1, member.hello())
    assert len(server.link.sent) == 1


def live(samples, **settings):
    """A client on the live clock with these samples, and what it says."""
    given, said = plan(Deploy(clock="live", **settings), dtype="float32"), []
    device = Device(Member(given, 0, disk()), Line(), samples, said.append, said.append)
    return device, said


def drain(device):
    """Read what samples are left and learn from all, as `run` does."""
    reader = threading.Thread(target=device._read)
    reader.start()
    while reader.is_alive() or device._waiting.qsize():
        device._step()
    reader.join()


def test_a_sample_that_is_useless_in_the_tasks_precision_is_counted_and_skipped():
    x = np.ones(4)
    useless = [Sample(x, 1e39), Sample(x, np.nan), Sample(x * np.inf, 1.0), Sample(x, 1e10),
               Sample(x * 1e300, None), Sample(np.ones(3), 1.0), Sample("abc", 1.0), Sample(x, x),
               Sample(x, 1.0, clipped="a is -999", jumps=True)]  # fmt: skip
    device, said = live([Sample(x, 1.0), *useless, Sample(x, 1.0), Sample(x, None)])
    drain(device)
    assert device.tally.counts.total() == len(useless)
    assert device.member.client.position == 2
    assert "1e+39" not in "".join(map(str, said))
    assert any("not finite in float32; skipped, 1 so far" in str(line) for line in said)
    (answer,) = (found for found in said if not isinstance(found, str))
    assert isinstance(answer.y, float)
    assert np.isfinite(device.member.client.state["w"]).all()


def test_a_label_that_stays_while_inputs_change_is_noticed_and_one_that_follows_is_not():
    rng = np.random.default_rng(0)
    device, said = live([])
    cases = [([0.0] * 99, 0), (range(1, 20), 0), ([7.0] * 120, 1), ([7.0] * 9, 1), ([1], 2)]
    for labels, count in cases:
        for y in labels:
            device._learn([Sample(rng.normal(size=4), float(y))])
        assert sum("label" in line for line in said) == count


def test_bad_lines_of_a_kind_are_one_line_a_minute_with_their_count(monkeypatch):
    now, said = [0.0], []
    monkeypatch.setattr("psofed.fleet.tally.monotonic", lambda: now[0])
    tally = Tally(said.append)
    for second in range(180):
        now[0] += 1
        tally.add("malformed", f"line {second}: it is not UTF-8; skipped")
        tally.look()
    tally.add("late", "the time is before; skipped")
    tally.look(last=True)
    assert said == [
        "Warning: line 0: it is not UTF-8; skipped, 1 so far",
        "Warning: line 60: it is not UTF-8; skipped, 61 so far, 60 of them since the last such line",
        "Warning: line 120: it is not UTF-8; skipped, 121 so far, 60 of them since the last such line",
        "Warning: the time is before; skipped, 1 so far",
        "Warning: line 179: it is not UTF-8; skipped, 180 so far, 59 of them since the last such line",
    ]
    assert tally.in_words() == "1 late, 180 malformed"


def test_samples_that_come_faster_than_they_are_learned_stop_nothing(monkeypatch):
    monkeypatch.setattr("psofed.fleet.client_loop.LAST", 60.0)

    def sensor():
        for i in range(10**9):
            if i == 2000:
                device.stop()
            yield Sample(np.ones(4), 1.0)

    device, _ = live(sensor())
    device.run()
    assert device.member.client.position >= 2000
    assert device._unsaved == 0


def test_a_client_that_nobody_answers_says_so_once_and_asks_again():
    device, said = live(())
    device._network(mqtt.Event("up"))
    for _ in range(3):
        device._hello_at = -1000.0
        device._step()
    silent = [line for line in said if "no server of run p answers; still learning" in line]
    assert silent == said[1:]
    assert len(device.link.sent) == 4


def test_a_client_that_reports_does_so_each_minute(monkeypatch):
    device, _ = live((Sample(np.ones(4), 1.0) for _ in range(40)), report=True)
    drain(device)
    monkeypatch.setattr("psofed.fleet.client_loop.REPORT", 0.0)
    device._step()
    assert [len(sent) for sent in device.link.sent] == [wire.REPORT - 6]  # it has no mix


def test_samples_push_no_message_out_and_an_iterator_that_fails_is_reported():
    def sensor():
        yield from (Sample(np.ones(4), 1.0) for _ in range(3000))
        raise OSError("unplugged")

    device, said = live(sensor())
    device._read()
    device.link.put(mqtt.Event("up"))
    assert not device.link.inbox.dropped
    assert [device.link.get(0).kind for _ in range(2)] == ["sample", "up"]
    assert len(device.link.inbox) == 0
    drain(device)
    assert device.member.client.position == 3000
    assert said[0] == "Warning: the samples have ended: OSError: unplugged"


def test_lines_are_read_whole_and_one_without_an_end_fills_no_memory(tmp_path):
    file = tmp_path / "lines"
    file.write_bytes(b"1,2\n\n3,4\n" + b"5," * 10**6 + b"6\n7,8\n9,1")
    with file.open("rb") as opened:
        found = list(read_lines(opened.fileno()))
    assert found[:3] + found[4:] == [b"1,2", b"", b"3,4", b"7,8", b"9,1"]
    assert len(found[3]) < 2**21 - 2**17


@pytest.mark.parametrize("line", [
    "1," * 100_000, b"\xff\xfe,1\n", '{"x": [1, 2, 3, 4, 5]}', '{"x": [1, 2, 3], "y": 4}',
    '{"x": []}', "1\0,2,3,4", '"1,2,3,4',
])  # fmt: skip
def test_a_malformed_line_is_reported_and_the_next_one_read(line):
    bad, good = lines([line, "1,2,3,4,5"], partial(parse, taps=4))
    assert isinstance(bad, MalformedError)
    assert good.y == 5
    assert parse('{"x": [1, 2, 3, 4]}', 4).y is None


@pytest.mark.parametrize("names", ["", "a,b,y\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_no_row_of_a_recorded_file_is_taken_for_names_of_columns(tmp_path, names, encoding):
    path, rows = tmp_path / "recorded.csv", [[-0.5, -0.25, -1.0], [0.5, 0.25, 1.0]]
    text = "\n".join(",".join(map(str, row)) for row in rows)
    path.write_text(names + text, encoding=encoding)
    assert np.column_stack(table(path, 2)).tolist() == rows
