"""`psofed deploy client FILE.toml --id K`: one device of a deployment."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from psofed.cli.logs import kept, out, say
from psofed.cli.serve import asked, identity, on_stop
from psofed.cli.verbs import FILE, Deploys, deploy_options

if TYPE_CHECKING:
    from psofed.fleet.client_loop import Device
    from psofed.fleet.protocol.confidence import Forecast
    from psofed.fleet.protocol.deployment import Deployment
    from psofed.fleet.samples import Reading


@click.command(cls=Deploys)
@click.argument("file", type=FILE)
@click.option("--id", "who", metavar="NAME", required=True,
              help="This client: its name or number; NAME=K if it joined later.")  # fmt: skip
@click.option("--state", type=FILE, required=True, help="State folder.")
@click.option("--broker", metavar="URL", required=True, help="mqtt:// or mqtts://HOST:PORT.")
@click.option("--stream", metavar="SOURCE", default="paper", show_default=True,
              help='Where samples come from. "paper": the stream in FILE. "-": lines of standard'
              ' input. Otherwise a file with a row for each sample.')  # fmt: skip
@deploy_options
def client(file: Path, who: str, state: Path, broker: str, **options: Any) -> None:
    """Run a client of the run in FILE: learn from samples, take part when invited.

    A line of standard input is {"x": [...], "y": ...}, or L inputs and y separated by commas. For a
    table it is {"COLUMN": VALUE, ...}, or CSV after a line with the column names. A line without y
    (or target) is a question: the prediction of this client's own model is printed, with the low
    and the high end of its interval once there are enough labels; with "ask": true nothing is
    remembered of it. Other programs ask through the socket `ask` in the state folder. Any other
    line is reported, counted and skipped. If the server or the broker is away, the client goes on
    learning and reconnects by itself.
    """
    from psofed.fleet.protocol import deployment as plans

    plan = plans.read(file, options["settings"])
    with kept(plan.deploy.log):
        _run(plan, who, state, broker, options)


def _run(plan: Deployment, who: str, state: Path, broker: str, options: Any) -> None:
    """Make the device, let it run until it is stopped, and say what it has seen."""
    from psofed.fleet import samples
    from psofed.streams.contract import about

    deploy, stream = plan.deploy, about(plan.experiment.stream)
    names = stream.clients_named()
    k = _number(plan, names, who)
    _check_measured(plan, options["stream"])
    device = _device(plan, k, state, broker, options)
    read = samples.reading(plan.experiment.stream, k, deploy.ahead)
    in_units = partial(_in_units, level=deploy.interval, restore=stream.restore)
    device.on_news = say
    device.on_prediction = lambda forecast: out(json.dumps(in_units(forecast)))
    if deploy.live:
        device.samples = _samples(plan, device.member, options["stream"], read)
    for note in device.notes:
        say(f"Warning: {state}: {note}")
    on_stop(device.stop)
    learned = device.member.samples.learned
    name = plan.names(k)
    other = names[k] if k < len(names) and names[k] != name else str(k)
    more = f" ({other})" if other != name else ""
    say(f"Client {name}{more} of run {deploy.run}, {learned:,} samples learned so far")
    _private(device.member)
    with asked(state, lambda row: in_units(device.ask(read.what_if(row)))):
        device.run()
    _conclude(device, deploy.interval)
    say(f"Stopped after {device.member.client.position} samples; the state is in {state}")


def _device(plan: Deployment, k: int, state: Path, broker: str, options: Any) -> Device:
    """The client's loop, with its keys and certificates."""
    from psofed.fleet import client_loop
    from psofed.fleet.broker import Address
    from psofed.fleet.identity import read_secret

    address = Address.parse(broker)
    if warning := address.check(options["plain"]):
        say(f"Warning: {warning}")
    source = None if plan.deploy.live else _source(plan, k, options["stream"])
    pairs = _pairs(plan, k, state, options["ca"])
    certified = None
    if pairs is None or address.tls or options["cert"] or options["key"]:  # --ca alone is for masks
        certified = identity(options["ca"], options["cert"], options["key"])
    key = None if options["secret"] is None else read_secret(options["secret"], k)
    device = client_loop.device(
        plan, k, state, address, (), source, certified, key,
        measured=options["stream"] != "paper", pairs=pairs,
    )  # fmt: skip
    if pairs is not None:
        from psofed.fleet import mask_keys

        mask_keys.claim(mask_keys.file(options["ca"].parent, plan.names(k)), state)
    return device


def _conclude(device: Device, level: float) -> None:
    """What it has seen, and how good its answers were."""
    if device.tally.counts:
        say(f"Samples that were not learned as they were: {device.tally.in_words()}")
    if checked := device.member.client.checked:
        from psofed.stages.checks.contract import in_words

        say(f"The check of samples: {in_words(checked)}")
    _private(device.member)
    confidence = device.member.confidence
    if confidence.labels:
        inside, count = confidence.coverage(level), confidence.labels
        say(f"{inside:.3f} of {count:,} labels were inside the interval of {level:g}")
        if trusted := device.member.report().trusted:
            say(f"Its mix trusts: {trusted}")


def _private(member: Any) -> None:
    """What is promised of what leaves this client, and how much of it is spent."""
    if member.plan.masked:
        say(f"Masks: {member.plan.world.counts[0].in_words()}")
    if member.spent is not None:
        say(f"Privacy: {member.noise.in_words()}; epsilon {member.spent:.3g} is spent so far")


def _number(plan: Deployment, table: Sequence[str], who: str) -> int:
    """The number of a client, also by its name in the table; live, others may join later."""
    from psofed.errors import InputError

    if not plan.deploy.names and who in table:
        return table.index(who)
    try:
        k = plan.names.number(who)
        wrong = f"is {who}" if table and k >= len(table) and not plan.deploy.live else ""
    except InputError as error:
        k, wrong = 0, f"is {who!r}, {error.found}" if "=" in who else f"is {who!r}"
    if wrong:
        known = ", ".join(plan.names.listed[:5] or table[:5])
        last = (len(table or plan.names.listed) or plan.experiment.clients) - 1
        more = f", or a name: {known}, ..." if known else ""
        raise InputError("--id", wrong, f"use 0 to {last}{more}")
    return k


def _pairs(plan: Deployment, k: int, state: Path, ca: Path | None) -> Mapping[int, bytes] | None:
    """What this client shares with the others, by the files next to --ca, if there are masks."""
    from psofed.errors import InputError
    from psofed.extras import need

    if not plan.masked:
        return None
    who = plan.names(k)
    if ca is None:
        found = "is missing, but FILE has masks = true under [privacy]"
        right = f"give it, also with mqtt://, and put {who}.mask and masks.json next to that file"
        raise InputError("--ca", found, right)
    need("cryptography", "deploy", "mask keys")
    from psofed.fleet import mask_keys

    mask_keys.claim(mask_keys.file(ca.parent, who), state)
    return mask_keys.pairs(ca, k, plan.experiment.clients, plan.deploy.run, who)


def _check_measured(plan: Deployment, stream: str) -> None:
    """Refuse samples of one's own where FILE says that some clients measure something else."""
    from psofed.errors import InputError

    attack = plan.experiment.attack
    if attack is not None and attack.share and attack.on == "labels" and stream != "paper":
        found = f"is {stream!r}, but [attack] {attack.name} changes samples of FILE's stream only"
        raise InputError("--stream", found, "leave out --stream, or [attack] at both ends")


def _in_units(
    forecast: Forecast, level: float, restore: Callable[[float], float]
) -> dict[str, float | None]:
    """An answer as it is printed; the ends are null while there are too few labels."""
    low, high = forecast.interval(level) or (None, None)
    ends = {"y": forecast.y, "low": low, "high": high}
    return {name: None if end is None else restore(end) for name, end in ends.items()}


def _source(plan: Deployment, k: int, stream: str) -> Any:
    """Lockstep: sample n for round n, from the experiment or from row n of a table."""
    from psofed.errors import InputError
    from psofed.fleet import samples

    if stream == "paper":
        return samples.replay(plan.experiment, k)
    if stream == "-":
        right = 'put clock = "live" under [deploy] at both ends'
        raise InputError("--stream -", "cannot give sample n to round n", right)
    x, y = samples.recorded(plan.experiment.stream, stream, k)
    if len(y) < plan.experiment.rounds:
        right = f"lockstep needs one for each of {plan.experiment.rounds} rounds"
        raise InputError(stream, f"has {len(y)} samples", f'{right}; or use clock = "live"')
    dtype, bound = plan.experiment.dtype, plan.deploy.bound
    for row in range(len(y)):  # lockstep cannot skip a sample: all must be valid
        try:
            samples.checked(samples.Sample(x[row], float(y[row])), x.shape[1], dtype, bound)
        except samples.MalformedError as error:
            raise InputError(f"sample {row}", str(error), "correct it", stream) from None
    x, y = x.astype(dtype), y.astype(dtype)
    return lambda start, stop: (x[start:stop], y[start:stop])


def _samples(plan: Deployment, member: Any, stream: str, read: Reading) -> Iterator[Any]:
    """Live: samples as they arrive, or a file or the experiment's stream at a given rate."""
    from psofed.fleet import samples

    ours, position, rate = plan.experiment.stream, member.client.position, plan.deploy.rate
    if stream == "-":
        return samples.lines(samples.read_lines(sys.stdin.fileno()), read)
    if stream == "paper":
        replayed = samples.replay(plan.experiment, member.k)
        return _paced(replayed, position, None, rate)
    x, y = samples.recorded(ours, stream, member.k)
    return _paced(lambda start, stop: (x[start:stop], y[start:stop]), position, len(y), rate)


def _paced(source: Any, start: int, end: int | None, rate: float) -> Iterator[Any]:
    from psofed.fleet.samples import Sample

    begin, count = time.monotonic(), 0
    while end is None or start + count < end:
        x, y = source(start + count, start + count + 1)
        yield Sample(x[0], float(y[0]))
        count += 1
        time.sleep(max(begin + count / rate - time.monotonic(), 0))
