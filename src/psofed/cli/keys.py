"""`psofed keys init|client`: certificates and the broker's configuration."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def keys() -> None:
    """Make the certificates of a deployment and a matching mosquitto configuration."""


_folder = click.option("--folder", type=click.Path(path_type=Path), default=Path("keys"),
                       show_default=True, help="Where keys and certificates are.")  # fmt: skip


@keys.command()
@_folder
@click.option("--run", default="p", show_default=True, help="The run's name, as under [deploy].")
@click.option("--host", "hosts", multiple=True, help="A name or address of the broker's machine.")
@click.option("--port", type=click.IntRange(1, 65535), default=8883, show_default=True)
def init(folder: Path, run: str, hosts: tuple[str, ...], port: int) -> None:
    """Make an authority, certificates of broker and server, mosquitto.conf and its ACL."""
    from psofed.deploy import identity
    from psofed.deploy.plan import Deploy

    Deploy(run=run)  # refuses a name that does not fit a topic
    identity.init(folder, run, [*hosts, "localhost", "127.0.0.1"], port)
    print(f"Wrote {folder}. Keep {folder}/ca.key to yourself. The broker: mosquitto -c "
          f"{folder}/mosquitto.conf. Next: psofed keys client 0")  # fmt: skip


@keys.command()
@click.argument("name")
@_folder
@click.option("--days", type=click.IntRange(1, 36500), help="How long it is valid. [default: 825]")
def client(name: str, folder: Path, days: int | None) -> None:
    """Make the certificate of client NAME (its number): it can speak for that client only."""
    from psofed.deploy import identity

    identity.client(folder, name, days=days or identity.DAYS)
    files = f"--ca ca.pem --cert {name}.pem --key {name}.key"
    print(f"Wrote {folder}/{name}.pem and .key. Give them and ca.pem to the device: {files}")
