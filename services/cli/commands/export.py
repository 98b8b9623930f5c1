"""ledger export: a checkpoint as a model that others can load, and whether an exported model is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from ledger.client.exports.checks import Checked, check_export
from ledger.client.exports.places import Place, place
from ledger.client.exports.recorded import export_failed
from ledger.client.recording.files import Files, digest_of
from ledger.core.errors import REASONS, LedgerError
from ledger.events.checkpoints import FileDigest
from services.cli import export_pages
from services.cli.export_records import Records, check_known, completed_files
from services.cli.options import RUN, Group
from services.cli.output import Output
from services.cli.state import State
from services.exporter import architectures, provenance, signatures
from services.exporter.checkpoints import Source, read_source
from services.exporter.exporting import MAX_SHARD_BYTES, Export, Exported, Request, beside, target
from services.exporter.provenance import Route

FAILED: Final = REASONS["VERIFICATION_FAILED"].exit
_FILE: Final = click.Path(path_type=Path, dir_okay=False)


@click.group("export", cls=Group, example="ledger export verify exports/step-40")
def export() -> None:
    """Models for others to load: made from a checkpoint, or checked wherever they lie."""


@export.command(
    "model",
    example="""ledger export model run/checkpoints/global_step_40 --to exports/step-40
ledger export model global_step_15 --to s3://models/arm-3 --run arm-3 --base Qwen3-8B --dtype bfloat16
ledger export model global_step_15 --to exports/arm-3 --no-record --sign key.pem --receipt consumption.json""",
)
@click.argument("checkpoint", type=click.Path(path_type=Path), metavar="CHECKPOINT")
@click.option(
    "--to", required=True, metavar="PATH|URL", help="Where the model goes; it appears there when it is whole."
)
@click.option(
    "--base",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="The model that training began with: compared with; its configuration and tokenizer, if there are no others.",
)
@click.option("--prefix", metavar="TEXT", help="What stands before the model's names in the save; found if left out.")
@click.option(
    "--dtype", type=click.Choice(["bfloat16", "float32"]), help="Cast floating-point tensors; as saved if left out."
)
@click.option("--step", type=click.IntRange(0), metavar="N", help="Its step, where its state and its name differ.")
@click.option("--run", type=RUN, metavar="ID", help="The run that it is of, where its own state does not say.")
@click.option("--id", "export_id", metavar="ID", help="The export's id; made from run, step and digest if left out.")
@click.option(
    "--route",
    type=click.Choice(["in_trainer", "rerun", "offline"]),
    default="offline",
    show_default=True,
    help="How it is to be called: this command converts files, which is offline.",
)
@click.option("--route-note", metavar="TEXT", help="Why it is called so.")
@click.option(
    "--max-shard-bytes",
    type=click.IntRange(1),
    default=MAX_SHARD_BYTES,
    show_default=True,
    metavar="N",
    help="Most bytes of tensors in one file.",
)
@click.option("--replace", is_flag=True, help="Remove other files that are at the place.")
@click.option("--force", is_flag=True, help="Also a checkpoint of another digest than the ledger knows.")
@click.option("--trust-pickles", is_flag=True, help="Load an index of the save that may run any program.")
@click.option("--no-record", is_flag=True, help="Tell no ledger.")
@click.option("--sign", "key", type=_FILE, metavar="KEY.pem", help="Sign the model with this private key (EC P-256).")
@click.option("--signature", type=_FILE, metavar="FILE", help="Where the signature goes; PATH.sig if left out.")
@click.option(
    "--receipt", type=_FILE, metavar="FILE", help="What `ledger check --receipt` wrote: it goes with the model."
)
@click.pass_obj
def model(
    state: State,
    /,
    checkpoint: Path,
    *,
    run: str | None,
    export_id: str | None,
    step: int | None,
    route: Route,
    route_note: str | None,
    force: bool,
    no_record: bool,
    **asked: Any,
) -> None:
    """Export a checkpoint of torch.distributed.checkpoint as safetensors shards with an index.

    The checkpoint is read tensor by tensor and never written to. Nothing appears at the place unless every check held
    and every tensor has the checkpoint's bytes. Repeating it is safe.
    """
    request = Request(**asked)
    if route != "offline" and route_note is None:
        raise click.UsageError(
            "--route: this command converts files; say with --route-note why it is called otherwise."
        )
    architectures.require()
    _check_signing(request)
    source = read_source(checkpoint, step=step)
    target(source, request)
    records = None
    if not no_record:
        by_run, at_step = _whose(source, run)
        id_ = export_id or provenance.export_id_of(by_run, at_step, source.digest)
        for note in check_known(state, source, run_id=by_run, step=at_step, force=force):
            state.output.say(note)
        records = Records(state, id_)
        start = provenance.started(
            id_, source, run_id=by_run, step=at_step, route=route, route_note=route_note, base=request.base
        )
        records.record(start)
    exported = _run(state.output, Export(source, request), records)
    if records is not None:
        done = provenance.completed(records.export_id, exported)
        checked = provenance.verified(records.export_id, exported.checked, exported.files, base=request.base)
        _record_rest(state.output, records, [done, checked], exported.location)
    _tell_exported(state.output, exported, run or source.run_id, source.step, records)


@export.command(
    "verify",
    example="""ledger export verify exports/step-40
ledger export verify s3://models/arm-3 --base Qwen3-8B --expect-dtype BF16
ledger export verify exports/step-40 --export arm-3-step-40-1f2e3d4c --record
ledger export verify exports/step-40 --public-key pub.pem""",
)
@click.argument("where", metavar="PATH|URL")
@click.option("--base", metavar="PATH|URL", help="The model that training began with: compared with.")
@click.option(
    "--expect-dtype",
    "dtypes",
    multiple=True,
    metavar="TYPE",
    help="A type that tensors may have; the base's if left out.",
)
@click.option("--export", "export_id", type=RUN, metavar="ID", help="Compare the files with those recorded of it.")
@click.option("--record", is_flag=True, help="Record the verdict; the ledger judges it.")
@click.option("--public-key", type=_FILE, metavar="PUB.pem", help="Check the model's signature too.")
@click.option("--signature", type=_FILE, metavar="FILE", help="Where the signature is; PATH.sig if left out.")
@click.pass_obj
def verify(
    state: State,
    where: str,
    *,
    base: str | None,
    dtypes: tuple[str, ...],
    export_id: str | None,
    record: bool,
    public_key: Path | None,
    signature: Path | None,
) -> int:
    """Check an exported model by its index and headers: nine checks, each failure with tensor and file.

    It may be anyone's, in a folder or an object store. Exit code 0: nothing failed; 3: a check failed, or the signature
    does not hold. What could not be checked says why.
    """
    if record and export_id is None:
        raise click.UsageError("--record: say of which export, with --export ID.")
    if signature is not None and public_key is None:
        raise click.UsageError("--signature: give the --public-key to check it with.")
    if public_key is not None:
        signatures.require()
    at = place(where)
    files = completed_files(state, export_id) if export_id is not None else []
    checked = check_export(at, base=None if base is None else place(base), dtypes=dtypes, files=files)
    broken = _broken_signature(at, public_key, signature)
    records = None
    if record and export_id is not None:
        records = Records(state, export_id)
        told = _verdict(export_id, checked, files, base)
        if told is not None:
            records.record(told)
    _tell_checked(state.output, checked, records, broken, signed=public_key is not None)
    return FAILED if checked.failed or broken is not None else 0


def _check_signing(request: Request) -> None:
    """Whatever stands against a signature is said before anything is read."""
    if request.key is None:
        if request.signature is not None:
            raise click.UsageError("--signature: give the key with --sign.")
        return
    signatures.require()
    signatures.check_key(request.key, public=False)
    if request.signature is None:
        beside(place(request.to))


def _whose(source: Source, run: str | None) -> tuple[str, int]:
    """The run and the step that the ledger is told."""
    run_id = run or source.run_id
    if run_id is None or source.step is None:
        missing = "--run" if run_id is None else "--step"
        raise click.UsageError(f"The checkpoint does not say it: give {missing}, or --no-record to tell no ledger.")
    if source.run_id is not None and run_id != source.run_id:
        raise click.UsageError(f"--run says {run_id}, and the checkpoint is of {source.run_id}.")
    return run_id, source.step


def _run(out: Output, work: Export, records: Records | None) -> Exported:
    """Exports; what fails is recorded, and raised."""
    try:
        return work.run()
    except (Exception, KeyboardInterrupt) as error:
        if records is not None:
            try:
                records.record(provenance.failed(records.export_id, work, error))
            except LedgerError as unrecorded:
                out.say(f"That it failed could not be recorded: {unrecorded.message}")
        raise


def _record_rest(out: Output, records: Records, told: list[provenance.Told], location: str) -> None:
    try:
        records.record(*told)
    except LedgerError:
        out.say(
            f"The export is whole, at {location}; not all of it is recorded. The same command again records the rest."
        )
        raise


def _broken_signature(at: Place, public_key: Path | None, signature: Path | None) -> LedgerError | None:
    """What does not hold of the signature, if one is asked for."""
    if public_key is None:
        return None
    try:
        signatures.verify(at, public_key, signature or beside(at))
    except LedgerError as error:
        if error.door.exit != FAILED:
            raise
        return error
    return None


def _verdict(export_id: str, checked: Checked, files: list[FileDigest], base: str | None) -> provenance.Told | None:
    """What the ledger is told of it; None: nothing failed, and not all was checked that must be."""
    if checked.failed:
        said = export_failed(export_id, stage="verify", reason=checked.why_not, failed_checks=checked.failed)
        return "export.failed", said
    if not checked.is_verified:
        return None
    return provenance.verified(export_id, checked, _as_read(files), base=None if base is None else Path(base))


def _as_read(files: list[FileDigest]) -> Files | None:
    """The recorded files, which the check of their digests found as they are."""
    ordered = tuple(sorted(files, key=lambda file: file.path.encode()))
    return Files(ordered, digest_of(ordered)) if all(file.sha256 is not None for file in ordered) else None


def _tell_exported(
    out: Output, exported: Exported, run_id: str | None, step: int | None, records: Records | None
) -> None:
    events = [] if records is None else records.events
    if out.as_json:
        out.json(
            {
                "export_id": None if records is None else records.export_id,
                "run_id": run_id,
                "step": step,
                **export_pages.exported_dict(exported),
                "recorded": events,
            }
        )
        return
    named = [] if records is None else [("export", records.export_id)]
    out.pairs([*named, *export_pages.exported_pairs(exported)])
    export_pages.show_checks(out, exported.checked)
    for note in exported.notes:
        out.say(f"Note: {note}")
    out.say(_conclusion(exported.location, records))


def _conclusion(location: str, records: Records | None) -> str:
    if records is None:
        return f"Exported to {location} and verified there; no ledger was told."
    if records.all_known:
        return f"It is at {location} as it was exported before; all of it was recorded already."
    positions = ", ".join(f"{event['type']} at {event['pos']}" for event in records.events)
    return f"Exported to {location} and verified there; recorded {positions}."


def _tell_checked(
    out: Output, checked: Checked, records: Records | None, broken: LedgerError | None, *, signed: bool
) -> None:
    holds = None if not signed else broken is None
    if out.as_json:
        events = [] if records is None else records.events
        told = {"signature_holds": holds, "signature_error": None if broken is None else broken.to_dict()}
        out.json({**export_pages.as_dict(checked), **told, "recorded": events})
        return
    export_pages.show_checks(out, checked)
    out.pairs(export_pages.facts(checked))
    if holds is not None:
        out.pairs([("signature", "holds" if broken is None else broken.message)])
    for event in () if records is None else records.events:
        done = "Already recorded" if event["already_recorded"] else "Recorded"
        out.say(f"{done} as {event['type']} of {event['stream']}, at position {event['pos']}.")
    if checked.is_verified:
        out.say(f"{checked.location} is whole.")
    elif checked.failed:
        out.say(f"{checked.location} is not whole: {checked.why_not}")
    else:
        out.say(f"Nothing failed at {checked.location}, and not all could be checked: {checked.why_not}")
