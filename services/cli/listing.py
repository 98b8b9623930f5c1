"""The source that a fact is about, as the catalogue lists it now. A fact is recorded also when it does not."""

from __future__ import annotations

from ledger.core.errors import NotFound
from ledger.wire import audit_pb2
from services.cli.state import Ledger, State


def listed(ledger: Ledger, source_id: str) -> audit_pb2.Source | None:
    """The source as it stands; None if there is no such source."""
    try:
        return ledger.reader.source(source_id, min_size=ledger.reader.info().size).source
    except NotFound:
        return None


def note_unlisted(state: State, source: audit_pb2.Source | None, source_id: str) -> None:
    """Says so when the catalogue has no such source: a slip of the pen would look the same."""
    if source is None:
        state.output.say(f"Note: no such source in the catalogue: {source_id}")


def note_defect(state: State, source: audit_pb2.Source | None, defect: str) -> None:
    """Says so when a suspicion is of a defect that is past that."""
    for found in () if source is None else (*source.open_defects, *source.resolved_defects):
        if found.id == defect:
            state.output.say(f"Note: the defect {defect} is {found.status} already.")
