"""`psofed advise TABLE`: which method and M for this data and this link, and what it costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from psofed.cli import printing, table_options
from psofed.cli.progress import counting, say


@click.command()
@click.argument("table", type=click.Path(path_type=Path), required=False)
@table_options.options
@click.option("--link", metavar="NAME",
              help="Type of link, which limits messages: lorawan-dr0 .. lorawan-dr5, nb-iot, ble,"
              " satellite or ethernet. [default: no limits]")  # fmt: skip
@click.option("--payload", type=click.IntRange(min=1), metavar="BYTES",
              help="Largest message. [default: the link's limit]")  # fmt: skip
@click.option("--bytes-per-day", type=float, metavar="BYTES",
              help="Largest daily traffic of a device, up and down. [default: no limit]"
              )  # fmt: skip
@click.option("--target-error", type=float,
              help="Wanted error, divided by the variance of the target, e.g. 0.3; replaces"
              " --within.")  # fmt: skip
@click.option("--within", type=float, default=5.0, show_default=True, metavar="PERCENT",
              help="Accept an error up to PERCENT above that of the best of all.")  # fmt: skip
@click.option("--epsilon", type=float,
              help="Promise of privacy: also try candidates whose devices add noise for it."
              )  # fmt: skip
@click.option("--delta", type=float, default=1e-5, show_default=True,
              help="The other number of that promise.")  # fmt: skip
@click.option("--hide", type=click.Choice(["sample", "client"]), default="sample",
              show_default=True, help="To whom it is given: to each sample, or to all samples of"
              " a device together.")  # fmt: skip
def advise(
    table: Path | None, link: str | None, payload: int | None, bytes_per_day: float | None,
    target_error: float | None, within: float, epsilon: float | None, delta: float, hide: str,
    **wishes: Any,
) -> None:  # fmt: skip
    """Say whether to federate for TABLE, and with which setting: the cheapest of the good ones.

    Tunes D, kernel width and step on the warm-up and runs many settings of method, M and E on the
    same data, with learning alone, a linear model and persistence as candidates like the others.
    Recommends the cheapest that is nearly as good as the best of all, and says what sharing gains,
    for which clients, and how sure that is. A candidate is chosen by its error before the last part
    of the rounds; all errors are those of the last part. Writes the advice, a figure, plan.toml
    (for `psofed fit --plan`) and, if it says to federate, run.toml (for `psofed run`, `serve` and
    `client`).
    """
    from psofed.fit import search as advising
    from psofed.report import advice as words

    limits = _limits(link, payload, bytes_per_day, target_error, within)
    privacy = _privacy(epsilon, delta, hide)
    wanted = table_options.asked(table, (), wishes)
    with table_options.results(wanted, "advice", wishes) as folder:
        search_dim = wishes["dim"] is None
        read = table_options.read(wanted)
        advice = advising.advise(
            read, wanted.plan, limits, counting, search_dim, wanted.source, privacy
        )
        folder.write(words.render(advice, table_options.command()), words.FILES)
    out = folder.path
    if wishes["as_json"]:
        summary = words.summary(advice, table_options.command())
        print(json.dumps(summary | {"folder": str(out)}, indent=2))
        return
    printing.show(*words.blocks(advice), *advice.notes)
    printing.show(f"\nresults in {out}; continue with: psofed fit TABLE --plan {out / 'plan.toml'}")
    if advice.experiment is not None:
        printing.show(f"or with {out / 'run.toml'}: psofed run, psofed serve, psofed client")


def _privacy(epsilon: float | None, delta: float, hide: Any) -> Any:
    from psofed.errors import InputError
    from psofed.privacy.settings import Privacy

    if epsilon is None:
        return None
    try:
        return Privacy(epsilon=epsilon, delta=delta, level=hide)
    except InputError as error:
        raise error.inside("--") from None


def _limits(
    link: str | None, payload: int | None, bytes_per_day: float | None,
    target_error: float | None, within: float,
) -> Any:  # fmt: skip
    from psofed.errors import InputError
    from psofed.fit import links
    from psofed.fit.choices import Limits

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
