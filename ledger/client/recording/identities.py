"""Whose spool it is: the producer that counts in it, the run that it tells of, and who records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ledger.client.drafts import draft
from ledger.client.recording import folders
from ledger.client.recording.packing import Halves
from ledger.client.recording.tallies import Tally
from ledger.core import clock
from ledger.core.errors import InvalidInput
from ledger.core.ids import new_id
from ledger.wire import log_pb2


@dataclass(frozen=True)
class Identity:
    """Whose spool it is."""

    producer: str
    run: str
    actor: log_pb2.Actor

    @property
    def stream(self) -> str:
        return f"run/{self.run}"

    def report(self, tally: Tally, epoch: int, last_seq: int, *, closed: bool) -> Halves:
        """A draft of what became of an epoch's events, less its count."""
        said = tally.reported(self.run, self.producer, epoch, last_seq, closed=closed)
        made = draft("recording.reported", self.stream, said, by=self.actor, occurred_at_us=clock.system_clock())
        return Halves(made.SerializeToString(), b"")


def identity_of(folder: Path) -> Identity:
    """Whose spool it is.

    Raises:
        InvalidInput: reason INVALID_FILE, if it is none, or one of another release's format.
    """
    saved = folders.read(folder / "spool.json")
    if not saved:
        raise folders.no_spool(folder)
    if saved.get("format") != folders.FORMAT:
        raise InvalidInput(
            f"the spool {folder} has the format {saved.get('format')!r}; this release knows {folders.FORMAT}",
            reason="INVALID_FILE",
            remedy="Use the release that wrote it.",
        )
    by = log_pb2.Actor(id=saved["actor"], kind=saved["actor_kind"])
    return Identity(saved["producer"], saved["run"], by)


def made_for(folder: Path, run: str, by: log_pb2.Actor, rank: int) -> Identity:
    """As the folder says; an empty folder becomes a spool."""
    if not folders.is_spool(folder):
        producer = f"{new_id()}.rank{rank}" if rank else new_id()
        saved = {"format": folders.FORMAT, "producer": producer, "run": run, "actor": by.id, "actor_kind": by.kind}
        folders.write(folder / "spool.json", saved, durable=True)
    found = identity_of(folder)
    if found.run != run:
        raise InvalidInput(
            f"the spool {folder} holds what the run {found.run!r} recorded, not {run!r}",
            reason="INVALID_FILE",
            remedy="Give each run a spool of its own.",
        )
    return Identity(found.producer, run, by)
