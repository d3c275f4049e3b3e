"""Clients with names: in certificates, commands, the log, the dashboard and the metrics."""

import json
import re
import urllib.request

import pytest

from helpers.certified import files, reread
from helpers.devices import wait_for
from helpers.runs import SMALL
from psofed.fleet import requests
from psofed.fleet.queries import ask

NAMED = SMALL.replace("[deploy]", '[deploy]\nclock = "live"\nnames = ["gw00", "gw01", "gw02"]')


@pytest.mark.long
def test_names_are_all_that_an_operator_needs(secured, team, psofed, tmp_path):
    def do(*words):
        done = psofed("deploy", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (tmp_path / "run.toml").write_text(NAMED)
    made = do("keys", "make", "run.toml")
    assert "keys add gw00" in made
    assert "listener 8883 127.0.0.1" in (tmp_path / "keys" / "mosquitto.conf").read_text()
    for who in ("gw00", "1", "gw02"):
        do("keys", "add", who)
    keys = tmp_path / "keys"
    broker = secured(keys)
    run = team(NAMED, f"mqtts://127.0.0.1:{broker.port}",
               serve=(*files(keys, "server"), "--dashboard", "0", "--set", "every=0.05"),
               client=lambda who: files(keys, {"1": "gw01"}.get(who, who.partition("=")[0])))  # fmt: skip
    state = tmp_path / "server"
    run.start("server", "gw00", "1", "gw02")

    def rows():
        return {row["name"]: row for row in requests.members(state)["clients"]}

    wait_for(lambda: (state / "record.1").exists() and all(r["answers"] for r in rows().values()))
    assert "Client gw01 (1) of run" in run.log("1")
    said = do("fleet", "add", "server", "attic")
    told = r"Client attic is a member from round \d+ on; its device: --id attic=3\n"
    assert re.fullmatch(told, said)
    assert "Copy keys/acl to the broker" in do("keys", "add", "attic=3")
    reread(broker)
    run.start("attic=3")
    wait_for(lambda: rows()["attic"]["answers"])
    assert do("fleet", "exclude", "server", "gw00").startswith("Client gw00 is excluded")
    wait_for(lambda: "says that client gw00 is excluded" in run.log("gw00"))
    run.kill("gw02")
    wait_for(lambda: "client gw02 does not answer" in run.log("server"))
    run.kill("server")
    run.start("server")  # what is recorded is still known
    address = re.compile(r"Dashboard at (\S+)/\n")
    wait_for(lambda: len(address.findall(run.log("server"))) == 2)
    url = address.findall(run.log("server"))[1]
    with urllib.request.urlopen(f"{url}/state.json") as page:
        names = {"0": "gw00", "1": "gw01", "2": "gw02", "3": "attic"}
        assert json.load(page)["names"] == names
    with urllib.request.urlopen(f"{url}/metrics") as page:
        assert 'psofed_client_gone{client="attic"} 0.0' in page.read().decode()
    assert ask(state, id=1, x=[1, 1, 1, 1]).keys() == {"id", "y", "round"}
    assert "gw01" in do("keys", "list")
    assert "Revoked 1 certificate of 0" in do("keys", "revoke", "0")


@pytest.mark.parametrize(("words", "said"), [
    ("client run.toml --id gw09", "--id is 'gw09'; use 0 to 2, or a name: gw00, gw01, gw02"),
    ("client run.toml --id gw00=2", "'gw00' cannot be client 2: one of them is called"),
    ("client run.toml --id gw02 --set names=a/b", "names has 'a/b'; use up to 40 letters"),
    ("client run.toml --id gw02 --set names=x,x", "names has 'x' twice"),
    ("keys add gw00", "'gw00' is not known; use the number of a client"),
    ("keys add server=3", "'server' cannot be a name; use up to 40 letters"),
    ("keys add 7=7x", "'7=7x' is not known"),
])  # fmt: skip
def test_a_name_that_is_unknown_or_unfit_is_refused(words, said, keys, refused, tmp_path):
    (tmp_path / "run.toml").write_text(NAMED)
    more = ("--state", "s", "--broker", "mqtt://127.0.0.1:1") if "client" in words else ()
    refused(said, *words.split(), *more)
