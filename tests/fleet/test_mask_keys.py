"""Mask keys: certified by the authority, private to their owner, the same secret at both ends."""

import base64
import json
import shutil

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st

from psofed.errors import InputError
from psofed.federation.membership import LAST
from psofed.fleet import mask_keys
from psofed.fleet.authority import Authority

K = 4


def made(folder, clients=K, run="p"):
    authority = Authority.make(folder, run, [], masks=True)
    for k in range(clients):
        authority.add(str(k))
    return folder


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return made(tmp_path_factory.mktemp("masks") / "keys")


@pytest.fixture
def keys(original, tmp_path):
    return shutil.copytree(original, tmp_path / "keys")


def secrets(keys, k, clients=K, run="p", **others):
    """By client, what k shares with it; `others` are files in the places of those in the folder."""
    for name, path in others.items():
        place = keys / {"ca": "ca.pem", "masks": "masks.json", "key": f"{k}.mask"}[name]
        place.write_bytes(path.read_bytes())
    return mask_keys.pairs(keys / "ca.pem", k, clients, run)


def directory(keys):
    return mask_keys.read(keys / "masks.json", keys / "ca.pem")


def signed(keys, public, run="p"):
    """What an authority would sign if it did not look at what it signs."""
    mask_keys._write(keys, Authority(keys).key, mask_keys.Directory(run, public))


def refused(match, *arguments, **more):
    with pytest.raises(InputError, match=match) as error:
        secrets(*arguments, **more)
    assert "\n" not in str(error.value)


@given(
    ends=st.tuples(st.integers(0, LAST), st.integers(0, LAST)).filter(lambda two: two[0] != two[1]),
    seeds=st.tuples(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32)),
    run=st.sampled_from(["p", "pp", "plant-7"]),
)
def test_a_secret_is_symmetric_and_bound_to_numbers_and_run(ends, seeds, run):
    own = [X25519PrivateKey.from_private_bytes(seed) for seed in seeds]
    public = [key.public_key().public_bytes_raw() for key in own]

    def shared(run, one, two):
        table = mask_keys.Directory(run, dict(zip((one, two), public, strict=True)))
        there = mask_keys.shared(own[1], two, table)[one]
        return mask_keys.shared(own[0], one, table)[two], there

    here, there = shared(run, *ends)
    assert here == there
    other, other_there = shared(run + "x", *ends)
    assert other == other_there != here
    if public[0] != public[1]:
        assert shared(run, ends[1], ends[0])[0] != here, "a key under another number"


def test_what_the_primitives_give_is_what_is_handed_out(keys):
    """Written down once more, from the packages of `cryptography` alone."""
    table = json.loads((keys / "masks.json").read_text())["keys"]
    public = [base64.b64decode(value) for value in table.values()]
    own = bytes.fromhex((keys / "3.mask").read_text().split()[-1])
    other = X25519PublicKey.from_public_bytes(public[1])
    raw = X25519PrivateKey.from_private_bytes(own).exchange(other)
    info = b"psofed pair" + bytes([0, 0, 0, 1, 0, 0, 0, 3]) + public[1] + public[3] + b"p"
    assert secrets(keys, 3)[1] == HKDF(hashes.SHA256(), 32, None, info).derive(raw)


@given(place=st.floats(0, 1, exclude_max=True), other=st.characters(codec="ascii"))
def test_a_directory_that_was_changed_anywhere_is_the_same_or_refused(original, place, other):
    text = (original / "masks.json").read_text()
    at = int(place * len(text))
    bad = original.parent / "changed.json"
    bad.write_text(text[:at] + other + text[at + 1 :], newline="")
    try:
        found = mask_keys.read(bad, original / "ca.pem")
    except InputError:
        return
    assert found == directory(original), "it was white space"


def test_no_key_can_be_added_exchanged_moved_or_taken_away(keys):
    table = json.loads((keys / "masks.json").read_text())
    mine, key = table["keys"], base64.b64encode(bytes(range(32))).decode()
    for changed in (
        mine | {"4": key},
        mine | {"2": key},
        mine | {"1": mine["2"], "2": mine["1"]},
        {k: mine[k] for k in "012"},
        {k: mine[k] for k in "012"} | {"8": mine["3"]},
    ):
        (keys / "masks.json").write_text(json.dumps(table | {"keys": changed}))
        refused("is not signed by the authority in .*ca.pem, or was changed", keys, 0, 3)
        with pytest.raises(InputError, match="or was changed"):  # nor does it get a new signature
            Authority(keys).add("9")
        assert not (keys / "9.pem").exists()
        assert not (keys / "9.mask").exists()
    (keys / "masks.json").write_text(json.dumps(table | {"run": "q"}))
    refused("or was changed", keys, 0, run="q")


def test_a_directory_of_another_authority_or_of_a_member_is_refused(keys, tmp_path):
    other, first = made(tmp_path / "other", 1), secrets(keys, 0)[1]
    signed(other, directory(keys).keys)
    both = tmp_path / "both.pem"
    both.write_text((other / "ca.pem").read_text() + (keys / "ca.pem").read_text())
    assert secrets(keys, 0, ca=both)[1] == first, "one of several authorities"
    assert secrets(keys, 0, masks=other / "masks.json")[1] == first, "or another of them"
    shutil.copy(other / "server.pem", both)
    refused("is not signed by the authority", keys, 0, ca=both)
    server = load_pem_private_key((keys / "server.key").read_bytes(), None)
    mask_keys._write(keys, server, directory(other))  # it has a certificate, but is no authority
    refused("is not signed by the authority", keys, 0, ca=keys / "server.pem")


def test_who_is_missing_twice_or_of_another_run_is_named(keys):
    refused("has no key of client 4; psofed deploy keys add 4", keys, 0, K + 1)
    refused("has no key of client 4 and 2 more", keys, 0, K + 3)
    refused("is of run 'p', not of 'q'", keys, 0, run="q")
    public = dict(directory(keys).keys)
    signed(keys, public | {3: public[1]})
    refused("has one key for clients 1 and 3", keys, 0)
    signed(keys, public | {3: bytes(32)})
    refused("mask key of client 3 has no secret with anybody", keys, 0)


def test_the_own_key_must_be_the_one_in_the_directory(keys):
    text = (keys / "1.mask").read_text()
    (keys / "0.mask").write_text(text)
    refused("is a 'psofed mask key of client 1', not the", keys, 0)
    (keys / "0.mask").write_text(text.replace("client 1", "client 0"))
    refused("0.mask is not the key that .*masks.json has of client 0", keys, 0)
    refused("6.mask cannot be read: No such file", keys, 6)
    refused("ca.pem is not a certificate", keys, 1, ca=keys / "acl")
    (keys / "ca.pem").unlink()
    refused("ca.pem cannot be read: No such file", keys, 1)
    for text in ("", "[]", "{}", '{"run": "p", "keys": {"00": ""}, "signature": ""}', "[" * 9999):
        (keys / "masks.json").write_text(text)
        refused("masks.json is not a directory of mask keys", keys, 1)
    (keys / "masks.json").unlink()
    refused("masks.json cannot be read: No such file", keys, 1)


def test_a_renewal_keeps_the_mask_key_unless_it_is_asked_for_or_was_revoked(keys):
    ours, before = Authority(keys), dict(directory(keys).keys)
    ours.renew("1")
    assert directory(keys).keys == before
    ours.renew("1", new_mask=True)
    after = dict(directory(keys).keys)
    assert {k for k in before if before[k] != after[k]} == {1}
    assert secrets(keys, 1)[0] == secrets(keys, 0)[1]
    ours.revoke("2")
    assert directory(keys).keys == after, "cohorts follow from the seed: its number stays"
    ours.renew("2")
    assert {k for k in after if after[k] != directory(keys).keys[k]} == {2}
    for name in ("server", "broker"):
        with pytest.raises(InputError, match=f"has no mask key of {name}"):
            ours.renew(name, new_mask=True)


def test_a_key_that_has_masked_uploads_of_another_state_is_refused(tmp_path):
    key, states = tmp_path / "0.mask", [tmp_path / name for name in "ab"]
    key.touch()
    for state in states:
        state.mkdir()
        (state / "record.1").touch()
    mask_keys.claim(key, states[0])
    mask_keys.claim(key, states[0])
    with pytest.raises(InputError, match="of another state folder"):
        mask_keys.claim(key, states[1])
    (tmp_path / "0.mask.used").unlink()  # killed between the two files, or the key was moved
    mask_keys.claim(key, states[0])
    with pytest.raises(InputError, match="of another state folder"):
        mask_keys.claim(key, states[1])
    (states[0] / "record.1").unlink()
    with pytest.raises(InputError, match="whose records are gone"):
        mask_keys.claim(key, states[0])
