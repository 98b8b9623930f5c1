"""The shape that all commands share: common options before or after the command, an example first, exit codes last."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar, cast

import click

from ledger.client.reader import MAX_SIZE
from services.cli.coordinates import Where
from services.cli.state import State

Function = TypeVar("Function", bound=Callable[..., Any])


def _of_form(pattern: str, form: str) -> Callable[[str], str]:
    """A kind of argument: a text of another form is a usage error that says what to give."""
    wanted = re.compile(pattern, re.ASCII | re.DOTALL)

    def read(value: str) -> str:
        if not wanted.fullmatch(value):
            raise click.BadParameter(f"{value!r} will not do: give {form}.")
        return value

    return read


SOURCE: Final = _of_form(".+", "the id as `ledger source list` shows it")
RUN: Final = _of_form(".+", "the id as `ledger run list` shows it")
REVISION: Final = _of_form(".{1,256}", "a revision of 1 to 256 characters")
SHA256: Final = _of_form("[0-9a-f]{64}", "a SHA-256, 64 lower-case hexadecimal digits")

EXIT_CODES: Final = (
    (0, "done; also: already recorded, an empty list"),
    (1, "failed in a way not named below"),
    (2, "usage: a wrong flag, argument or setting"),
    (3, "verification failed: a hash or fsck does not hold"),
    (4, "not found"),
    (5, "conflict: a condition or the rules said no, or the home is in use"),
    (6, "unreachable: nobody answered, or not in time"),
    (130, "interrupted"),
)


class Command(click.Command):
    """A command that begins its help with an example and ends it with the exit codes."""

    def __init__(self, *args: Any, example: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example
        self.params.extend(common_options())

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_example(self.example, formatter)
        super().format_help(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_options(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        write_exit_codes(formatter)


class Group(click.Group):
    """A noun: its commands are Commands, and a word that is nearly one of them is answered with it."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, example: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example
        self.params.extend(common_options())

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_example(self.example, formatter)
        super().format_help(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        write_options(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        write_exit_codes(formatter)


class CommonOption(click.Option):
    """An option of every command, before its name or after."""


def write_example(example: str, formatter: click.HelpFormatter) -> None:
    """The example as it is typed: never re-wrapped."""
    with formatter.section("Example"):
        formatter.write("".join(f"{'':{formatter.current_indent}}{line}\n" for line in example.splitlines()))
    formatter.write_paragraph()


def write_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """The command's own options, then those of every command."""
    own = [p for p in command.get_params(ctx) if isinstance(p, click.Option) and not isinstance(p, CommonOption)]
    shared = [p for p in command.get_params(ctx) if isinstance(p, CommonOption)]
    for title, params in (("Options", own), ("Options of every command", shared)):
        records = [record for p in params if (record := p.get_help_record(ctx)) is not None]
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def write_exit_codes(formatter: click.HelpFormatter) -> None:
    with formatter.section("Exit codes"):
        formatter.write_dl([(str(code), meaning) for code, meaning in EXIT_CODES])


def common_options() -> list[CommonOption]:
    """Fresh ones for a command. Each writes into the state of the run; the one nearest to the end wins."""
    return [
        _setting("home", "DIR", "Folder of all local state [LEDGER_HOME; default .ledger]"),
        _setting("db", "URI", "Postgres database in place of the home's SQLite file [LEDGER_DB]"),
        _setting("address", "ADDRESS", "A running ledger, HOST:PORT or unix:/PATH [LEDGER_ADDRESS]"),
        _setting("actor", "ID", "Who says it, a pseudonymous id [LEDGER_ACTOR; default unknown]"),
        _setting("actor-kind", "KIND", "human, model, organization or unknown [LEDGER_ACTOR_KIND]"),
        _setting("timeout", "SECONDS", "Seconds that a call to the ledger may take [LEDGER_TIMEOUT; default 30]"),
        _switch("as_json", "--json", "Print JSON; errors too, on stderr."),
        _switch("quiet", "--quiet", "Say nothing but the answer and errors."),
        _switch("verbose", "-v", "Say more.", count=True),
        _switch("no_color", "--no-color", "No colours [also NO_COLOR; FORCE_COLOR keeps them in a pipe]"),
    ]


def _setting(name: str, metavar: str, text: str) -> CommonOption:
    field = name.replace("-", "_")

    def keep(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            _state(ctx).flags[field] = value

    return CommonOption([f"--{name}", f"common_{field}"], metavar=metavar, help=text, callback=keep, expose_value=False)


def _switch(field: str, flag: str, text: str, *, count: bool = False) -> CommonOption:
    def keep(ctx: click.Context, _: click.Parameter, value: int) -> None:
        if value:
            setattr(_state(ctx), field, value)

    return CommonOption(
        [flag, f"common_{field}"], is_flag=not count, count=count, help=text, callback=keep, expose_value=False
    )


def _state(ctx: click.Context) -> State:
    return ctx.ensure_object(State)


at_option = click.option("--at", metavar="MOMENT", help="A size, a date or an RFC 3339 time; now when left out.")
"""Of commands that read recorded events as they are: neither rules nor policy bear on them."""


def where_options(function: Function) -> Function:
    """--at, --rules, --policy and --min-size: where a reading command stands, given to it as `where`."""

    @wraps(function)
    def with_where(
        *args: Any, at: str | None, rules: str, policy: str | None, min_size: int | None, **kwargs: Any
    ) -> Any:
        return function(*args, where=Where(at, rules, policy, min_size), **kwargs)

    return with_options(
        function,
        with_where,
        at_option,
        click.option(
            "--rules",
            default="",
            metavar="ID",
            help="Under this rule set rather than the one in force there; now: under the one in force at present.",
        ),
        _policy_option("--policy", "Protocols and other policy as of this size, or head; as of --at when left out."),
        _min_size_option(),
    )


def between_options(function: Function) -> Function:
    """--from, --to and theirs: the two sides of a comparison, given to a command as `before` and `after`."""

    @wraps(function)
    def with_sides(*args: Any, min_size: int | None, **kwargs: Any) -> Any:
        asked = {
            side: Where(
                at=kwargs.pop(f"{side}_at"),
                rules=kwargs.pop(f"{side}_rules"),
                policy=kwargs.pop(f"{side}_policy"),
                min_size=min_size,
            )
            for side in ("before", "after")
        }
        return function(*args, **asked, **kwargs)

    options = []
    for flag, side in (("from", "before"), ("to", "after")):
        moment = f"The moment {side} the change: a size, a date or a time; now when left out."
        options += [
            click.option(f"--{flag}", f"{side}_at", metavar="MOMENT", help=moment),
            click.option(f"--rules-{flag}", f"{side}_rules", default="", metavar="ID", help=f"The rules {side} it."),
            _policy_option(f"--policy-{flag}", f"The policy {side} it: a size, or head.", f"{side}_policy"),
        ]
    return with_options(function, with_sides, *options, _min_size_option())


def with_options(_: Function, made: Any, *options: Callable[[Any], Any]) -> Function:
    """What was made of a function, with options that the help lists in this order."""
    for option in reversed(options):
        made = option(made)
    return cast("Function", made)


def _policy_option(flag: str, text: str, *name: str) -> Callable[[Any], Any]:
    return click.option(flag, *name, metavar="SIZE", help=text)


def _min_size_option() -> Callable[[Any], Any]:
    return click.option(
        "--min-size",
        type=click.IntRange(0, MAX_SIZE),
        metavar="N",
        help="Wait until the ledger has come to this size; without --at, to its present one when left out.",
    )


def id_option(function: Function) -> Function:
    """--id: makes repeating a command that appends one event safe."""
    return click.option(
        "--id", "event_id", metavar="ID", help="Id of the event; the same id again is answered with the first receipt."
    )(function)


def log_level_option(function: Function) -> Function:
    """--log-level: a setting of the commands that serve."""
    return click.option(
        "--log-level",
        metavar="LEVEL",
        help="Level of the server's own log on stderr, debug to critical [LEDGER_LOG_LEVEL; default info]",
    )(function)


def dry_run_option(function: Function) -> Function:
    return click.option("--dry-run", is_flag=True, help="Show what would be appended, and append nothing.")(function)
