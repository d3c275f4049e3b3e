"""`psofed`: its verbs by task, each loaded when asked, and options that several of them have."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from psofed import __version__
from psofed.federation.texts import comments

WHOLE = 1000  # characters of a summary: none is cut


class Sentences(click.Group):
    """A group that lists each command with its whole first sentence, where click would cut it."""

    def sections(self, ctx: click.Context) -> dict[str, list[str]]:
        """The commands by title."""
        return {"Commands": self.list_commands(ctx)}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The titles, one after the other, with their commands."""
        width = max(map(len, self.list_commands(ctx)))
        for title, names in self.sections(ctx).items():
            verbs = [(name, self.get_command(ctx, name)) for name in names]
            rows = [(n.ljust(width), v.get_short_help_str(WHOLE)) for n, v in verbs if v]
            with formatter.section(title):
                formatter.write_dl(rows)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """A command, whose options have the names in the environment that they have here."""
        name, command, rest = super().resolve_command(ctx, args)
        for option in command.params if command else ():
            if isinstance(option, click.Option) and option.allow_from_autoenv:
                words = f"{ctx.auto_envvar_prefix}_{name}_{max(option.opts, key=len).lstrip('-')}"
                option.envvar = words.upper().replace("-", "_")
        return name, command, rest


class Verbs(Sentences):
    """A group whose commands are listed by task: title, then each verb and the file it is in."""

    def __init__(self, tasks: dict[str, dict[str, str]], **more: Any) -> None:
        self.tasks = tasks
        self.files = {name: file for verbs in tasks.values() for name, file in verbs.items()}
        super().__init__(**more)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All verbs, in the order of the list."""
        return list(self.files)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb of that name, from its file."""
        if cmd_name not in self.files:
            return None
        return getattr(import_module(f"psofed.cli.{self.files[cmd_name]}"), cmd_name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The verb that the first word names; another word is answered with those near to it."""
        if args[0] not in self.files and not ctx.resilient_parsing:
            from psofed.errors import nearest

            inside = {name: f"{g.name} {name}" for g in (study, deploy) for name in g.files}
            known = {**inside, **{name: name for name in self.files}}
            right = nearest(args[0], list(known.values()))
            if args[0] in inside:
                right = f"it is `psofed {inside[args[0]]}`"
            ctx.fail(f"No such command {args[0]!r}; {right}")
        return super().resolve_command(ctx, args)

    def sections(self, ctx: click.Context) -> dict[str, list[str]]:
        """The verbs of each task."""
        return {title: list(verbs) for title, verbs in self.tasks.items()}


Command = Callable[..., Any]
FILE = click.Path(path_type=Path)
METAVARS = {"int": "N", "float": "NUMBER", "str": "NAME", "tuple[str, ...]": "NAME,..",
            "tuple[int, ...]": "N,.."}  # fmt: skip


def fields(where: str, *names: str, default: str = "") -> Callable[[Command], Command]:
    """Options that set fields of a class such as "settings.Settings", with what is said there.

    Their texts are read by the types of the fields, like those of --set.
    """
    notes = comments(*where.rsplit(".", 1))
    end = f" [default: {default}]" if default else ""

    def add(command: Command) -> Command:
        for name in reversed(names):
            kind, text = notes[name]
            shown: Any = {
                "metavar": METAVARS[kind],
                "help": f"{text[0].upper()}{text[1:].rstrip('.')}.{end}",
            }
            command = click.option(f"--{name.replace('_', '-')}", name, **shown)(command)
        return command

    return add


class Deploys(click.Command):
    """A command of a deployment: its help ends with the keys of [deploy] that concern its end."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """What --set can set, as it is said next to each field."""
        own, other = ("server", "client") if self.name == "serve" else ("client", "server")
        notes = comments("fleet.protocol.deployment", "Deploy").items()
        rows = [(key, text.removeprefix(f"{own}: ")) for key, (_, text) in notes
                if not text.startswith(other)]  # fmt: skip
        with formatter.section("Keys under [deploy], for --set"):
            formatter.write_dl(rows)


COMMON = {
    "set": click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
                        help="Any setting of the experiment, such as rounds=500, seed=1, step=0.5,"
                        " targets=noisy, features.width=2 or methods.shared=5; may be repeated."),
    "out": click.option("--out", type=FILE,
                        help="Folder for the results. [default: a new folder in results/]"),
    "json": click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    "example": click.option("--example", is_flag=True,
                            help="Use the synthetic table in the package."),
    "deploy": click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
                           help="Any setting under [deploy], for this start; may be repeated."),
    "plain": click.option("--plain", is_flag=True,
                          help="Allow mqtt:// to other machines, unencrypted."),
    "secret": click.option("--secret", type=FILE, metavar="FILE",
                           help="Seal every message with 8 bytes that only holders of the key can"
                           " make (`psofed deploy keys secret`)."),
    "ca": click.option("--ca", type=FILE, help="Certificate of the authority (mqtts://, masks)."),
    "cert": click.option("--cert", type=FILE, help="Own certificate (mqtts://)."),
    "key": click.option("--key", type=FILE, help="Private key of the certificate."),
}  # fmt: skip


def common(*names: str) -> Callable[[Command], Command]:
    """Options that several verbs have."""

    def add(command: Command) -> Command:
        for name in reversed(names):
            command = COMMON[name](command)
        return command

    return add


deploy_options = common("deploy", "plain", "secret", "ca", "cert", "key")


def experiment_options(*names: str, default: str) -> Callable[[Command], Command]:
    """The options of a verb that runs an experiment, with these fields of it."""
    own, rest = fields("settings.Settings", *names, default=default), common("set", "out", "json")
    return lambda command: own(rest(command))


def _cite(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        text = files("psofed").joinpath("cli/presets/citation.bib").read_text(encoding="utf-8")
        click.echo(text.replace("VERSION", __version__), nl=False)
        ctx.exit()


def _version(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from psofed.extras import release

        click.echo(f"psofed, version {release()}")
        ctx.exit()


def _shown(name: str, callback: Any, text: str) -> click.Option:
    """What is said instead of running a command, whatever is in the environment."""
    return click.Option([name], is_flag=True, is_eager=True, expose_value=False, callback=callback,
                        allow_from_autoenv=False, help=text)  # fmt: skip


cli = Verbs(
    {
        "Experiments": {
            "reproduce": "run", "init": "run", "run": "run", "compare": "compare",
            "study": "verbs",
        },
        "Your own table": {"fit": "fit", "predict": "predict", "advise": "fit"},
        "A deployment": {"demo": "demo", "deploy": "verbs"},
        "To look and to check": {"play": "verify", "check": "verify"},
    },
    help="""Online federated learning of nonlinear regression on streams, when every byte counts.

    Start with `psofed reproduce`: the paper's figures, with error bars, traffic and a verdict.
    PSOFED_JOBS=2 in the environment takes two cores, not all. Any option can be set there:
    --broker of `psofed deploy client` is PSOFED_DEPLOY_CLIENT_BROKER.
    """,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100,
                      "auto_envvar_prefix": "PSOFED"},
    params=[
        _shown("--cite", _cite, "Print the paper and this software as BibTeX and exit."),
        _shown("--version", _version, "Show the version with its commit, and exit."),
    ],
)  # fmt: skip

study = Verbs(
    {
        "An experiment": {
            "sweep": "studies", "theory": "theory", "attack": "studies", "privacy": "studies",
            "verify": "verify",
        },
    },
    name="study",
    help="Look closer: sweep settings, predict, attack, eavesdrop, compare executors.",
)  # fmt: skip
deploy = Verbs(
    {
        "At the server": {
            "keys": "keys", "serve": "serve", "fleet": "fleet_verbs", "restore": "fleet_verbs",
            "verify": "fleet_verbs",
        },
        "On a device": {"client": "client", "export": "predict", "gateway": "gateway"},
    },
    name="deploy",
    help="Run it on real devices: keys, server, clients, the fleet, models for microcontrollers.",
)  # fmt: skip
