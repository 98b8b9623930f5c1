"""What an export tells the ledger, and what it asks first.

An event's id is made from what it says, and from the event that it comes after: a start, a completion and a
verification after the last failure; a verification also after the last completion; a failure after the last of the
others. So repeating an export records nothing twice, and one that is tried again after a failure says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from ledger.client.drafts import Publication, draft
from ledger.client.runs import Runs
from ledger.client.writer import raise_refused
from ledger.core import clock
from ledger.core.errors import NotFound, Refused
from ledger.core.ids import digest_id
from ledger.core.text import harmless
from ledger.events import REGISTRY
from ledger.events.checkpoints import FileDigest
from ledger.events.exports import ExportCompleted
from services.cli import words
from services.cli.catalogue_state import header_of
from services.cli.coordinates import Where
from services.cli.disregarded import disregarded
from services.cli.models import made
from services.cli.renewing import renewed
from services.cli.republishing import recorded_before, without
from services.cli.state import Ledger, State
from services.exporter.checkpoints import Source
from services.exporter.provenance import Told

_COMES_AFTER: Final = {
    "export.started": {"export.failed"},
    "export.completed": {"export.failed"},
    "export.verified": {"export.completed", "export.failed"},
    "export.failed": {"export.started", "export.completed", "export.verified"},
}


@dataclass
class Records:
    """The events of one export. The ledger is open for each alone: the work between takes long."""

    state: State
    export_id: str
    events: list[dict[str, Any]] = field(default_factory=list)
    """What was recorded, or had been."""

    def record(self, *told: Told) -> None:
        """Appends them in turn, unless the ledger has them.

        Raises:
            LedgerError: if the ledger cannot be reached, or refuses one.
        """
        with self.state.open() as ledger:
            for type_, said in told:
                self.events.append(self._append(ledger, type_, said))

    @property
    def all_known(self) -> bool:
        return bool(self.events) and all(event["already_recorded"] for event in self.events)

    def _append(self, ledger: Ledger, type_: str, said: dict[str, Any]) -> dict[str, Any]:
        payload = made(REGISTRY.latest(type_).model, **said)
        stream = f"export/{self.export_id}"
        words_ = payload.model_dump_json(exclude_defaults=True)
        id_ = digest_id("export-event", stream, type_, words_, _last(ledger, stream, _COMES_AFTER[type_]))
        planned = draft(type_, stream, payload, by=self.state.by, id=id_, occurred_at_us=clock.system_clock())
        publication = renewed(ledger.reader, Publication(parts=(planned,), summary=type_)).publication
        known = recorded_before(ledger.reader, publication)
        rest = without(publication, known)
        receipts = ledger.writer.publish(rest) if rest.drafts else []
        raise_refused(rest.drafts, receipts)
        (sent,) = publication.drafts
        pos = receipts[0].pos if receipts else known[sent.id].pos
        return {"type": type_, "stream": stream, "id": sent.id, "pos": pos, "already_recorded": not receipts}


def check_known(state: State, source: Source, *, run_id: str, step: int, force: bool) -> list[str]:
    """Compares the checkpoint with those of the run that the ledger knows by now; gives what has to be told.

    Raises:
        Refused: reason CONDITION_FAILED, if it knows other bytes of this step, and they are not forced.
    """
    with state.open() as ledger:
        try:
            found = Runs(ledger.connection).run(run_id, Where().coordinates(ledger))
        except NotFound:
            return [
                f"The ledger knows no run {run_id}: what is recorded says where the export comes from all the same."
            ]
    digests = [c.digest for c in found.run.checkpoints if c.step == step and c.HasField("digest")]
    if source.digest in digests:
        return []
    if not digests:
        return [f"The ledger knows no digest of a checkpoint of {run_id} at step {step}."]
    told = (
        f"the ledger knows {words.counted(len(digests), 'checkpoint')} of {run_id} at step {step}, and this is none of "
        f"them: it is {source.digest}, and there {'is' if len(digests) == 1 else 'are'} {', '.join(digests)}"
    )
    if not force:
        raise Refused(
            told,
            reason="CONDITION_FAILED",
            remedy="Export the checkpoint that was recorded: this folder was saved again, changed or moved in. With "
            "--force it is exported all the same, under its own digest.",
            details={"digest": source.digest, "recorded": ", ".join(digests)},
        )
    return [f"WARNING: {told}."]


def completed_files(state: State, export_id: str) -> list[FileDigest]:
    """The files of an export as they were completed last.

    Raises:
        NotFound: if no completion counts, or it names no files.
    """
    files: list[FileDigest] = []
    with state.open() as ledger:
        gone = disregarded(ledger.reader)
        for event in ledger.reader.events(streams=[f"export/{export_id}"], types=["export.completed"]):
            header = header_of(event)
            if (event.pos, str(header["id"])) in gone or not event.HasField("payload"):
                continue
            said = REGISTRY.read("export.completed", header["tv"], event.payload)
            files = list(said.files) if isinstance(said, ExportCompleted) else files
    if not files:
        raise NotFound(
            f"the ledger has no files of the export {harmless(export_id)}",
            remedy="Name one whose completion was recorded with its files; `ledger run show` lists a run's exports.",
            details={"export": export_id},
        )
    return files


def _last(ledger: Ledger, stream: str, types: set[str]) -> str | None:
    found = [str(header_of(event)["id"]) for event in ledger.reader.events(streams=[stream], types=sorted(types))]
    return found[-1] if found else None
