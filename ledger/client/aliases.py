"""What a name used elsewhere means here: `alias.mapped`, with its rules judged before it is sent.

A confirmed alias means exactly one source and cites evidence; an unresolved one means none, so that nothing is known of
where it applies. The latest mapping of a name counts; mapping it as it is mapped appends nothing.

    publication = plan_alias(mapping, previous=("event-7", AliasMapped(...)), by=me)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ledger.client.drafts import Actor, Publication, Upload, draft
from ledger.core.errors import InvalidInput, Problem
from ledger.core.ids import digest_id
from ledger.core.text import is_header_text
from ledger.events.catalogue import AliasMapped
from ledger.wire import log_pb2

MAX_NAME: Final = 506
"""With "alias/" before it, a name names a stream of at most 512 bytes."""


def plan_alias(
    mapping: AliasMapped,
    *,
    by: Actor,
    previous: tuple[str, AliasMapped | None] | None = None,
    version: int = 0,
    uploads: Iterable[Upload] = (),
    principal: str | None = None,
    tags: Iterable[str] = (),
) -> Publication:
    """The mapping as one event, if it says anything new.

    Args:
        previous: The id of the name's latest event, and what the name means now; None: nothing is known of that.
        version: How many events the name's stream has: nothing may have come in between.

    Raises:
        InvalidInput: reason USAGE, with every rule that the mapping breaks.
    """
    problems = list(_problems(mapping))
    if problems:
        raise InvalidInput(
            f"{mapping.alias} cannot be mapped so: {problems[0].message}",
            reason="USAGE",
            remedy="Name the source and the evidence of a confirmed alias; of an unresolved one name neither.",
            problems=problems,
        )
    said = f"{mapping.alias}: {mapping.status}"
    if previous is not None and previous[1] == mapping:
        return Publication(summary=f"{said}, unchanged")
    stream = f"alias/{mapping.alias}"
    text = mapping.model_dump_json(exclude_defaults=True)
    event_id = digest_id(principal, stream, "alias.mapped", text, previous[0] if previous is not None else None)
    made = draft("alias.mapped", stream, mapping, by=by, id=event_id, tags=tags)
    unchanged = log_pb2.Condition(stream_version=log_pb2.StreamVersion(stream=stream, exact=version))
    return Publication(parts=(made,), conditions=(unchanged,), uploads=tuple(uploads), summary=said)


def _problems(mapping: AliasMapped) -> Iterator[Problem]:
    if not is_header_text(mapping.alias, MAX_NAME):
        yield Problem("/alias", f"an alias names a stream: 1 to {MAX_NAME} printable ASCII characters")
    if len(set(mapping.source_ids)) != len(mapping.source_ids):
        yield Problem("/source_ids", "a source is there twice")
    if mapping.status == "confirmed":
        if len(mapping.source_ids) != 1:
            yield Problem("/source_ids", "a confirmed alias means exactly one source")
        if not mapping.evidence:
            yield Problem("/evidence", "a confirmed alias cites evidence")
    if mapping.status == "unresolved":
        if mapping.source_ids:
            yield Problem("/source_ids", "an unresolved alias means no source")
        if mapping.applicability != "unknown":
            yield Problem("/applicability", "where an unresolved alias applies is unknown")
