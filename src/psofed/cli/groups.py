"""The list of commands in `psofed --help`: by task, in the order in which one needs them."""

from __future__ import annotations

import click

GROUPS = {
    "Experiments": (
        "reproduce",
        "init",
        "run",
        "compare",
        "sweep",
        "attack",
        "privacy",
        "theory",
        "report",
    ),
    "Your own table": ("fit", "predict", "advise", "export"),
    "A deployment": ("demo", "keys", "serve", "client", "fleet", "restore"),
    "To look and to check": ("play", "verify", "check", "docs", "cite", "completion"),
}
REST = "More"
WHOLE = 1000  # characters of a summary: none is cut


class ByTask(click.Group):
    """A group whose commands are listed by task, each with its whole first sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the list."""
        known = [name for names in GROUPS.values() for name in names if name in self.commands]
        return [*known, *sorted(set(self.commands) - set(known))]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The groups, one after the other."""
        names = self.list_commands(ctx)
        width = max(map(len, names), default=0)
        listed = {name for some in GROUPS.values() for name in some}
        rest = {REST: tuple(name for name in names if name not in listed)}
        for title, members in (GROUPS | rest).items():
            rows = [
                (name.ljust(width), self.commands[name].get_short_help_str(WHOLE))
                for name in members
                if name in self.commands and not self.commands[name].hidden
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)
