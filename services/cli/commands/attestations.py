"""ledger attest: evidence that code, data or grading is unchanged, or that it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click
from pydantic import ValidationError

from ledger.client import attestations as claims
from ledger.client.attestations import Claim, plan_attestations
from ledger.client.drafts import Upload
from ledger.client.evidence import upload_of
from ledger.client.messages import coordinates_dict
from ledger.core.errors import InvalidInput, Problem
from ledger.core.strictjson import pointer
from ledger.events.attestations import ChangeValidation, ExecutionImplementation, Selection
from ledger.events.fields import ArtifactRef, Person
from ledger.events.wording import words
from ledger.wire import audit_pb2
from services.cli.attestation_history import attested_before
from services.cli.coordinates import Where, standing
from services.cli.listing import listed, note_unlisted
from services.cli.models import made
from services.cli.options import REVISION, SOURCE, Function, Group, dry_run_option, where_options, with_options
from services.cli.output import Cell, Output
from services.cli.publishing import publish_once
from services.cli.questions import source_as_of
from services.cli.state import State

CHANGED: Final = 5
"""The exit code of a comparison that differs: a fact that is recorded, and supports nothing."""
_file = click.Path(path_type=Path)


def _record_options(function: Function) -> Function:
    """Of which sources, and when."""
    return with_options(
        function,
        function,
        click.option(
            "--source",
            "source_ids",
            multiple=True,
            type=SOURCE,
            metavar="ID",
            help="Of this source; repeat it to attest the same of several.",
        ),
        click.option("--attested-at", metavar="TIME", help="When it was attested, RFC 3339; unknown when left out."),
        dry_run_option,
    )


@click.group(
    "attest",
    cls=Group,
    example="ledger attest implementation old/make_review.py make_review.py --roots load_tasks --no-record",
)
def attestations() -> None:
    """Evidence that code, data or grading is unchanged, or that it is not."""


@attestations.command(
    "implementation",
    example="""ledger attest implementation old/make_review.py make_review.py \\
    --roots load_tasks,launch_worker --source MarinSkyRL:svamp""",
)
@click.argument("old", type=_file)
@click.argument("new", type=_file)
@click.option(
    "--roots", required=True, metavar="NAMES", help="Functions, classes or Class.method, with commas between them."
)
@click.option("--script", metavar="NAME", help="What the script is called; the name of the NEW file when left out.")
@click.option(
    "--validated",
    "validated",
    multiple=True,
    type=_file,
    metavar="FILE",
    help="Evidence that changed code was validated.",
)
@click.option("--note", metavar="TEXT", help="What was run to validate it, and what it showed.")
@click.option("--no-record", is_flag=True, help="Compare, and record nothing.")
@_record_options
@click.pass_obj
def implementation(
    state: State,
    /,
    old: Path,
    new: Path,
    *,
    roots: str,
    script: str | None,
    validated: tuple[Path, ...],
    note: str | None,
    no_record: bool,
    **record: Any,
) -> int:
    """Compare what OLD and NEW run under some roots: parsed definitions, with what they mention and import.

    Comments, format and docstrings count for nothing. A comparison that differs is recorded too, with exit code 5: it
    supports no unchanged execution until the changed code is validated.
    """
    if bool(validated) != bool(note):
        raise click.UsageError("A validation is evidence and what it showed: name both --validated and --note.")
    if not no_record and not record["source_ids"]:
        raise click.UsageError("Name the sources with --source, or only compare, with --no-record.")
    uploads = [upload_of(file) for file in validated]
    validation = _validation(state, validated, uploads, note) if note else None
    claim = claims.implementation_claim(
        old, new, _names(roots, "--roots"), script=script, validation=validation, validated=uploads
    )
    assert isinstance(claim.said, ExecutionImplementation)
    if no_record:
        _show_comparison(state.output, claim.said, as_json=state.output.as_json)
    else:
        _show_comparison(state.output, claim.said, as_json=False)
        _record(state, claim, **record)
    return _conclude(state.output, claim, validated=validation is not None)


@attestations.command(
    "dataset",
    example="""ledger attest dataset --source MarinSkyRL:svamp --executed-revision a1b2 --current-revision c3d4 \\
    old/train.parquet new/train.parquet""",
)
@click.argument("files", nargs=-1, required=True, type=_file, metavar="OLD_FILE NEW_FILE...")
@click.option("--executed-revision", required=True, type=REVISION, metavar="REVISION", help="That was reviewed.")
@click.option("--current-revision", required=True, type=REVISION, metavar="REVISION", help="That it is compared with.")
@click.option("--name", "names", multiple=True, metavar="PATH", help="Of a pair in the data set; one a pair, in order.")
@click.option("--selector-old", metavar="TEXT", help="Which rows of the files made up the source.")
@click.option("--selector-new", metavar="TEXT", help="Which rows do now.")
@click.option("--rows-old", type=click.IntRange(0), metavar="N", help="How many rows were selected.")
@click.option("--rows-new", type=click.IntRange(0), metavar="N", help="How many are now.")
@click.option("--rows-sha256-old", metavar="SHA256", help="Over the identities of the selected rows, in order.")
@click.option("--rows-sha256-new", metavar="SHA256", help="The same now.")
@_record_options
@click.pass_obj
def dataset(
    state: State,
    /,
    files: tuple[Path, ...],
    *,
    executed_revision: str,
    current_revision: str,
    names: tuple[str, ...],
    source_ids: tuple[str, ...],
    attested_at: str | None,
    dry_run: bool,
    **selection: Any,
) -> int:
    """Compare a source's data files at two revisions, pair by pair, by their bytes. The files are hashed here.

    Without a selection the source is the whole of its files.
    """
    claim = _checked(
        claims.dataset_claim, executed_revision, current_revision, _pairs(files, names), _selection(**selection)
    )
    _record(state, claim, source_ids=source_ids, attested_at=attested_at, dry_run=dry_run)
    return _conclude(state.output, claim)


@attestations.command(
    "native",
    example="""ledger attest native --source MarinSkyRL:svamp --checkout ../MarinSkyRL --reviewed 0f3c9d1 \\
    --registry 72741b5 --paths infra/rl_data/sources.py,skyrl-gym/skyrl_gym""",
)
@click.option("--checkout", required=True, type=_file, metavar="DIR", help="A git checkout that has both commits.")
@click.option("--reviewed", required=True, metavar="COMMIT", help="The commit that was executed.")
@click.option("--registry", required=True, metavar="COMMIT", help="The commit that the catalogue names.")
@click.option("--paths", required=True, metavar="PATHS", help="Files and folders to compare, with commas between them.")
@click.option("--dirty", "dirty_too", is_flag=True, help="Record a checkout with uncommitted changes as dirty.")
@_record_options
@click.pass_obj
def native(
    state: State, /, *, checkout: Path, reviewed: str, registry: str, paths: str, dirty_too: bool, **record: Any
) -> int:
    """Compare the git objects of a verifier's paths at two commits."""
    claim = claims.native_claim(checkout, reviewed, registry, _names(paths, "--paths"), dirty_too=dirty_too)
    _record(state, claim, **record)
    return _conclude(state.output, claim)


@attestations.command("grading", example="ledger attest grading --source MarinSkyRL:svamp grading-applicability.json")
@click.argument("file", type=_file)
@_record_options
@click.pass_obj
def grading(state: State, /, file: Path, **record: Any) -> int:
    """Record a prepared comparison of a native execution with a grading manifest."""
    claim = claims.grading_claim(file)
    _record(state, claim, **record)
    return _conclude(state.output, claim)


@attestations.command("list", example="ledger attest list MarinSkyRL:svamp --at 2026-10-01")
@click.argument("source_id", type=SOURCE, metavar="SOURCE")
@where_options
@click.pass_obj
def list_(state: State, source_id: str, *, where: Where) -> None:
    """List the standing attestations that bear on a source, what each found, and whether it is honoured."""
    with state.open() as ledger:
        answer = source_as_of(ledger, source_id, where.coordinates(ledger))
    out = state.output
    found = answer.source.attestations
    if out.as_json:
        out.json([_attestation_dict(a) | coordinates_dict(answer.coordinates) for a in found])
        return
    out.table(
        ["pos", "kind", "finding", "honoured", "subject", "scope"],
        [[a.pos, a.kind, a.finding, "yes" if a.honoured else "no", a.subject, a.scope] for a in found],
        whole=("pos", "kind", "finding"),
        spare=("scope",),
    )
    count = f"{len(found)} attestation{'' if len(found) == 1 else 's'}"
    out.say(f"{count}. {standing(answer.coordinates, where.at)}.")


def _attestation_dict(found: audit_pb2.Attestation) -> dict[str, Any]:
    return {name: getattr(found, name) for name in ("kind", "subject", "finding", "scope", "pos", "honoured")}


def _record(state: State, claim: Claim, *, source_ids: tuple[str, ...], attested_at: str | None, dry_run: bool) -> None:
    if not source_ids:
        raise click.UsageError("Name the sources that it is of, with --source.")
    _checked(plan_attestations, claim, source_ids, by=state.by, attested_at=attested_at)
    with state.open() as ledger:
        found = [(source_id, listed(ledger, source_id)) for source_id in dict.fromkeys(source_ids)]
        publication = plan_attestations(
            claim,
            source_ids,
            by=state.by,
            attested_at=attested_at,
            previous=attested_before(ledger.reader, claim, source_ids),
        )
        publish_once(state, ledger, publication, dry_run=dry_run)
    for source_id, source in found:
        note_unlisted(state, source, source_id)


def _conclude(out: Output, claim: Claim, *, validated: bool = False) -> int:
    """Says what the comparison cannot support; the exit code."""
    if not claim.differences:
        return 0
    if validated:
        out.say(f"{claim.subject} is {claim.finding}. The change is recorded as validated.")
        return 0
    out.say(f"{claim.subject} is {claim.finding}. It cannot support that nothing changed.")
    return CHANGED


def _show_comparison(out: Output, said: ExecutionImplementation, *, as_json: bool) -> None:
    if as_json:
        out.json(said.model_dump(mode="json"))
    elif not out.as_json:
        out.table(["definition", "found"], [[d.name, _found(d)] for d in said.definitions], whole=("found",))


def _found(definition: Any) -> Cell:
    before, after = definition.original_sha256, definition.executed_sha256
    if before == after:
        return "unchanged"
    if before is None:
        return "only in NEW"
    return "changed" if after is not None else "only in OLD"


def _names(text: str, flag: str) -> list[str]:
    names = [name for part in text.split(",") if (name := part.strip())]
    if not names:
        raise click.UsageError(f"{flag} names nothing.")
    return names


def _validation(state: State, files: tuple[Path, ...], uploads: list[Upload], note: str) -> ChangeValidation:
    by, kind = state.settings.text("actor"), state.settings.text("actor_kind")
    evidence = [
        made(ArtifactRef, name=f"validation/{file.name}", sha256=upload.sha256, size=upload.size)
        for file, upload in zip(files, uploads, strict=True)
    ]
    return made(ChangeValidation, evidence=evidence, validated_by=made(Person, id=by, label=by, kind=kind), note=note)


def _pairs(files: tuple[Path, ...], names: tuple[str, ...]) -> list[tuple[str, Path, Path]]:
    if len(files) % 2:
        raise click.UsageError("Name the files in pairs: the one that was executed, then the one of now.")
    pairs = list(zip(files[::2], files[1::2], strict=True))
    named = names or tuple(current.name for _, current in pairs)
    if len(named) != len(pairs) or len(set(named)) != len(named):
        raise click.UsageError("Name each pair, as the data set does: one --name a pair, in order, all different.")
    return [(name, *pair) for name, pair in zip(named, pairs, strict=True)]


def _selection(
    *,
    selector_old: str | None,
    selector_new: str | None,
    rows_old: int | None,
    rows_new: int | None,
    rows_sha256_old: str | None,
    rows_sha256_new: str | None,
) -> Selection | None:
    needed = (selector_old, selector_new, rows_old, rows_new)
    if all(value is None for value in (*needed, rows_sha256_old, rows_sha256_new)):
        return None
    if any(value is None for value in needed):
        raise click.UsageError(
            "A selection has both sides: name --selector-old, --selector-new, --rows-old and --rows-new."
        )
    return made(
        Selection,
        executed_selector=selector_old,
        current_selector=selector_new,
        executed_rows=rows_old,
        current_rows=rows_new,
        executed_rows_sha256=rows_sha256_old,
        current_rows_sha256=rows_sha256_new,
    )


def _checked(function: Any, *args: Any, **kwargs: Any) -> Any:
    """What the function gives; a value that no event takes is a usage error that names the field.

    Raises:
        InvalidInput: reason USAGE.
    """
    try:
        return function(*args, **kwargs)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
    raise InvalidInput(
        "an attestation cannot say that",
        reason="USAGE",
        remedy="Correct the value; --help says what each option takes.",
        problems=[Problem(pointer(*f["loc"]), words(f)) for f in found],
    )
