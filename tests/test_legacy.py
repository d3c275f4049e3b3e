"""Files of an earlier version are read as it read them; tests/legacy/README.md says how they were made."""

import hashlib
import json
import shutil
import zipfile
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import psofed
from helpers import ROOT
from psofed import experiment as experiments
from psofed import records, records_legacy
from psofed.deploy.samples import replay
from psofed.errors import InputError
from psofed.fit import example, model
from psofed.protocol import deployment
from psofed.protocol.client import Member
from psofed.protocol.coordinator import Coordinator
from psofed.protocol.store import SLOTS, StateFolder
from psofed.records import DIGEST, MAGIC, DamagedError, pack, split, unpack
from psofed.simulate import checkpoint
from psofed.simulate.accumulate import Accumulator
from psofed.verify import twin

LEGACY = ROOT / "tests" / "legacy"
EXPECTED = json.loads((LEGACY / "expected.json").read_text())
MODEL = (LEGACY / "model.psofed").read_bytes()
TOTAL = (LEGACY / "checkpoint" / "total").read_bytes()


@pytest.fixture
def state(tmp_path):
    shutil.copytree(LEGACY / "state", tmp_path / "state")
    return tmp_path / "state"


def form(folder):
    """Names, types and shapes of the arrays in a state folder."""
    arrays = unpack((folder / SLOTS[0]).read_bytes()).arrays
    return [(name, array.dtype, array.shape) for name, array in arrays.items()]


def test_a_deployment_goes_on_from_old_state_folders_to_where_an_unbroken_run_ends(state):
    plan = deployment.read(LEGACY / "deployment.toml")
    names = [f"client{k}" for k in range(plan.experiment.clients)]
    folders = [StateFolder(state / name) for name in (*names, "server")]
    members = [Member(plan, k, folders[k], replay(plan.experiment, k)) for k in range(len(names))]
    server = Coordinator(plan, folders[-1])
    assert (server.n, server.incarnation) == (5, 2)
    assert not server.store.notes
    while server.n < plan.experiment.rounds:
        for k, frame in server.frames().items():
            assert server.take(k, members[k].take(frame)[0]) == "accepted"
        server.commit()
    assert server.server.ledger.counts == EXPECTED["counts"]
    for folder in folders:
        folder.close()
    for name in (*names, "server"):  # the earlier version could go on from here, too
        assert form(state / name) == form(LEGACY / "state" / name)
    found, local = twin.deployed(plan, state / "server", [state / name for name in names])
    for again, wanted in ((found.state["w"], EXPECTED["w"]), (local, EXPECTED["local"])):
        np.testing.assert_allclose(again, wanted, rtol=0, atol=1e-12)
    for again, wanted in zip((found.state["w"], local), twin.simulate(plan, 12), strict=True):
        np.testing.assert_allclose(again, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["server", "client0", "client1", "client2"])
def test_state_is_written_as_the_earlier_version_wrote_it_and_says_who_did(name):
    for slot in SLOTS:
        data = (LEGACY / "state" / name / slot).read_bytes()
        (was, arrays), (now, again) = (
            split(d[len(MAGIC) :], 4) for d in (data, pack(unpack(data)))
        )
        assert now == {"version": records.VERSION, "made_by": psofed.__version__} | was
        assert again[:-DIGEST] == arrays[:-DIGEST]


@pytest.mark.parametrize("name", EXPECTED["checkpoint"])
def test_the_arrays_of_an_old_checkpoint_are_read_as_they_were(name):
    found = checkpoint.read(LEGACY / "checkpoint" / name)
    wanted = EXPECTED["checkpoint"][name]
    assert found.keys() == wanted.keys()
    for key, (dtype, values) in wanted.items():
        assert found[key].dtype.str == dtype
        assert found[key].tolist() == values


def test_the_sums_of_an_old_checkpoint_fit_its_experiment_and_are_counted(tmp_path):
    shutil.copytree(LEGACY / "checkpoint", tmp_path / checkpoint.NAME)
    experiment = experiments.read(LEGACY / "checkpoint.toml")
    total = Accumulator(experiment)
    total.load(checkpoint.read(tmp_path / checkpoint.NAME / "total"))
    assert total.runs == checkpoint.Checkpoint(tmp_path, experiment).count() == 3


def test_a_run_that_an_earlier_version_began_is_not_resumed_and_one_line_says_why(tmp_path, psofed):
    shutil.copytree(LEGACY / "checkpoint", tmp_path / "r" / checkpoint.NAME)
    done = psofed("run", LEGACY / "checkpoint.toml", "--out", "r", "--resume")
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert "was started with other settings: " in line
    assert line.endswith("start again with --force")
    assert (tmp_path / "r" / checkpoint.NAME / "run-2").exists()


@pytest.mark.parametrize("kind", ["global", "own"])
def test_an_old_model_says_what_it_said_and_so_does_its_copy(tmp_path, kind):
    loaded = model.load(LEGACY / "model.psofed")
    (tmp_path / "again.psofed").write_bytes(loaded.to_bytes())
    for one in (loaded, model.load(tmp_path / "again.psofed")):
        rows, _ = model.predict(one, example.path(), own=kind == "own")
        said = {(row.client, row.time): row.value for row in rows}
        for client, time, value in EXPECTED["model"][kind]:
            assert said[client, time] == pytest.approx(value, rel=1e-6)


@given(st.data())
def test_any_change_or_cut_of_an_old_file_is_noticed(data):
    for whole, read in ((MODEL, records_legacy.model), (TOTAL, records_legacy.checkpoint)):
        at = data.draw(st.integers(20, len(whole) - 1))
        flipped = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
        for broken in (flipped, whole[:at], whole + b"\0"):
            with pytest.raises(DamagedError):
                read(broken)


@pytest.mark.parametrize("arrays", [3, [], {"W": [10**9, 10**9]}, {"W": "x"}, {"W": [-1]}, {}])
def test_an_old_model_whose_header_lies_is_refused(tmp_path, arrays):
    start = len(records_legacy.MODEL) + 8
    stop = start + int.from_bytes(MODEL[start - 8 : start], "little")
    text = json.dumps(json.loads(MODEL[start:stop]) | {"arrays": arrays}).encode()
    body = records_legacy.MODEL + len(text).to_bytes(8, "little") + text + MODEL[stop:-32]
    path = tmp_path / "model.psofed"
    path.write_bytes(body + hashlib.sha256(body).digest())
    with pytest.raises(InputError, match=r"model.psofed: is not a psofed model, or is damaged: it"):
        model.load(path)


def archive(content, compression=zipfile.ZIP_STORED):
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as files:
        files.writestr("points.npy", content)
    return buffer.getvalue()


def npy(array):
    buffer = BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


LARGE = npy(np.zeros(3)).replace(b"(3,), ", b"(9999999999999,), ").replace(b" " * 12 + b"\n", b"\n")
HOSTILE = {
    "a pickle": archive(npy(np.array([{}], object))),
    "a bomb": archive(npy(np.zeros(10**6)), zipfile.ZIP_DEFLATED),
    "a header that lies": archive(LARGE),
    "no array": archive(b"text"),
    "no archive": b"text",
    "one array": npy(np.zeros(3)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_old_checkpoint_that_is_hostile_is_refused(name):
    data = HOSTILE[name]
    digest = hashlib.blake2b(data, digest_size=32).digest()
    with pytest.raises(DamagedError):
        records_legacy.checkpoint(records_legacy.CHECKPOINT + digest + data)
