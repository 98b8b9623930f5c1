"""Sending a spool from another process: after its trainer died, or while it records with no ledger in reach."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger.client.connection import Connection
from ledger.client.recording import folders, refusals, segments
from ledger.client.recording.identities import identity_of
from ledger.client.recording.recovery import cursor_place, recover
from ledger.client.recording.reports import RefusedDraft
from ledger.client.recording.sending import Sender
from ledger.client.retry import Patience


@dataclass(frozen=True)
class Synced:
    """What one sync of one spool came to."""

    spool: Path
    run: str
    sent: int
    """Newly recorded by the ledger."""
    known: int
    """The ledger had them: an earlier try had got through."""
    refused: tuple[RefusedDraft, ...]
    """All that the spool's folder holds, of earlier tries too."""
    newly_refused: tuple[RefusedDraft, ...]
    left: int
    """Drafts that are not answered: a recorder is still writing."""
    recording: bool
    """A recorder holds the spool open."""

    @property
    def moved(self) -> bool:
        """Whether this sync did anything."""
        return bool(self.sent or self.known or self.newly_refused)

    def to_dict(self) -> dict[str, Any]:
        return {
            "spool": str(self.spool),
            "run": self.run,
            "sent": self.sent,
            "known": self.known,
            "refused": [
                {"id": r.id, "type": r.type, "reason": r.reason, "message": r.message, "remedy": r.remedy}
                | {"file": str(r.file)}
                for r in self.refused
            ],
            "left": self.left,
            "recording": self.recording,
        }


def sync(folder: Path, connection: Connection, *, patience: Patience | None = None) -> Synced:
    """Sends what the spool holds.

    Where no recorder has it open any more, an epoch that a crash cut short is ended first, and nothing stays behind.

    Raises:
        LedgerError: reason INVALID_FILE if it is no spool; IN_USE if another process is sending it, as a recorder does
            that knows its ledger; or why it could not be sent.
    """
    identity = identity_of(folder)
    with _locked(folder, "sender") as mine:
        if not mine:
            raise folders.in_use(folder, "sender")
        with _locked(folder, "writer") as alone:
            if alone:
                recover(folder, identity)
            refused: list[RefusedDraft] = []
            sender = Sender(
                folder, connection, patience or Patience(), on_refused=lambda one, _producer: refused.append(one)
            )
            sender.send()
            left = waiting(folder)
            if alone and not left:
                sender.delete_answered()
    sent = sender.sent
    fresh = sent.answered - sent.known - sent.refused
    return Synced(
        folder, identity.run, fresh, sent.known, tuple(refusals.kept(folder)), tuple(refused), left, not alone
    )


def waiting(folder: Path) -> int:
    """The whole drafts in a spool that are not answered."""
    place = cursor_place(folders.read(folder / "cursor.json"))
    there = [n for n in segments.numbers(folder) if n >= place.segment]
    return sum(segments.tail(segments.path(folder, n), place.offset if n == place.segment else 0).frames for n in there)


@contextlib.contextmanager
def _locked(folder: Path, role: str) -> Iterator[bool]:
    """Holds a lock for a while, if nobody else does."""
    lock = folders.Lock(folder, role)
    taken = lock.take()
    try:
        yield taken
    finally:
        lock.release()
