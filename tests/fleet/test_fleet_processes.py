"""A fleet that lives, as real processes: what an operator does, and what devices are told."""

import json
import re
import shutil
import time

from helpers.devices import free_port, wait_for
from helpers.runs import LIVE
from psofed.fleet import requests


def rounds(team, log="server"):
    return [int(n) for n in re.findall(r"^round (\d+): [1-9]", team.log(log), re.M)]


def test_a_device_joins_is_excluded_returns_and_an_old_copy_goes_on(team, psofed):
    """One story, because processes start slowly."""
    port = free_port()
    run = team(LIVE, f"mqtt://127.0.0.1:{port}")
    for k in range(4):
        run.start(k)
    run.url, run.serve = "", ("--listen", f"127.0.0.1:{port}", "--every", "0.05")
    run.start("server")
    state = run.folder / "server"
    wait_for(lambda: "client 3 is no member" in run.log(3), 60)

    joined = json.loads(psofed("deploy", "fleet", "add", state, "--json").stdout)
    assert joined[0]["add"] == [3]
    wait_for(lambda: "client 3 is a member" in run.log(3))

    def listed(k):
        return json.loads(psofed("deploy", "fleet", "list", state, "--json").stdout)["clients"][k]

    wait_for(lambda: listed(3)["answers"] > 0)

    psofed("deploy", "fleet", "exclude", state, 0)
    wait_for(lambda: "client 0 is excluded" in run.log(0))
    # A file that is being written may be renamed while it is copied.
    shutil.copytree(state, run.folder / "copy", ignore=shutil.ignore_patterns("*new*"))
    wait_for(lambda: rounds(run)[-1] > requests.members(run.folder / "copy")["round"] + 10)
    psofed("deploy", "fleet", "readmit", state, 0)
    wait_for(lambda: "client 0 is a member" in run.log(0))

    # The server's disk is lost; its folder of some rounds ago is there.
    run.kill("server")
    seen = rounds(run)[-1]
    shutil.rmtree(state)
    shutil.move(run.folder / "copy", state)
    assert "is an old copy" not in run.log("server")
    psofed("deploy", "restore", state)
    begun = time.monotonic()
    run.start("server")
    wait_for(lambda: rounds(run)[-1] > seen, 30)
    assert time.monotonic() - begun < 30
    assert "this is an old copy: clients are ahead" in run.log("server")
    assert listed(0)["standing"] == "excluded"  # as it was when the copy was made
    run.stop()
