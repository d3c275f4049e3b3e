"""`psofed client FILE.toml --id K`: one device of a deployment."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from psofed.cli.network import Finite, identity, on_stop, options

if TYPE_CHECKING:
    from psofed.deploy.plan import Plan


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--id", "who", metavar="K", required=True,
              help="Which client this is, from 0 on; or its name in a table.")  # fmt: skip
@click.option("--state", type=click.Path(path_type=Path), required=True, help="Folder to keep it.")
@click.option("--broker", metavar="URL", required=True, help="mqtt:// or mqtts://HOST:PORT.")
@click.option("--stream", metavar="SOURCE", default="paper", show_default=True,
              help='"paper": the stream in FILE. Or a file of rows. "-": lines.')  # fmt: skip
@click.option("--rate", type=Finite(min=0, min_open=True), default=10.0,
              show_default=True, help="Samples a second of a stream or file (live).")  # fmt: skip
@options
def client(file: Path, who: str, state: Path, broker: str, **wishes: Any) -> None:
    """Be client K of the run in FILE: learn for ever, take part when invited.

    A line on standard input is {"x": [...], "y": ...} or L inputs and y, with commas; of a table,
    {"COLUMN": VALUE, ...} or CSV after a line of names. Without y or target it is a question: the
    prediction of this client's own model is printed. A line that is neither is reported, counted
    and skipped. Server or broker gone: it learns on and comes back by itself.
    """
    from psofed.deploy import join, mqtt
    from psofed.deploy import plan as plans

    plan = plans.read(file)
    names: Sequence[str] = getattr(plan.experiment.stream, "clients", ())
    k = _number(names, who)
    address = mqtt.Address.parse(broker)
    if warning := address.check(wishes["plain"]):
        _say(f"Warning: {warning}")
    lockstep = plan.deploy.clock == "lockstep"
    source = _source(plan, k, wishes["stream"]) if lockstep else None
    certified = identity(wishes["ca"], wishes["cert"], wishes["key"])
    device = join.device(plan, k, state, address, (), source, wishes["qos"], certified)
    restore = getattr(plan.experiment.stream, "restore", float)
    device.on_news, device.on_prediction = _say, lambda y: _predicted(restore(y))
    if not lockstep:
        device.samples = _samples(plan, device.member, wishes["stream"], wishes["rate"])
    for note in device.member.store.notes:
        _say(f"Warning: {state}: {note}")
    on_stop(device.stop)
    learned = device.member.client.position
    name = f" ({names[k]})" if names else ""
    _say(f"Client {k}{name} of run {plan.deploy.run}, {learned} samples learned so far")
    device.run()
    _say(f"Stopped after {device.member.client.position} samples; the state is in {state}")


def _number(names: Sequence[str], who: str) -> int:
    """The client's number, or that of its name in the table."""
    from psofed.errors import InputError

    if who in names:
        return names.index(who)
    more = f"0 to {len(names) - 1}, or a name: {', '.join(names[:5])}, ..."
    try:
        k = int(who)
    except ValueError:
        right = f"use {more if names else 'a number from 0 on'}"
        raise InputError("--id", f"is {who!r}", right) from None
    if names and not 0 <= k < len(names):
        raise InputError("--id", f"is {who}", f"use {more}")
    return k


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _predicted(y: float) -> None:
    print(json.dumps({"y": y}), flush=True)


def _source(plan: Plan, k: int, stream: str) -> Any:
    """Lockstep: sample n for round n, from the experiment or from row n of a table."""
    from psofed.deploy import sources
    from psofed.errors import InputError

    if stream == "paper":
        return sources.replay(plan.experiment, k)
    if stream == "-":
        right = 'put clock = "live" under [deploy] at both ends'
        raise InputError("--stream -", "cannot give sample n to round n", right)
    x, y = sources.recorded(plan.experiment.stream, stream, k)
    if len(y) < plan.experiment.rounds:
        right = f"lockstep needs one for each of {plan.experiment.rounds} rounds"
        raise InputError(stream, f"has {len(y)} samples", f'{right}; or use clock = "live"')
    dtype, bound = plan.experiment.dtype, plan.deploy.bound
    for row in range(len(y)):  # lockstep cannot skip a sample: all have to be fit
        try:
            sources.checked(sources.Sample(x[row], float(y[row])), x.shape[1], dtype, bound)
        except sources.MalformedError as error:
            raise InputError(f"sample {row}", str(error), "mend it", stream) from None
    x, y = x.astype(dtype), y.astype(dtype)
    return lambda start, stop: (x[start:stop], y[start:stop])


def _samples(plan: Plan, member: Any, stream: str, rate: float) -> Iterator[Any]:
    """Live: samples as they come; a file or the experiment's stream at a rate."""
    from psofed.deploy import sources

    ours, position = plan.experiment.stream, member.client.position
    if stream == "-":
        read = sources.reading(ours, member.k)
        return sources.lines(sources.read_lines(sys.stdin.fileno()), read)
    if stream == "paper":
        replayed = sources.replay(plan.experiment, member.k)
        return _paced(replayed, position, None, rate)
    x, y = sources.recorded(ours, stream, member.k)
    return _paced(lambda start, stop: (x[start:stop], y[start:stop]), position, len(y), rate)


def _paced(source: Any, start: int, end: int | None, rate: float) -> Iterator[Any]:
    from psofed.deploy.sources import Sample

    begin, count = time.monotonic(), 0
    while end is None or start + count < end:
        x, y = source(start + count, start + count + 1)
        yield Sample(x[0], float(y[0]))
        count += 1
        time.sleep(max(begin + count / rate - time.monotonic(), 0))
