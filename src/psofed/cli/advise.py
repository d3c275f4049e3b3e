"""`psofed advise TABLE`: which method and M for this data and this link, and what it costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from psofed.cli import tables
from psofed.cli.progress import counting, say


@click.command()
@click.argument("table", type=click.Path(path_type=Path), required=False)
@tables.options
@click.option("--link", metavar="NAME",
              help="lorawan-dr0 .. lorawan-dr5, nb-iot, ble, satellite or ethernet.")  # fmt: skip
@click.option("--payload", type=click.IntRange(min=1), help="Most bytes in a message.")
@click.option("--bytes-per-day", type=float, help="Most bytes of a device, up and down.")
@click.option("--target-error", type=float, help="Wanted: error over variance, e.g. 0.3.")
@click.option("--within", type=float, default=5.0, show_default=True, metavar="PERCENT",
              help="Good enough: so near to full sharing.")  # fmt: skip
def advise(
    table: Path | None, link: str | None, payload: int | None, bytes_per_day: float | None,
    target_error: float | None, within: float, **wishes: Any,
) -> None:  # fmt: skip
    """Find the cheapest setting for TABLE that is nearly as good as full sharing, under a link.

    Tunes D, kernel width and step on the warm-up, runs the settings of method, M and E side by side
    and says what each costs per device and day, and whether federation pays at all. Settings are
    chosen on rounds before the last part, and reported on the last part. Writes the answer, a
    picture, plan.toml (`psofed fit --plan`) and run.toml (`psofed run`, `serve` and `client`).
    """
    from psofed.report import advice as words
    from psofed.tables import advise as advising

    limits = _limits(link, payload, bytes_per_day, target_error, within)
    wanted = tables.asked(table, (), wishes)
    with tables.results(wanted, "advice", wishes) as folder:
        search_dim = wishes["dim"] is None
        read = tables.read(wanted)
        advice = advising.advise(read, wanted.plan, limits, counting, search_dim, wanted.source)
        folder.write(words.render(advice, tables.command()), words.FILES)
    out = folder.path
    if wishes["as_json"]:
        summary = words.summary(advice, tables.command())
        print(json.dumps(summary | {"folder": str(out)}, indent=2))
        return
    print(words.text(advice))
    for note in advice.notes:
        print(note)
    print(f"\nresults in {out}; go on with: psofed fit TABLE --plan {out / 'plan.toml'}")
    if advice.experiment is not None:
        print(f"or with {out / 'run.toml'}: psofed run, psofed serve, psofed client")


def _limits(
    link: str | None, payload: int | None, bytes_per_day: float | None,
    target_error: float | None, within: float,
) -> Any:  # fmt: skip
    from psofed.errors import InputError
    from psofed.tables import links
    from psofed.tables.choices import Limits

    for name, value in (("--bytes-per-day", bytes_per_day), ("--target-error", target_error),
                        ("--within", within)):  # fmt: skip
        if value is not None and not 0 < value < float("inf"):
            raise InputError(name, f"is {value}", "use a number above 0")
    messages = float("inf")
    if link is not None:
        found = links.find(link)
        payload = found.payload if payload is None else min(payload, found.payload)
        messages = found.per_day
        say(f"{found.name}: {found.payload} bytes a message ({found.source}).")
    return Limits(payload, messages, bytes_per_day, target_error, within / 100)
