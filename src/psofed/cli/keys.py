"""`psofed keys ...`: certificates and their life, the broker's configuration, keys of seals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


@click.group()
def keys() -> None:
    """Make, renew and revoke the certificates of a deployment; configure mosquitto for them."""


_path = click.Path(path_type=Path)
_folder = click.option("--folder", type=_path, default=Path("keys"), show_default=True,
                       help="Folder of keys and certificates.")  # fmt: skip
_passphrase = click.option("--passphrase-file", "passphrase", type=_path, metavar="FILE",
                           help="File with the passphrase of the authority's key.")  # fmt: skip
_reload = click.option("--reload", "pid", type=click.IntRange(min=2), metavar="PID",
                       help="Process of mosquitto, which is told to read the files again."
                       )  # fmt: skip


def _days(default: str) -> Callable[..., Any]:
    return click.option("--days", type=click.IntRange(1, 36500), metavar="N",
                        help=f"Days for which it is valid. [default: {default}]")  # fmt: skip


@keys.command()
@click.argument("file", type=_path, required=False)
@_folder
@_passphrase
@click.option("--run", metavar="NAME",
              help="Name of the run, as under [deploy]. [default: that of FILE, or p]"
              )  # fmt: skip
@click.option("--host", "hosts", multiple=True, metavar="HOST",
              help="Name or address of the broker's machine; may be repeated.")  # fmt: skip
@click.option("--port", type=click.IntRange(1, 65535), default=8883, show_default=True,
              metavar="N", help="Port of the broker.")  # fmt: skip
def init(
    file: Path | None,
    folder: Path,
    passphrase: Path | None,
    run: str | None,
    hosts: tuple[str, ...],
    port: int,
) -> None:
    """Make an authority, certificates for broker and server, mosquitto.conf and its ACL.

    With FILE, the experiment file, the broker refuses messages that are larger than those of its
    run; without it, those above 4 MB. If FILE has [privacy] masks = true, every client gets a mask
    key besides its certificate, and the authority signs a directory of them.
    """
    from psofed.deploy import identity
    from psofed.protocol import deployment, seal

    largest, masks = identity.LARGEST, False
    if file is not None:
        plan = deployment.read(file)
        run, largest = run or plan.deploy.run, plan.largest + seal.SIZE
        masks = plan.masked
    run, hosts = run or "p", (*hosts, "localhost", "127.0.0.1")
    deployment.Deploy(run=run)  # refuses a name that does not fit a topic
    identity.init(folder, run, list(hosts), port, largest, passphrase, masks)
    print(f"Wrote {folder}. Keep {folder}/ca.key secret. Start the broker: mosquitto -c "
          f"{folder}/mosquitto.conf. Next: psofed keys client 0")  # fmt: skip


@keys.command()
@click.argument("name")
@_folder
@_passphrase
@_days("825")
def client(name: str, folder: Path, passphrase: Path | None, days: int | None) -> None:
    """Make the certificate of client NAME (its number), which is valid for that client only."""
    from psofed.deploy import identity, signing

    identity.client(folder, name, days or signing.DAYS, passphrase)
    files = f"--ca ca.pem --cert {name}.pem --key {name}.key"
    print(f"Wrote {folder}/{name}.pem and .key. Give them and ca.pem to the device: {files}")
    _masked(folder, name, here=True)


@keys.command()
@click.argument("name")
@_folder
@click.option("--hours", type=click.FloatRange(min=0, max=8760, min_open=True), default=24,
              show_default=True, metavar="N", help="Hours for which it can be used.")  # fmt: skip
def token(name: str, folder: Path, hours: float) -> None:
    """Make a token with which a device becomes client NAME (its number), once."""
    from psofed.deploy import enrolment

    path = enrolment.token(folder, name, hours)
    print(f"Wrote {path}, for one use within {hours:g} hours. Give it and ca.pem to the device:"
          f" psofed keys enrol {name} --token {path.name}")  # fmt: skip


@keys.command()
@click.argument("name")
@click.option("--token", "file", type=_path, required=True, metavar="FILE",
              help="File with the token of this client.")  # fmt: skip
@_folder
def enrol(name: str, file: Path, folder: Path) -> None:
    """On the device: make its private key, and a request for the certificate of client NAME.

    The key never leaves the device, and the token need not go back.
    """
    from psofed.deploy import enrolment, mask_keys

    path = enrolment.request(folder, name, file)
    masked = mask_keys.file(folder, name).exists()
    stays = f".key and {name}.mask, which stay" if masked else ".key, which stays"
    print(f"Wrote {folder}/{name}{stays} here, and {path}. Give that to the authority:"
          f" psofed keys sign {path.name}")  # fmt: skip


@keys.command()
@click.argument("request", type=_path)
@_folder
@_passphrase
@_days("90")
def sign(request: Path, folder: Path, passphrase: Path | None, days: int | None) -> None:
    """Make the certificate for a REQUEST of a device that was given a token."""
    from psofed.deploy import enrolment

    name, again = enrolment.sign(folder, request, days or enrolment.DAYS, passphrase)
    print(f"Wrote {folder}/{name}.pem. Give it to the device: --ca ca.pem --cert {name}.pem"
          f" --key {name}.key")  # fmt: skip
    _masked(folder, name)
    _restored(folder, name, again)


@keys.command()
@click.argument("name")
@_folder
@_passphrase
@_days("as before")
@click.option("--same-key", is_flag=True, help="Keep the private key.")
@click.option("--new-mask", is_flag=True,
              help="Make a new mask key, too; otherwise it stays, unless it was revoked."
              )  # fmt: skip
@_reload
def renew(
    name: str,
    folder: Path,
    passphrase: Path | None,
    days: int | None,
    same_key: bool,
    new_mask: bool,
    pid: int | None,
) -> None:
    """Make a new certificate for NAME: a client's number, server or broker.

    The old one stays valid until its end. A device that made its own key keeps it.
    """
    from psofed.deploy import identity, revocation

    again = revocation.denied(folder, name)
    new = identity.renew(folder, name, days, same_key, passphrase, new_mask)
    what = f"{folder}/{name}.pem and .key" if new else f"{folder}/{name}.pem; the key stays"
    if name == identity.BROKER:
        print(f"Wrote {what}. Copy to the broker. {_then(pid)}")
        _reread(pid)
    else:
        whose = "server" if name == identity.SERVER else "device"
        print(f"Wrote {what}. Copy to the {whose}, which takes it without a restart")
    if new_mask or again:
        _masked(folder, name, here=True)
    _restored(folder, name, again)


@keys.command()
@click.argument("name")
@_folder
@_passphrase
@_reload
def revoke(name: str, folder: Path, passphrase: Path | None, pid: int | None) -> None:
    """Revoke all certificates of NAME: a client's number, or server.

    The broker refuses them from then on, and the rules take the rights of a client that is
    connected.
    """
    from psofed.deploy import revocation

    count = len(revocation.revoke(folder, name, passphrase))
    said = f"Revoked {count} certificate{'s' if count > 1 else ''} of {name} in {folder}/crl.pem"
    if not revocation.listed(folder):
        print(f"{said} and acl. Add to mosquitto.conf and restart the broker: crlfile"
              f" {folder.resolve()}/crl.pem")  # fmt: skip
    else:
        print(f"{said} and acl. Copy both to the broker. {_then(pid)}")
        _reread(pid)


def _masked(folder: Path, name: str, here: bool = False) -> None:
    """Where clients have mask keys: the directory is new, and all have to have the same."""
    from psofed.deploy import mask_keys

    if mask_keys.wanted(folder):
        made = f"{folder}/{name}.mask for the device (--mask-key {name}.mask), and " * here
        print(f"Wrote {made}{folder}/{mask_keys.DIRECTORY}. When all clients are in it, give it to"
              f" every device, which then starts anew: --masks {mask_keys.DIRECTORY}")  # fmt: skip


def _restored(folder: Path, name: str, again: bool) -> None:
    """Who was revoked has rights again, and so would a connection that is still open."""
    if again:
        print(f"{folder}/acl gives {name} its rights back: copy it to the broker. Restart the"
              " broker, which ends connections of the revoked certificate")  # fmt: skip


def _then(pid: int | None) -> str:
    return f"Process {pid} is told" if pid else "Then: kill -HUP $(pidof mosquitto)"


def _reread(pid: int | None) -> None:
    """After what was done is said: if this fails, that holds all the same."""
    from psofed.deploy import revocation

    if pid is not None:
        revocation.reload(pid)


@keys.command("list")
@_folder
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(folder: Path, as_json: bool) -> None:
    """List all certificates of the folder: whose, how many days are left, which are revoked.

    Those of clients that have a mask key say so.
    """
    from datetime import UTC, datetime

    from psofed.deploy import certificates, mask_keys, revocation, signing
    from psofed.errors import InputError

    known = certificates.known(folder)
    if not known:
        raise InputError(str(folder), "has no certificates", "make them with `psofed keys init`")
    now, gone = datetime.now(UTC), revocation.serials(signing.Library(), folder)
    masked = {str(k) for k in mask_keys.numbers(folder)}
    rows: list[dict[str, Any]] = [
        {
            "name": each.name,
            "serial": f"{each.serial:x}",
            "begins": each.begin.isoformat(),
            "ends": each.end.isoformat(),
            "days": (each.end - now).days,
            "revoked": each.serial in gone,
            "mask": each.name in masked,
        }
        for each in known
    ]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        state = "revoked  " if row["revoked"] else "expired  " if row["days"] < 0 else ""
        state += "mask key" * row["mask"]
        line = f"{row['name']:>16}  {row['days']:>5} days, until {row['ends'][:10]}  {state}"
        print(line.rstrip())


@keys.command()
@click.argument("name", required=False)
@_folder
def secret(name: str | None, folder: Path) -> None:
    """Make the secret of a server or, with NAME (a client's number), the key of that client.

    With --secret, server and clients seal every message with 8 bytes, and refuse others.
    """
    from psofed.deploy import identity
    from psofed.deploy import secret as secrets

    if name is None:
        path = secrets.make(folder)
        print(f"Wrote {path}. Only the server needs it. Next: psofed keys secret 0")
    else:
        path = secrets.give(folder, identity.number(name))
        print(f"Wrote {path}. Give it to the device: --secret {path.name}")
