"""What `serve` and `client` share: the options for the broker and the own certificate."""

from __future__ import annotations

import errno
import math
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from psofed.deploy.certificates import Identity


class Finite(click.FloatRange):
    """A finite number in a range; nan and inf are refused."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number", param, ctx)
        return number


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that talks to a broker."""
    path = click.Path(path_type=Path)
    for option in (
        click.option("--key", type=path, help="Private key of the certificate."),
        click.option("--cert", type=path, help="Own certificate (mqtts://)."),
        click.option("--ca", type=path, help="Certificate of the authority (mqtts://)."),
        click.option("--secret", type=path, metavar="FILE",
                     help="Seal every message with 8 bytes that only holders of the key can make"
                     " (`psofed keys secret`)."),
        click.option("--plain", is_flag=True, help="Allow mqtt:// to other machines, unencrypted."),
        click.option("--qos", type=click.IntRange(0, 1), default=0, show_default=True,
                     help="MQTT level of delivery. 0: fewest bytes, lost messages are asked for"
                     " again. 1: MQTT repeats them."),
    ):  # fmt: skip
        command = option(command)
    return command


def identity(ca: Path | None, cert: Path | None, key: Path | None) -> Identity | None:
    """The identity that the options name, all three or none."""
    from psofed.deploy.certificates import Identity
    from psofed.errors import InputError

    if ca is None and cert is None and key is None:
        return None
    if ca is None or cert is None or key is None:
        raise InputError("--ca, --cert and --key", "belong together", "give all three")
    return Identity(ca, cert, key)


def patiently(line: str, stream: TextIO) -> bool:
    """Print a line; a disk that is full loses it or delays it, but ends nothing. Whether it was."""
    try:
        print(line, file=stream, flush=True)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EROFS):
            raise
        return False
    return True


def say(line: str) -> None:
    """Print a line on standard error."""
    patiently(line, sys.stderr)


def on_stop(stop: Callable[[], None]) -> None:
    """Stop cleanly on SIGTERM and Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop())
