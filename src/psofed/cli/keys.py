"""`psofed keys init|client|secret`: certificates, the broker's configuration, keys of seals."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def keys() -> None:
    """Make the certificates of a deployment and a matching mosquitto configuration."""


_folder = click.option("--folder", type=click.Path(path_type=Path), default=Path("keys"),
                       show_default=True, help="Folder of keys and certificates.")  # fmt: skip


@keys.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@_folder
@click.option("--run", metavar="NAME",
              help="Name of the run, as under [deploy]. [default: that of FILE, or p]"
              )  # fmt: skip
@click.option("--host", "hosts", multiple=True, metavar="HOST",
              help="Name or address of the broker's machine; may be repeated.")  # fmt: skip
@click.option("--port", type=click.IntRange(1, 65535), default=8883, show_default=True,
              metavar="N", help="Port of the broker.")  # fmt: skip
def init(
    file: Path | None, folder: Path, run: str | None, hosts: tuple[str, ...], port: int
) -> None:
    """Make an authority, certificates for broker and server, mosquitto.conf and its ACL.

    With FILE, the experiment file, the broker refuses messages that are larger than those of its
    run; without it, those above 4 MB.
    """
    from psofed.deploy import identity
    from psofed.protocol import deployment, seal

    largest = identity.LARGEST
    if file is not None:
        plan = deployment.read(file)
        run, largest = run or plan.deploy.run, plan.largest + seal.SIZE
    run = run or "p"
    deployment.Deploy(run=run)  # refuses a name that does not fit a topic
    identity.init(folder, run, [*hosts, "localhost", "127.0.0.1"], port, largest)
    print(f"Wrote {folder}. Keep {folder}/ca.key secret. Start the broker: mosquitto -c "
          f"{folder}/mosquitto.conf. Next: psofed keys client 0")  # fmt: skip


@keys.command()
@click.argument("name")
@_folder
@click.option("--days", type=click.IntRange(1, 36500), metavar="N",
              help="Days for which it is valid. [default: 825]")  # fmt: skip
def client(name: str, folder: Path, days: int | None) -> None:
    """Make the certificate of client NAME (its number), which is valid for that client only."""
    from psofed.deploy import identity

    identity.client(folder, name, days=days or identity.DAYS)
    files = f"--ca ca.pem --cert {name}.pem --key {name}.key"
    print(f"Wrote {folder}/{name}.pem and .key. Give them and ca.pem to the device: {files}")


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
