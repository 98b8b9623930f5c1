"""ledger check: may a run train on these sources? To be asked when it begins, with a receipt to keep beside it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import click

from ledger.client.messages import coordinates_dict, to_dict
from ledger.client.receipts import Written, receipt_of, write_receipt
from ledger.client.runs import Runs
from ledger.core.errors import REASONS
from ledger.wire import runs_pb2
from services.cli import words
from services.cli.coordinates import Where, standing
from services.cli.options import SOURCE, Command, where_options
from services.cli.output import Output
from services.cli.state import State

REQUIREMENTS: Final = ("good", "some_issues", "any")
REFUSED: Final = REASONS["REFUSED_BY_RULES"].exit
"""A gate that says no: the answer is on stdout all the same, since it is one."""


@click.command(
    "check",
    cls=Command,
    example="""ledger check MarinSkyRL:svamp --require good
ledger check MarinSkyRL:svamp --dataset-revision MarinSkyRL:svamp=0f3c… --receipt consumption.json""",
)
@click.argument("sources", nargs=-1, required=True, type=SOURCE, metavar="SOURCE...")
@click.option(
    "--require",
    type=click.Choice(REQUIREMENTS),
    default="good",
    show_default=True,
    help="What each must be; some_issues: that or better; any: listed and not excluded.",
)
@click.option("--dataset-revision", "data", multiple=True, metavar="SOURCE=REV", help="The data that will be consumed.")
@click.option(
    "--verifier-revision", "verifiers", multiple=True, metavar="SOURCE=REV", help="The verifier that will be used."
)
@click.option(
    "--receipt",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the consumption receipt there, whatever the verdict; the file appears when it is whole.",
)
@where_options
@click.pass_obj
def check(
    state: State,
    sources: tuple[str, ...],
    *,
    require: str,
    data: tuple[str, ...],
    verifiers: tuple[str, ...],
    receipt: Path | None,
    where: Where,
) -> int:
    """Say whether sources may be trained on, each with its reasons. It records nothing.

    Exit code 0: all of them passed; 5: one did not. The receipt says what the ledger knew, at which size and root, so
    that a run can cite it (`consumption_receipt` and `consumption_size` of run.declared).
    """
    revisions = {
        "dataset_revisions": _by_source("--dataset-revision", data, sources),
        "verifier_revisions": _by_source("--verifier-revision", verifiers, sources),
    }
    out = state.output
    with state.open() as ledger:
        answer = Runs(ledger.connection).check(sources, where.coordinates(ledger), require=require, **revisions)
    written = None if receipt is None else write_receipt(receipt, receipt_of(answer, **revisions))
    _show(out, answer, written)
    if not out.as_json:
        out.say(f"{_conclusion(answer)} {standing(answer.coordinates, where.at)}.")
    return 0 if answer.passed else REFUSED


def _by_source(flag: str, given: Iterable[str], sources: Iterable[str]) -> dict[str, str]:
    """SOURCE=REV of each; a source's id may hold an equals sign, so it is looked for among those that are named."""
    found: dict[str, str] = {}
    for text in given:
        source = max((s for s in sources if text.startswith(f"{s}=")), key=len, default=None)
        revision = "" if source is None else text[len(source) + 1 :]
        if source is None or not revision:
            raise click.UsageError(f"{flag} {text}: give SOURCE=REV, with one of the sources that are checked.")
        if found.setdefault(source, revision) != revision:
            raise click.UsageError(f"{flag}: two revisions of {source} are given.")
    return found


def _show(out: Output, answer: runs_pb2.CheckResponse, written: Written | None) -> None:
    if out.as_json:
        out.json(to_dict(answer) | {"coordinates": coordinates_dict(answer.coordinates), "receipt": _told(written)})
        return
    for one in answer.verdicts:
        verdict = "OK" if one.passed else "FAIL"
        rated = words.rated(one.source).plain if one.HasField("source") else "not listed"
        out.line(f"{verdict}: {one.source_id}: {rated}")
        out.pairs(("  against", reason) for reason in one.reasons)
        out.pairs(("  note", warning) for warning in one.warnings)
    if written is not None:
        out.line(f"receipt {written.path} sha256 {written.sha256}", whole=True)


def _told(written: Written | None) -> dict[str, Any] | None:
    return None if written is None else {**written.ref.model_dump(), "file": str(written.path)}


def _conclusion(answer: runs_pb2.CheckResponse) -> str:
    asked = len(answer.verdicts)
    passed = sum(one.passed for one in answer.verdicts)
    required = words.quality(answer.require).plain if answer.require != "any" else "listed and not excluded"
    return f"{passed} of {words.counted(asked, 'source')} passed ({required} is required)."
