"""ledger train: trains a model on verifiable tasks, and tells the ledger everything that happens.

Torch is of an extra, and imported when a run begins. The trainer works in this process, or in several that this one
starts and watches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click

from ledger.core.errors import InvalidInput
from services.cli.options import Command
from services.cli.output import Cell, Output
from services.cli.settings import Settings as CliSettings
from services.cli.state import State
from services.trainer import models
from services.trainer.options import Options, parse_resume, with_steps
from services.trainer.settings import Settings, read_settings
from services.trainer.words import line_of, number

UNNAMED: Final = "unknown"
"""The actor when nobody names one."""
_EXAMPLE: Final = Path(models.__file__).parent / "examples" / "tiny.toml"


def _print_example(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:  # noqa: FBT001  # click calls it
    if wanted:
        click.echo(_EXAMPLE.read_text("utf-8"), nl=False)
        ctx.exit()


@click.command(
    "train",
    cls=Command,
    example="""ledger train --example > run.toml
ledger train run.toml
ledger train run.toml --processes 2 --address 127.0.0.1:7410 --receipt consumption.json
ledger train run.toml --export-only 40 --to exports/step-40""",
)
@click.argument("config", metavar="CONFIG", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--resume",
    default="auto",
    metavar="auto|never|STEP",
    help="From the latest checkpoint if there is one (auto), from none, or from that of a step.",
)
@click.option(
    "--processes", type=click.IntRange(1, 1024), default=1, metavar="N", help="On this machine; 1 by default."
)
@click.option("--steps", type=click.IntRange(1), metavar="N", help="Train to this step, in place of `run.steps`.")
@click.option(
    "--receipt",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="What `ledger check --receipt` wrote: the run cites it.",
)
@click.option(
    "--export-only",
    type=click.IntRange(0),
    metavar="STEP",
    help="Make no step: export that checkpoint by the trainer's own way, at its own step.",
)
@click.option("--to", metavar="PATH|URL", help="Where --export-only exports to.")
@click.option(
    "--example",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_example,
    help="Print a CONFIG to begin with: a tiny model, some seconds on a CPU.",
)
@click.pass_obj
def train(  # noqa: PLR0917  # click gives what the command line says
    state: State,
    config: Path,
    resume: str,
    processes: int,
    steps: int | None,
    receipt: Path | None,
    export_only: int | None,
    to: str | None,
) -> None:
    """Train a model on verifiable tasks by RLOO, as the file CONFIG says.

    Checkpoints, rollouts and what is recorded lie in the folder that CONFIG names. Without a ledger everything recorded
    waits there, and `ledger sync` sends it. Interrupted, killed or failed, the same command goes on from the latest
    checkpoint.
    """
    out = state.output
    settings = with_steps(read_settings(config), steps)
    options = Options(
        address=_address(state.settings),
        resume=parse_resume(resume),
        receipt=receipt,
        by=None if state.settings.text("actor") == UNNAMED else state.by,
    )
    models.require()
    if export_only is not None or to is not None:
        _export(out, settings, export_only, to, options)
        return
    told = _Told(out)
    if processes == 1:
        from services.trainer.running import run  # noqa: PLC0415  # it imports torch

        outcome = run(settings, options, tell=told.tell).to_dict()
    else:
        arguments = [*_arguments(settings, options, state), str(config)]
        from services.trainer.launching import launch  # noqa: PLC0415  # it imports torch

        outcome = launch(arguments, processes, tell=told.tell)
    told.end(outcome)


class _Told:
    """Prints what the trainer tells: lines, or with --json one object each."""

    def __init__(self, out: Output) -> None:
        self._out = out

    def tell(self, told: Mapping[str, Any]) -> None:
        if self._out.as_json:
            self._out.json_line(dict(told))
        elif told["kind"] == "step":
            self._out.line(line_of(told), whole=True)
        else:
            self._out.say(line_of(told))

    def end(self, outcome: Mapping[str, Any]) -> None:
        if self._out.as_json:
            self._out.json_line({**outcome, "kind": "end"})
            return
        self._out.pairs(_pairs(outcome))
        for refused in outcome["refused"]:
            self._out.say(f"The ledger refused {refused}")


def _pairs(outcome: Mapping[str, Any]) -> Iterable[tuple[str, Cell]]:
    saved = ", ".join(map(str, outcome["steps_saved"])) or "none"
    yield "run", outcome["run_id"]
    yield "attempt", outcome["attempt"] if outcome["attempt"] is not None else "none: the run was complete"
    yield "steps", f"{outcome['from_step']} to {outcome['last_step']}"
    yield "checkpoints", f"{outcome['checkpoints']} (steps {saved})"
    if outcome["selected"] is not None:
        yield "selected", _selected(outcome["selected"])
    if outcome["export"] is not None:
        yield "export", _exported(outcome["export"])
    if outcome["recorded"]:
        yield "recorded", outcome["recorded"]


def _selected(selected: Mapping[str, Any]) -> str:
    if selected["ema"] is None:
        return f"step {selected['step']} ({selected['rule']}: no save is eligible for the trailing EMA)"
    return (
        f"step {selected['step']} ({selected['rule']} {number(selected['ema'])}, reward {number(selected['reward'])})"
    )


def _exported(export: Mapping[str, Any]) -> str:
    return (
        f"{export['location']} (step {export['step']}, {export['parameters']:,} parameters, "
        f"{'/'.join(export['dtypes'])}, verified, {export['export_id']})"
    )


def _export(out: Output, settings: Settings, step: int | None, to: str | None, options: Options) -> None:
    if step is None or to is None:
        raise InvalidInput(
            "--export-only and --to belong together", reason="USAGE", remedy="Give the step and where it goes."
        )
    from services.trainer.running import export_only  # noqa: PLC0415  # it imports torch

    exported, report = export_only(settings, step, to, options)
    told = {**exported.to_dict(), "recorded": report}
    if out.as_json:
        out.json(told)
        return
    out.pairs([("export", _exported(told)), ("recorded", report)])


def _arguments(settings: Settings, options: Options, state: State) -> list[str]:
    """What was asked, as `python -m services.trainer` takes it."""
    given = {
        "--resume": str(options.resume),
        "--steps": str(settings.run.steps),
        "--address": options.address,
        "--receipt": None if options.receipt is None else str(options.receipt),
        "--actor": None if options.by is None else options.by.id,
        "--actor-kind": None if options.by is None else state.settings.text("actor_kind"),
    }
    return [f"{name}={value}" for name, value in given.items() if value is not None]


def _address(settings: CliSettings) -> str | None:
    """The ledger that is named, or that holds the home. None: what is recorded waits."""
    if settings.address is not None or settings.db is not None or find_spec("sqlalchemy") is None:
        return settings.address
    from services.server import home  # noqa: PLC0415  # of the server's extra

    return home.server_address(settings.home)
