"""What a command on a defect leaves open, read from the source's stream.

A resolution rests on the newest validation and the newest review of the fix when nobody names others. A command that
is repeated says again what was recorded of it first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from pydantic import BaseModel

from ledger.client.reader import Reader
from ledger.core.errors import NotFound
from ledger.events import REGISTRY
from ledger.events.defects import DefectConfirmed, DefectReopened, DefectValidationRecorded
from ledger.events.fields import COLLECTION_TAG
from ledger.events.reviews import ReviewPublished, ReviewSuperseded
from ledger.wire import log_pb2
from services.cli.catalogue_state import header_of
from services.cli.disregarded import disregarded

Model = TypeVar("Model", bound=BaseModel)
_PARTS: Final = ("observation.recorded", "judgment.recorded", "synthesis.recorded")


def review_of_the_fix(reader: Reader, source_id: str, defect: str) -> str:
    """The newest review that stands, was published since the defect was last opened, and says that it is fixed.

    When none does, the newest of all: the rules then say what it lacks.

    Raises:
        NotFound: if none is published.
    """
    published, opened, issues = _reviews_and_openings(reader, source_id, defect)
    if not published:
        raise NotFound(f"no review of {source_id} is published", remedy="Publish one: `ledger review publish`.")
    for pos, review in reversed(published):
        if pos > opened and _claims(reader, source_id, review.collection, issues):
            return review.review
    return published[-1][1].review


def newest_validation(reader: Reader, source_id: str, defect: str) -> str:
    """The id of the newest validation of a defect.

    Raises:
        NotFound: if there is none.
    """
    recorded = _payloads(reader, source_id, ["defect.validation_recorded"])
    found = [e for _, e, said in recorded if isinstance(said, DefectValidationRecorded) and said.defect == defect]
    if not found:
        raise NotFound(
            f"no validation of defect {defect} of {source_id} is recorded",
            remedy="Record what the fix was checked against: `ledger defect validation`.",
        )
    return found[-1]


def recorded(reader: Reader, event_id: str | None, model: type[Model]) -> Model | None:
    """What the event of that id says, if there is one of that kind.

    A command that is repeated takes from it what it leaves open, since the source may have changed in between.
    """
    if event_id is None:
        return None
    try:
        event = reader.event(event_id)
    except NotFound:
        return None
    return said_by(event, model)


def said_by(event: log_pb2.Event | None, model: type[Model]) -> Model | None:
    """What an event says, if it is of that kind and its payload is there."""
    if event is None or not event.HasField("payload"):
        return None
    header = header_of(event)
    payload = REGISTRY.read(header["type"], header["tv"], event.payload)
    return payload if isinstance(payload, model) else None


def _reviews_and_openings(
    reader: Reader, source_id: str, defect: str
) -> tuple[list[tuple[int, ReviewPublished]], int, set[str | None]]:
    """The reviews that stand, where the defect was last opened, and how a review may name its issue."""
    published: dict[str, tuple[int, ReviewPublished]] = {}
    opened, issues = -1, set[str | None]()
    types = ["review.published", "review.superseded", "defect.confirmed", "defect.reopened"]
    for pos, _, said in _payloads(reader, source_id, types):
        match said:
            case ReviewPublished():
                published[said.review] = (pos, said)
            case ReviewSuperseded():
                published.pop(said.review, None)
            case DefectConfirmed(defect=name, issue_url=url) if name == defect:
                opened, issues = pos, {url} if url else {None, defect}
            case DefectReopened(defect=name) if name == defect:
                opened = pos
    return list(published.values()), opened, issues


def _claims(reader: Reader, source_id: str, collection: str, issues: set[str | None]) -> bool:
    """Whether a part of the review lists one of the issues, its fix validated."""
    for _, _, part in _payloads(reader, source_id, _PARTS, tags=[COLLECTION_TAG + collection]):
        listed = getattr(part, "attributes", {}).get("resolved_verifier_issues")
        if isinstance(listed, list) and any(_says_fixed(entry, issues) for entry in listed):
            return True
    return False


def _says_fixed(entry: object, issues: set[str | None]) -> bool:
    if not isinstance(entry, dict) or entry.get("fix_validated") is not True:
        return False
    return any(entry.get("issue_url") == issue for issue in issues)


def _payloads(
    reader: Reader, source_id: str, types: Sequence[str], *, tags: Sequence[str] = ()
) -> Iterator[tuple[int, str, BaseModel]]:
    """Positions, ids and payloads in a source's stream, oldest first, less what was redacted or disregarded."""
    gone = disregarded(reader)
    for event in reader.events(streams=[f"source/{source_id}"], types=types, tags=tags):
        header = header_of(event)
        if event.HasField("payload") and (event.pos, str(header["id"])) not in gone:
            yield event.pos, str(header["id"]), REGISTRY.read(header["type"], header["tv"], event.payload)
