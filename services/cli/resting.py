"""The attestations that a publication rests on: each is one of the source, and none shows a change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ledger.client.attested import differences
from ledger.client.reader import Reader
from ledger.core.errors import NotFound, Problem, Refused
from ledger.events import REGISTRY
from ledger.events.attestations import AttestationRecorded
from services.cli.catalogue_state import header_of
from services.cli.disregarded import Disregarded, disregarded


def check_rests_on(reader: Reader, source_id: str, event_ids: Iterable[str]) -> None:
    """Looks at every attestation that is named.

    Raises:
        Refused: with everything that speaks against resting on them.
    """
    named = list(event_ids)
    gone = disregarded(reader) if named else {}
    problems = [problem for event_id in named for problem in _against(reader, source_id, event_id, gone)]
    if problems:
        raise Refused(
            f"{source_id}: the publication cannot rest on what is named, {problems[0].message}",
            remedy="Validate changed code and attest that (`ledger attest implementation --validated`), or publish "
            "without --rests-on. Nothing was recorded.",
            problems=problems,
        )


def _against(reader: Reader, source_id: str, event_id: str, gone: Disregarded) -> Iterator[Problem]:
    place = f"--rests-on {event_id}"
    try:
        event = reader.event(event_id)
    except NotFound:
        yield Problem(place, "there is no such event")
        return
    header = header_of(event)
    said = REGISTRY.read(header["type"], header["tv"], event.payload) if event.HasField("payload") else None
    if header["type"] != "attestation.recorded":
        yield Problem(place, f"is a {header['type']}, and no attestation")
    elif header["stream"] != f"source/{source_id}":
        yield Problem(place, f"is an attestation of another source: {header['stream'].partition('/')[2]}")
    elif (by := gone.get((event.pos, event_id))) is not None:
        yield Problem(place, f"was disregarded at position {by.pos}")
    elif not isinstance(said, AttestationRecorded):
        yield Problem(place, "its content is redacted, so nothing is known of what it compared")
    elif changed := differences(said):
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        yield Problem(place, f"its comparison shows a change: {changed[0]}{more}")
