"""Records with a right digest that cannot be: refused with one line, never a traceback."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from helpers.loopback import K, World, disk, plan
from psofed.errors import InputError
from psofed.federation.records import DTYPES, pack, unpack
from psofed.fleet import requests
from psofed.fleet.protocol.coordinator import Coordinator
from psofed.fleet.protocol.deployment import Deploy
from psofed.fleet.protocol.member import Member
from psofed.fleet.protocol.store import SLOTS
from psofed.fleet.samples import replay
from psofed.methods import onlinefed
from psofed.tables import export

LIVE = Deploy(clock="live", wire="float64")
PLANS = {
    "lockstep": plan(cohort=K),
    "live": plan(LIVE, cohort=K),
    "waits": plan(LIVE, cohort=K, methods=(onlinefed.Options(),)),
}


@cache
def ran(name, joined):
    """The newest records of a server and of a client that have done something."""
    given = PLANS[name]
    world, live = World(given=given), given.deploy.clock == "live"
    world.member(K)
    if joined:
        world.server.change("add", [K])
        world.server.change("exclude", [1])
    for n in range(4):
        for k, member in world.members.items() if live else ():
            x, y = replay(given.experiment, min(k, K - 1))(3 * n, 3 * n + 3)
            member.client.learn(x, y)
        world.rounds()
    if live:
        world.members[0].client.learn(*replay(given.experiment, 0)(0, 2))
    world.members[0].save()
    stores = world.server.store, world.members[0].store
    return [unpack(one.disk.files[SLOTS[one.sequence % 2]]) for one in stores]


every_record = pytest.mark.parametrize(
    ("name", "joined"), [(name, joined) for name in PLANS for joined in (False, True)]
)
VALUES = (np.nan, np.inf, -np.inf, -1, -(2**63), 2**63 - 1, 2**53 + 2, 2**40, 1e300, 0)


def cast(array, dtype):
    with np.errstate(invalid="ignore", over="ignore"):
        return array.astype(dtype)


@st.composite
def changed(draw, record):
    """The record with one array, or two, that is not as it was written."""
    arrays = dict(record.arrays)
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(sorted(arrays)))
        array = arrays[name]
        how = draw(st.sampled_from(["gone", "type", "shape", "longer", "shorter", "value"]))
        if how == "gone":
            del arrays[name]
        elif how == "type":
            arrays[name] = cast(array, draw(st.sampled_from(DTYPES)))
        elif how == "shape":
            arrays[name] = array[None] if draw(st.booleans()) else array.reshape(-1)
        elif how == "longer":
            arrays[name] = np.resize(array, 2 * array.size + min(array.size, 1))
        elif how == "shorter":
            arrays[name] = array.reshape(-1)[: draw(st.integers(0, max(array.size - 1, 0)))]
        elif array.size:
            value = np.array(draw(st.sampled_from(VALUES)))
            array = array.copy()
            at = draw(st.integers(0, array.size - 1))
            array.reshape(-1)[at] = cast(value, array.dtype)
            arrays[name] = array
    return replace(record, arrays=arrays)


def loaded(make, record):
    """What it becomes, or None if it is refused as it should be."""
    found = disk()
    slot = SLOTS[record.sequence % 2]
    found.files[slot] = pack(record)
    try:
        return make(found)
    except InputError as error:
        line = str(error)
        assert line.startswith(f"memory/{slot}: the array '"), line
        assert "\n" not in line
        return None


@every_record
@given(data=st.data())
def test_a_servers_record_is_sound_or_refused_with_one_line(name, joined, data):
    record = data.draw(changed(ran(name, joined)[0]))
    server = loaded(lambda files: Coordinator(PLANS[name], files), record)
    if server is not None:
        assert all(np.isfinite(array).all() for array in server.server.now.own.values())
        if name == "lockstep":
            server.commit()
            assert np.isfinite(server.server.model).all()


@every_record
@given(data=st.data())
def test_a_clients_record_is_sound_or_refused_with_one_line(name, joined, data):
    given = PLANS[name]
    record = data.draw(changed(ran(name, joined)[1]))
    source = None if given.deploy.clock == "live" else replay(given.experiment, 0)
    member = loaded(lambda files: Member(given, 0, files, source), record)
    if member is not None:
        state = member.client.state
        assert all(np.isfinite(a).all() for name, a in state.items() if name != "check.last")
        forecast = member.answer(np.zeros(4))
        assert np.isfinite([forecast.y, *forecast.radii]).all()
        assert member.save()


def test_a_client_that_has_seen_no_sample_starts_again():
    for given_plan in PLANS.values():
        files = disk()
        assert Member(given_plan, 0, files).save()
        assert Member(given_plan, 0, files).save()


@given(data=st.data())
def test_what_others_read_from_a_folder_is_sound_or_refused_with_one_line(tmp_path_factory, data):
    """`psofed deploy export` and `psofed deploy fleet list`, beside a server or without one."""
    which = data.draw(st.integers(0, 1))
    record = data.draw(changed(ran("lockstep", True)[which]))
    roles = record.about["role"], "client x", "client 99999999999", "", 3
    role = data.draw(st.sampled_from(roles))
    folder = tmp_path_factory.mktemp("state")
    (folder / "record.0").write_bytes(pack(replace(record, about=record.about | {"role": role})))
    (folder / "run.toml").write_text(tomli_w.dumps(PLANS["lockstep"].to_table()))
    for read in (export.load, requests.members, requests.history):
        assert str(folder) in refusal(read, folder)


def refusal(read, folder):
    try:
        read(folder)
    except InputError as error:
        return str(error)
    return str(folder)


@pytest.mark.parametrize("w", [np.zeros(9), np.zeros((10, 1)), np.zeros(10, np.float32), None])
def test_a_snapshot_that_cannot_be_is_refused_and_nothing_is_changed(w):
    world = World(given=PLANS["lockstep"])
    world.rounds(3)
    server = world.server
    name = f"snapshot.{server.snapshots.rounds()[0]}"
    record = unpack(server.store.disk.files[name])
    arrays = {} if w is None else {"state.w": w}
    server.store.disk.files[name] = pack(replace(record, arrays=arrays))
    before, n = server.server.model.copy(), server.n
    with pytest.raises(InputError, match=r"the snapshot: the array 'w' (has|is missing)"):
        server.put_back(server.snapshots.rounds()[0])
    assert (server.n, server.server.model.tolist()) == (n, before.tolist())
