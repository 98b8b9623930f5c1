"""What was attested of a source before: the latest attestation of a kind and subject, and the one that counts."""

from __future__ import annotations

from collections.abc import Iterable

from ledger.client.attestations import Claim, Previous
from ledger.client.reader import Reader
from ledger.events import REGISTRY
from ledger.events.attestations import AttestationRecorded
from services.cli.catalogue_state import header_of
from services.cli.disregarded import disregarded


def attested_before(reader: Reader, claim: Claim, source_ids: Iterable[str]) -> dict[str, Previous]:
    """What the ledger has of the claim's kind and subject, by source.

    One whose payload is gone says of which subject it was no more, so that it is passed over.
    """
    gone = disregarded(reader)
    found: dict[str, Previous] = {}
    streams = [f"source/{source_id}" for source_id in source_ids]
    for event in reader.events(streams=streams, types=["attestation.recorded"]) if streams else ():
        if not event.HasField("payload"):
            continue
        header = header_of(event)
        said = REGISTRY.read(header["type"], header["tv"], event.payload)
        assert isinstance(said, AttestationRecorded)
        if (said.kind, said.subject) != (claim.kind, claim.subject):
            continue
        source_id, event_id = str(header["stream"]).partition("/")[2], str(header["id"])
        before = found[source_id].standing if source_id in found else None
        counts = (event.pos, event_id) not in gone
        found[source_id] = Previous(event_id, (event_id, said) if counts else before)
    return found
