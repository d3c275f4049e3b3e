"""`psofed`: the verbs, and how errors are shown."""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Sequence

import click

from psofed import __version__, plugins
from psofed.cli import printing
from psofed.cli.advise import advise
from psofed.cli.check import check
from psofed.cli.cite import cite
from psofed.cli.client import client
from psofed.cli.compare import compare
from psofed.cli.completion import completion
from psofed.cli.demo import demo
from psofed.cli.docs import docs
from psofed.cli.export import export
from psofed.cli.fit import fit
from psofed.cli.groups import ByTask
from psofed.cli.init import init
from psofed.cli.keys import keys
from psofed.cli.play import play
from psofed.cli.predict import predict
from psofed.cli.report import report
from psofed.cli.reproduce import reproduce
from psofed.cli.run import run
from psofed.cli.serve import serve
from psofed.cli.sweep import sweep
from psofed.cli.theory import theory
from psofed.cli.verify import verify
from psofed.errors import InputError


@click.group(
    cls=ByTask, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="psofed")
def cli() -> None:
    """Online federated learning of nonlinear regression on streams, when every byte counts.

    Start with `psofed reproduce`: the paper's figures, with error bars, traffic and a verdict.
    """


for _verb in (
    reproduce, run, compare, sweep, theory, report, play, fit, predict, export, advise, init,
    check, verify, serve, client, demo, keys, docs, completion, cite,
):  # fmt: skip
    cli.add_command(_verb)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit: 0 done, 1 bug or failed check, 2 wrong input, 130 interrupted."""
    printing.speak_plainly()
    try:
        cli.main(arguments, prog_name="psofed", standalone_mode=False)
    except InputError as error:
        _leave(2, f"psofed: {error}")
    except click.exceptions.Exit as leave:
        sys.exit(leave.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        _leave(130, "psofed: interrupted")
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has closed it: end without a message
        sys.exit(0)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            _leave(2, f"psofed: the output cannot be written: {error.strerror}")
        if (told := plugins.blamed(error)) is not None:
            _leave(2, f"psofed: {told}")
        traceback.print_exc()
        line = (
            f"psofed {__version__}: this is a bug in psofed. Please report it with the lines above."
        )
        if used := ", ".join(plugin.path for plugin in plugins.loaded.values()):
            line = (
                f"psofed {__version__}: this is a bug in psofed, or in {used}: try `psofed check`."
            )
        _leave(1, line)


def _leave(code: int, line: str) -> None:
    print(" ".join(line.split()), file=sys.stderr)
    sys.exit(code)
