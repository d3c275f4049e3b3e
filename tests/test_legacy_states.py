"""State folders that earlier versions made are read, migrated and gone on with.

`legacy_states/make.py` says how each was made, by the version itself.
"""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from helpers import ROOT
from legacy_states.make import FILES, ROUNDS, Fleet
from psofed import records
from psofed.errors import InputError
from psofed.protocol.store import SLOTS
from psofed.records import MAGIC, split, unpack
from psofed.verify import twin

VERSIONS = sorted((ROOT / "tests" / "legacy_states").glob("*.zip"))
every_version = pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.stem)


@pytest.fixture
def folder(tmp_path, version, name):
    shutil.unpack_archive(version, tmp_path)
    return tmp_path / name


def same(found, wanted):
    for one, other in zip(
        (found["w"], *found["local"]), (wanted["w"], *wanted["local"]), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


def newest(folder):
    """The header of the newest record, and the record."""
    data = max(
        ((folder / slot).read_bytes() for slot in SLOTS), key=lambda data: unpack(data).sequence
    )
    return split(data[len(MAGIC) :], 4)[0], unpack(data)


@every_version
@pytest.mark.parametrize("name", FILES)
def test_a_fleet_goes_on_from_the_folders_of_an_earlier_version(folder, version, name):
    expected = json.loads((folder / "expected.json").read_text())
    before = {who: newest(folder / who)[1] for who in ("server", "0", "1")}
    fleet = Fleet(folder)
    assert (fleet.server.n, fleet.server.incarnation) == (ROUNDS[0], 2)
    same(fleet.models(), expected["then"])
    assert not fleet.server.store.notes
    fleet.play(ROUNDS[1])
    found = fleet.models()
    fleet.close()
    assert found["n"] == ROUNDS[1]
    if fleet.live:  # versions need not have the same defence
        assert np.isfinite(found["w"]).all()
    else:
        same(found, expected["end"])
    if name == "psofed":  # MEMO-Fed has had other first rounds
        same(found, dict(zip(("w", "local"), twin.simulate(fleet.plan, ROUNDS[1]), strict=True)))
    for who, was in before.items():
        header, record = newest(folder / who)
        assert header["version"] == records.VERSION
        assert record.about == was.about | {"digest": fleet.plan.digests[0]}
        assert record.arrays.keys() >= was.arrays.keys()


@every_version
@pytest.mark.parametrize("name", ["memofed"])
def test_the_state_of_another_experiment_is_refused_whichever_version_made_it(
    folder, version, name
):
    text = (folder / "run.toml").read_text()
    (folder / "run.toml").write_text(text.replace("seed = 7", "seed = 8"))
    with pytest.raises(InputError, match=r"holds the state of another experiment .* run.toml"):
        Fleet(folder)


@pytest.mark.parametrize("version", VERSIONS[-1:], ids=lambda path: path.stem)
@pytest.mark.parametrize("name", FILES)
def test_arrays_and_reasons_that_are_not_known_here_are_passed_over(folder, version, name):
    for who in ("server", "0", "1"):
        for slot in SLOTS:
            record = unpack((folder / who / slot).read_bytes())
            more = {name: np.ones(3) for name in ("state.new", "new", "waiting.z", "fleet.who")}
            if who == "server":
                more["later"] = np.arange(9)
            packed = records.pack(replace(record, arrays=record.arrays | more))
            (folder / who / slot).write_bytes(packed)
    fleet = Fleet(folder)
    reasons = fleet.server.server.ledger.reasons
    assert (reasons["mac"], reasons["together"]) == (0, 1)
    same(fleet.models(), json.loads((folder / "expected.json").read_text())["then"])
    fleet.play(ROUNDS[1])
    fleet.close()
