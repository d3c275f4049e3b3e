"""All verbs of `psofed`, in the order of its help."""

from __future__ import annotations

import click

from psofed import __version__
from psofed.cli.advise import advise
from psofed.cli.attack import attack
from psofed.cli.check import check
from psofed.cli.cite import cite
from psofed.cli.client import client
from psofed.cli.compare import compare
from psofed.cli.completion import completion
from psofed.cli.demo import demo
from psofed.cli.docs import docs
from psofed.cli.export import export
from psofed.cli.fit import fit
from psofed.cli.fleet_verbs import fleet
from psofed.cli.groups import ByTask
from psofed.cli.init import init
from psofed.cli.keys import keys
from psofed.cli.play import play
from psofed.cli.predict import predict
from psofed.cli.privacy import privacy
from psofed.cli.report import report
from psofed.cli.reproduce import reproduce
from psofed.cli.restore import restore
from psofed.cli.run import run
from psofed.cli.serve import serve
from psofed.cli.sweep import sweep
from psofed.cli.theory import theory
from psofed.cli.verify import verify


@click.group(
    cls=ByTask, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="psofed")
def cli() -> None:
    """Online federated learning of nonlinear regression on streams, when every byte counts.

    Start with `psofed reproduce`: the paper's figures, with error bars, traffic and a verdict.
    """


for _verb in (
    reproduce, run, compare, sweep, attack, privacy, theory, report, play, fit, predict, export,
    advise, init, check, verify, serve, client, fleet, restore, demo, keys, docs, completion, cite,
):  # fmt: skip
    cli.add_command(_verb)
