"""`psofed deploy keys ...`: certificates and their life, the broker's configuration, seals."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from psofed.cli.verbs import Sentences

if TYPE_CHECKING:
    from psofed.fleet.authority import Authority


@click.group(cls=Sentences)
def keys() -> None:
    """Make, renew and revoke the certificates of a deployment; configure mosquitto for them."""


_path = click.Path(path_type=Path)
_folder = click.option("--folder", type=_path, default=Path("keys"), show_default=True,
                       help="Folder of keys and certificates.")  # fmt: skip
_days = click.option("--days", type=click.IntRange(1, 36500), metavar="N",
                     help="Days for which it is valid. [default: 825, or as before]")  # fmt: skip


@keys.command()
@click.argument("file", type=_path, required=False)
@_folder
@click.option("--run", metavar="NAME",
              help="Name of the run, as under [deploy]. [default: that of FILE, or p]"
              )  # fmt: skip
@click.option("--host", "hosts", multiple=True, metavar="HOST",
              help="Name or address of the broker's machine; may be repeated.")  # fmt: skip
@click.option("--port", type=click.IntRange(1, 65535), default=8883, show_default=True,
              metavar="N", help="Port of the broker.")  # fmt: skip
def make(
    file: Path | None, folder: Path, run: str | None, hosts: tuple[str, ...], port: int
) -> None:
    """Make an authority, certificates for broker and server, mosquitto.conf and its ACL.

    With FILE, the experiment file, the broker refuses messages that are larger than those of its
    run; without it, those above 4 MB. If FILE has [privacy] masks = true, every client gets a mask
    key besides its certificate, and the authority signs a directory of them.
    """
    from psofed.fleet.protocol import deployment, wire

    known: dict[str, Any] = {}
    if file is not None:
        plan = deployment.read(file)
        run = run or plan.deploy.run
        known = {"largest": plan.largest + wire.SEAL, "masks": plan.masked, "names": plan.names}
    run = run or "p"
    deployment.Deploy(run=run)  # refuses a name that does not fit a topic
    _authorities().make(folder, run, list(hosts), port, **known)
    where = "" if folder == Path("keys") else f" --folder {folder}"
    first = known["names"](0) if known else 0
    print(f"Wrote {folder}. Keep {folder}/ca.key secret. Start the broker: mosquitto -c "
          f"{folder}/mosquitto.conf. Next: psofed deploy keys add {first}{where}")  # fmt: skip


@keys.command()
@click.argument("name")
@_folder
@_days
def add(name: str, folder: Path, days: int | None) -> None:
    """Make the certificate of client NAME, which is valid for that client only.

    NAME is its name in the file of the run, its number, or NAME=K for one that joined later.
    """
    name, new = _authorities()(folder).add(name, days)
    files = f"--ca ca.pem --cert {name}.pem --key {name}.key"
    print(f"Wrote {folder}/{name}.pem and .key. Give them and ca.pem to the device: {files}")
    if new:
        print(f"Copy {folder}/acl to the broker, too, and have it read that: kill -HUP")
    _name_masks(folder, name)


@keys.command()
@click.argument("name")
@_folder
@_days
@click.option("--new-mask", is_flag=True,
              help="Make a new mask key, too; otherwise it stays, unless it was revoked."
              )  # fmt: skip
def renew(name: str, folder: Path, days: int | None, new_mask: bool) -> None:
    """Make a new key and certificate for NAME: a client's name or number, server or broker.

    The old one stays valid until its end.
    """
    name, new_mask = _authorities()(folder).renew(name, days, new_mask)
    whose = name if name in ("broker", "server") else "device"
    print(f"Wrote {folder}/{name}.pem and .key. Copy to the {whose}, and start it again")
    if new_mask:
        _name_masks(folder, name)


@keys.command()
@click.argument("name")
@_folder
def revoke(name: str, folder: Path) -> None:
    """Revoke all certificates of NAME: a client's name or number, or server.

    The broker refuses them when it was started again; all others reconnect by themselves.
    """
    count = _authorities()(folder).revoke(name)
    said = f"Revoked {count} certificate{'s' if count > 1 else ''} of {name} in {folder}/crl.pem"
    print(f"{said}. Copy it to the broker, and start that again: it ends open connections")


def _authorities() -> type[Authority]:
    """The class; an error that says what to install without the package that it needs."""
    from psofed.extras import need

    need("cryptography", "deploy", "keys")
    from psofed.fleet.authority import Authority

    return Authority


def _name_masks(folder: Path, name: str) -> None:
    """Where clients have mask keys: the directory is new, and all have to have the same."""
    from psofed.fleet import mask_keys

    if mask_keys.wanted(folder):
        print(f"Wrote {folder}/{name}.mask for the device, and {folder}/{mask_keys.DIRECTORY}. When"
              " all clients are in it, give it to every device, next to ca.pem, and restart them"
              )  # fmt: skip


@keys.command("list")
@_folder
def show(folder: Path) -> None:
    """List all certificates of the folder: whose, how many days are left, which are revoked.

    Those of clients that have a mask key say so.
    """
    made = _authorities()(folder).made()
    from psofed.fleet import identity, mask_keys

    now, called = datetime.now(UTC), identity.names(folder)
    masked = {called(k) for k in mask_keys.numbers(folder)}
    for each in made:
        days = (each.end - now).days
        state = "revoked  " if each.revoked else "expired  " if days < 0 else ""
        state += "mask key" * (each.name in masked)
        print(f"{each.name:>16}  {days:>5} days, until {each.end:%Y-%m-%d}  {state}".rstrip())


@keys.command()
@click.argument("name", required=False)
@_folder
def secret(name: str | None, folder: Path) -> None:
    """Make the secret of a server or, with NAME, the key of that client.

    With --secret, server and clients seal every message with 8 bytes, and refuse others.
    """
    from psofed.fleet import identity

    if name is None:
        path = identity.make_secret(folder)
        print(f"Wrote {path}. Only the server needs it. Next: psofed deploy keys secret 0")
    else:
        path = identity.give_secret(folder, name)
        print(f"Wrote {path}. Give it to the device: --secret {path.name}")
