"""`psofed completion SHELL`: completion of commands, options and files with the Tab key."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_PSOFED_COMPLETE"  # click looks for it


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what a shell needs to complete commands and options with the Tab key.

    \b
    in ~/.bashrc:                eval "$(psofed completion bash)"
    in ~/.zshrc, after compinit: eval "$(psofed completion zsh)"
    in config.fish:              psofed completion fish | source
    """
    found = get_completion_class(shell)
    assert found is not None  # one of click's own
    print(found(ctx.find_root().command, {}, "psofed", VARIABLE).source())
