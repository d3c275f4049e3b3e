"""`psofed deploy gateway FILE.toml NAME=LINE...`: microcontrollers as clients of a deployment."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from psofed.cli.logs import kept, say
from psofed.cli.serve import on_stop
from psofed.cli.verbs import FILE, Deploys, common

if TYPE_CHECKING:
    from psofed.fleet.broker import Address
    from psofed.fleet.lines.gateway import Relay
    from psofed.fleet.protocol.deployment import Deployment


@click.command(cls=Deploys)
@click.argument("file", type=FILE)
@click.argument("lines", metavar="NAME=LINE...", nargs=-1, required=True)
@click.option("--state", type=FILE, required=True, help="State folder, with one for each client.")
@click.option("--broker", metavar="URL", required=True, help="mqtt:// or mqtts://HOST:PORT.")
@click.option("--keys", type=FILE, metavar="FOLDER",
              help="Where ca.pem and each client's NAME.pem and NAME.key are (mqtts://), and"
              " NAME.secret, if messages are sealed.")  # fmt: skip
@common("deploy", "plain")
def gateway(file: Path, lines: tuple[str, ...], state: Path, broker: str, **options: Any) -> None:
    """Connect microcontrollers on serial lines to the run in FILE, as its clients NAME.

    LINE is a serial port, or a Unix socket with the same bytes. The device runs what
    `psofed deploy export FILE --to device --client NAME` has written. It keeps its samples and its
    model; the gateway has its keys.
    """
    from psofed.fleet.protocol import deployment as plans

    plan = plans.read(file, options["settings"])
    with kept(plan.deploy.log):
        _run(plan, lines, state, broker, options)


def _run(plan: Deployment, lines: tuple[str, ...], state: Path, broker: str, options: Any) -> None:
    """All relays, each in a thread, until they are stopped, or one fails."""
    from psofed.fleet.broker import Address

    address = Address.parse(broker)
    if warning := address.check(options["plain"]):
        say(f"Warning: {warning}")
    relays = [_relay(plan, *line, state, address, options["keys"]) for line in _different(lines)]

    def stop() -> None:
        for each in relays:
            each.stop()

    on_stop(stop)
    threads = [threading.Thread(target=each.run, name=each.name) for each in relays]
    say(f"Gateway of run {plan.deploy.run} for {', '.join(each.name for each in relays)}")
    for thread in threads:
        thread.start()
    while not any(each.stopped or each.failed for each in relays):
        threads[0].join(0.1)
    for each, thread in zip(relays, threads, strict=True):
        each.stop()
        thread.join()
        say(f"{each.name}: {each.down:,} bytes down, {each.up:,} up on its line")
    for each in relays:
        if each.failed:
            raise each.failed


def _different(lines: tuple[str, ...]) -> list[tuple[str, Path]]:
    """Names and lines, none of them twice."""
    from psofed.errors import InputError

    found: dict[str, Path] = {}
    for line in lines:
        who, equals, path = line.partition("=")
        if not (who and equals and path):
            raise InputError("NAME=LINE", f"is {line!r}", "give, say, 3=/dev/ttyUSB0")
        if who in found or Path(path) in found.values():
            raise InputError("NAME=LINE", f"is {line!r}", "give each name and each line once")
        found[who] = Path(path)
    return list(found.items())


def _relay(
    plan: Deployment, who: str, path: Path, state: Path, address: Address, keys: Path | None
) -> Relay:
    """The member behind one line, with its own keys."""
    from psofed.errors import InputError
    from psofed.fleet.identity import Identity, read_secret
    from psofed.fleet.lines import gateway
    from psofed.tables.export import device

    device.render(plan, who)  # what no device can do is refused here, too
    key, certified = None, None
    k = plan.names.number(who)
    name = plan.names(k)
    if address.tls and keys is None:
        raise InputError("--keys", "is missing", "name the folder of `psofed deploy keys`")
    if keys is not None and address.tls:
        certified = Identity(keys / "ca.pem", keys / f"{name}.pem", keys / f"{name}.key")
    if keys is not None and (secret := keys / f"{name}.secret").exists():
        key = read_secret(secret, k)
    made = gateway.relay(plan, who, path, state / name, address, certified, key)
    made.on_news = say
    return made
