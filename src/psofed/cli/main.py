"""`psofed`: how a command is run, and how errors are shown."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

from psofed.errors import FAILED, InputError, ResourceError
from psofed.federation import plugins


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit.

    0 done, 1 bug or failed check, 2 wrong input, 3 a resource failed, 130 interrupted.
    """
    # Here, because each worker process imports this module again, and needs none of these.
    import click

    from psofed.cli import printing
    from psofed.cli.verbs import cli

    printing.make_printable()
    try:
        cli.main(arguments, prog_name="psofed", standalone_mode=False)
    except InputError as error:
        _leave(error.code, f"psofed: {error}")
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
        if isinstance(error, OSError) and error.errno in FAILED:
            what = error.filename2 or error.filename or "the output"
            _leave(ResourceError.code, f"psofed: {what} cannot be written: {error.strerror}")
        if (blamed := plugins.blamed(error)) is not None:
            _leave(2, f"psofed: {blamed}")
        traceback.print_exc()
        from psofed.extras import release

        line = (
            f"psofed {release()}: this is a bug in psofed. Please report it with the lines above."
        )
        if used := ", ".join(plugin.path for plugin in plugins.loaded.values()):
            line = f"psofed {release()}: this is a bug in psofed, or in {used}: try `psofed check`."
        _leave(1, line)


def _leave(code: int, line: str) -> None:
    print(" ".join(line.split()), file=sys.stderr)
    sys.exit(code)
