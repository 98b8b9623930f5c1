"""ledger defect: suspected, confirmed on native inputs, validated as fixed, resolved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ledger.core.errors import Refused
from ledger.events.defects import (
    DefectConfirmed,
    DefectReopened,
    DefectResolved,
    DefectSuspected,
    DefectValidationRecorded,
    DefectWithdrawn,
)
from services.cli.defect_events import (
    append,
    dataset_revision_of,
    defect_id,
    present_source,
    stored,
    verifier_revision_of,
)
from services.cli.defect_history import newest_validation, recorded, review_of_the_fix
from services.cli.listing import listed, note_defect, note_unlisted
from services.cli.models import made
from services.cli.options import REVISION, SOURCE, Function, Group, id_option
from services.cli.state import State
from services.cli.validation import CONTROL_KINDS, OUTCOMES, Checks, add_flags, read_checks

KINDS = ("verifier", "task-import", "judge-output")
_files = click.Path(path_type=Path)


def _what_options(function: Function) -> Function:
    """What a suspicion and a confirmation both say."""
    for option in (
        click.option(
            "--evidence", multiple=True, type=_files, metavar="FILE", help="A file that shows it; may be repeated."
        ),
        click.option("--review", metavar="SHA256", help="The review collection that speaks of it."),
        click.option("--summary", required=True, metavar="TEXT", help="What is wrong, in a sentence."),
        click.option("--kind", required=True, type=click.Choice(KINDS), help="Where it is."),
    ):
        function = option(function)
    return function


def _evidence_option(function: Function) -> Function:
    return click.option(
        "--evidence", multiple=True, type=_files, metavar="FILE", help="A file that shows it; may be repeated."
    )(function)


@click.group(
    "defect",
    cls=Group,
    example="ledger defect suspect MarinSkyRL:svamp --kind verifier --summary 'rejects 1/2 for 0.5'",
)
def defects() -> None:
    """Defects of the sources, from the first suspicion to the resolution."""


@defects.command(
    "suspect", example="ledger defect suspect MarinSkyRL:svamp --kind verifier --summary 'rejects 1/2 for 0.5'"
)
@click.argument("source_id", type=SOURCE, metavar="SOURCE")
@click.argument("defect", required=False)
@_what_options
@id_option
@click.pass_obj
def suspect(
    state: State, /, source_id: str, defect: str | None, evidence: tuple[Path, ...], event_id: str | None, **said: Any
) -> None:
    """Record a suspicion. It confirms nothing and changes no rating.

    DEFECT is its id from here on; one is made when it is left out.
    """
    uploads, references = stored(evidence)
    with state.open() as ledger:
        first = recorded(ledger.reader, event_id, DefectSuspected)
        payload = made(DefectSuspected, defect=defect or defect_id(first), evidence=references, **said)
        source = listed(ledger, source_id)
        append(state, ledger, source_id, payload, uploads=uploads, event_id=event_id)
        note_unlisted(state, source, source_id)
        note_defect(state, source, payload.defect)


@defects.command(
    "confirm",
    example="""ledger defect confirm MarinSkyRL:svamp half --kind verifier --summary 'rejects 1/2 for 0.5' \\
    --native-input case.json --expected 'reward 1' --observed 'reward 0' \\
    --reproduction 'run the verifier on case.json' --issue-missing""",
)
@click.argument("source_id", type=SOURCE, metavar="SOURCE")
@click.argument("defect", required=False)
@_what_options
@click.option(
    "--native-input",
    "inputs",
    multiple=True,
    required=True,
    type=_files,
    metavar="FILE",
    help="An actual input that fails; may be repeated.",
)
@click.option("--expected", required=True, metavar="TEXT", help="What should have happened.")
@click.option("--observed", required=True, metavar="TEXT", help="What did happen.")
@click.option("--reproduction", required=True, metavar="TEXT", help="How to make it happen again.")
@click.option("--issue", "issue_url", metavar="URL", help="The issue that was filed.")
@click.option("--issue-missing", is_flag=True, help="No issue is filed yet.")
@click.option(
    "--dataset-revision",
    type=REVISION,
    metavar="REVISION",
    help="Where it was seen; the source's present one when left out.",
)
@click.option(
    "--verifier-revision",
    type=REVISION,
    metavar="REVISION",
    help="Where it was seen; the source's present one when left out.",
)
@id_option
@click.pass_obj
def confirm(
    state: State,
    /,
    source_id: str,
    defect: str | None,
    *,
    evidence: tuple[Path, ...],
    inputs: tuple[Path, ...],
    issue_url: str | None,
    issue_missing: bool,
    dataset_revision: str | None,
    verifier_revision: str | None,
    event_id: str | None,
    **said: Any,
) -> None:
    """Confirm a mismatch that was reproduced on native inputs. Good becomes Some issues; Bad stays Bad.

    DEFECT is the id of a suspicion, or of a defect that is new.
    """
    if (issue_url is None) != issue_missing:
        raise click.UsageError("Name the issue with --issue, or say --issue-missing.")
    shown_by, references = stored(evidence)
    native, input_references = stored(inputs)
    with state.open() as ledger:
        first = recorded(ledger.reader, event_id, DefectConfirmed)
        seen_at = first or present_source(ledger, source_id)
        payload = made(
            DefectConfirmed,
            defect=defect or defect_id(first),
            native_inputs=input_references,
            issue_state="missing" if issue_missing else "filed",
            issue_url=issue_url,
            dataset_revision=dataset_revision or dataset_revision_of(seen_at),
            verifier_revision=verifier_revision or verifier_revision_of(seen_at),
            evidence=references,
            **said,
        )
        append(state, ledger, source_id, payload, uploads=[*native, *shown_by], event_id=event_id)


@defects.command(
    "validation",
    example="""ledger defect validation MarinSkyRL:svamp half --evidence verifier.log \\
    --replay passed case.json 'reward 1' 'reward 1' --control passed incorrect 'reward 0' 'reward 0'
ledger defect validation MarinSkyRL:svamp half --evidence verifier.log --from checks.json""",
)
@click.argument("source_id", type=SOURCE, metavar="SOURCE")
@click.argument("defect")
@click.option(
    "--replay",
    "replays",
    multiple=True,
    type=(click.Choice(list(OUTCOMES)), str, str, str),
    metavar="OUTCOME INPUT EXPECTED OBSERVED",
    help="A saved failing input, run again: passed or failed, its file or SHA-256, and two texts. May be repeated.",
)
@click.option(
    "--control",
    "controls",
    multiple=True,
    type=(click.Choice(list(OUTCOMES)), click.Choice(CONTROL_KINDS), str, str),
    metavar="OUTCOME KIND EXPECTED OBSERVED",
    help="An answer whose right treatment is known: incorrect, correct, empty, trivial or perturbed. May be repeated.",
)
@click.option("--from", "from_file", type=_files, metavar="FILE", help="A JSON object with replays, controls and fix.")
@click.option("--fix", metavar="TEXT", help="Where the fix is: a commit or a link.")
@click.option("--dataset-revision", type=REVISION, metavar="REVISION", help="The source's present one when left out.")
@click.option("--verifier-revision", type=REVISION, metavar="REVISION", help="The source's present one when left out.")
@_evidence_option
@id_option
@click.pass_obj
def validation(
    state: State,
    source_id: str,
    defect: str,
    *,
    replays: tuple[tuple[str, str, str, str], ...],
    controls: tuple[tuple[str, str, str, str], ...],
    from_file: Path | None,
    fix: str | None,
    dataset_revision: str | None,
    verifier_revision: str | None,
    evidence: tuple[Path, ...],
    event_id: str | None,
) -> None:
    """Record what a fix was checked against, whatever came out.

    In a FILE, `replays` is a list of {"input", "expected", "observed", "passed"} and `controls` one of {"kind",
    "expected", "observed", "passed"}; an input is a file beside it or a SHA-256.
    """
    checks = Checks() if from_file is None else read_checks(from_file)
    add_flags(checks, replays, controls)
    uploads, references = stored(evidence)
    with state.open() as ledger:
        source = listed(ledger, source_id)
        checked_at = recorded(ledger.reader, event_id, DefectValidationRecorded) or source
        payload = made(
            DefectValidationRecorded,
            defect=defect,
            dataset_revision=dataset_revision or dataset_revision_of(checked_at),
            verifier_revision=verifier_revision or verifier_revision_of(checked_at),
            replays=checks.replays,
            controls=checks.controls,
            fix=fix or checks.fix,
            evidence=references,
        )
        append(state, ledger, source_id, payload, uploads=[*checks.uploads, *uploads], event_id=event_id)
        note_unlisted(state, source, source_id)


@defects.command("resolve", example="ledger defect resolve MarinSkyRL:svamp half")
@click.argument("source_id", type=SOURCE, metavar="SOURCE")
@click.argument("defect")
@click.option(
    "--validation", metavar="EVENT", help="Id of the validation it rests on; the defect's newest when left out."
)
@click.option(
    "--review",
    metavar="SHA256",
    help="The review collection it rests on; when left out, the newest published since that says the issue is fixed.",
)
@click.option("--note", metavar="TEXT")
@id_option
@click.pass_obj
def resolve(
    state: State,
    source_id: str,
    defect: str,
    *,
    validation: str | None,
    review: str | None,
    note: str | None,
    event_id: str | None,
) -> None:
    """Resolve a confirmed defect. A closed issue or a merged fix alone is not enough.

    It rests on a validation at the present revisions and on a review published since. The rating then waits for a new
    publication.
    """
    with state.open() as ledger:
        first = recorded(ledger.reader, event_id, DefectResolved)
        payload = made(
            DefectResolved,
            defect=defect,
            validation=validation
            or (first.validation if first else newest_validation(ledger.reader, source_id, defect)),
            review=review or (first.review if first else review_of_the_fix(ledger.reader, source_id, defect)),
            note=note,
        )
        try:
            append(state, ledger, source_id, payload, uploads=[], event_id=event_id)
        except Refused as error:
            raise _with_choice(error, payload, chosen=review is None) from None


@defects.command(
    "reopen",
    example="ledger defect reopen MarinSkyRL:svamp half --reason 'fails again at 0f3c' --evidence verifier.log",
)
@click.argument("source_id", type=SOURCE, metavar="SOURCE")
@click.argument("defect")
@click.option("--reason", required=True, metavar="TEXT", help="Why it is there again.")
@_evidence_option
@id_option
@click.pass_obj
def reopen(
    state: State, source_id: str, defect: str, *, reason: str, evidence: tuple[Path, ...], event_id: str | None
) -> None:
    """Open a resolved defect again."""
    _append_reason(state, source_id, DefectReopened, defect=defect, reason=reason, evidence=evidence, event_id=event_id)


@defects.command(
    "withdraw", example="ledger defect withdraw MarinSkyRL:svamp half --reason 'the input was edited by hand'"
)
@click.argument("source_id", type=SOURCE, metavar="SOURCE")
@click.argument("defect")
@click.option("--reason", required=True, metavar="TEXT", help="Why it was no defect.")
@_evidence_option
@id_option
@click.pass_obj
def withdraw(
    state: State, source_id: str, defect: str, *, reason: str, evidence: tuple[Path, ...], event_id: str | None
) -> None:
    """Take a suspicion or a confirmation back: it was no defect. The record of it stays."""
    _append_reason(
        state, source_id, DefectWithdrawn, defect=defect, reason=reason, evidence=evidence, event_id=event_id
    )


def _append_reason(
    state: State,
    source_id: str,
    kind: type[DefectReopened | DefectWithdrawn],
    *,
    defect: str,
    reason: str,
    evidence: tuple[Path, ...],
    event_id: str | None,
) -> None:
    """For what is said of a defect with a reason and evidence alone."""
    uploads, references = stored(evidence)
    payload = made(kind, defect=defect, reason=reason, evidence=references)
    with state.open() as ledger:
        append(state, ledger, source_id, payload, uploads=uploads, event_id=event_id)


def _with_choice(error: Refused, resolved: DefectResolved, *, chosen: bool) -> Refused:
    """The refusal; when the review was chosen here, with how to name another."""
    if not chosen or error.reason != "REFUSED_BY_RULES":
        return error
    return Refused(
        error.message,
        remedy=f"{error.remedy} It was judged on the review {resolved.review}; name another with --review.",
        details=error.details,
        problems=error.problems,
    )
