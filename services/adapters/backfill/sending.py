"""Sending an import: in parts, as often as it takes, so that nothing is recorded twice and what was said stands.

A fact that the ledger has already is not sent again, whoever recorded it and under which producer. The rest is numbered
in order, after the last number of an earlier try, and a report of the numbers closes the import.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ledger.client.drafts import Actor, Draft, draft
from ledger.client.reader import Reader
from ledger.client.writer import Receipt, Writer, raise_refused
from ledger.core import strictjson
from ledger.core.ids import digest_id
from ledger.events import REGISTRY
from ledger.events.runs import RecordingReported
from ledger.wire import log_pb2
from services.adapters.backfill.imports import Import

BATCH: Final = 500
_REPORTED: Final = "recording.reported"
Renew = Callable[[Draft], Draft]
"""Gives a draft another id where the event that bears its id is disregarded."""


class Known(NamedTuple):
    """An event that the ledger has."""

    pos: int
    producer: str | None
    seq: int


@dataclass
class Sent:
    """What became of an import."""

    recorded: Counter[str] = field(default_factory=Counter)
    already: int = 0
    size: int = 0


def known_in(reader: Reader, stream: str) -> dict[str, Known]:
    """Every event of the stream, by its id."""
    found: dict[str, Known] = {}
    for event in reader.events(streams=[stream], headers_only=True):
        header: Any = strictjson.parse(event.header)
        producer = header["producer"] or {}
        found[header["id"]] = Known(event.pos, producer.get("id"), producer.get("seq", 0))
    return found


def foretell(found: Import, *, reader: Reader, renew: Renew) -> Sent:
    """What `send` would do, the report among it; nothing is appended."""
    known = known_in(reader, found.stream)
    recorded = Counter(made.type for made in _new(found, known, renew))
    already = len(found.book) - recorded.total()
    last_seq = _last_seq(found, known) + recorded.total() if found.run_id is not None else 0
    if last_seq and _report_id(found, found.report(last_seq)) not in known:
        recorded[_REPORTED] += 1
    return Sent(recorded, already, reader.info().size)


def send(found: Import, *, reader: Reader, writer: Writer, by: Actor, renew: Renew) -> Sent:
    """Appends what the ledger does not have yet.

    Raises:
        LedgerError: if anything was refused, a decision among it, or nobody answered in time; sending again goes on
            where it stopped.
    """
    for upload in found.uploads:
        writer.put_artifact(upload.content)
    known = known_in(reader, found.stream)
    sent = Sent()
    last_seq = _last_seq(found, known)
    batch: list[Draft] = []
    for made in _new(found, known, renew):
        if found.run_id is not None:
            last_seq += 1
            made.producer.CopyFrom(log_pb2.Producer(id=found.producer, epoch=1, seq=last_seq))
        batch.append(made)
        if len(batch) == BATCH:
            _append(writer, batch, sent)
            batch = []
    _append(writer, batch, sent)
    sent.already = len({renew(made).id for made in found.drafts()} & known.keys())
    report = _report(found, by, last_seq) if last_seq else None
    if report is not None and report.id not in known:
        _count([report], writer.append([report]), sent)
    sent.size = writer.size or reader.info().size
    return sent


def _last_seq(found: Import, known: Mapping[str, Known]) -> int:
    """Up to where an earlier try of this import came."""
    return max((k.seq for k in known.values() if k.producer == found.producer), default=0)


def _new(found: Import, known: Mapping[str, Known], renew: Renew) -> Iterator[Draft]:
    """The drafts that the ledger does not have, each once."""
    seen: set[str] = set()
    for made in map(renew, found.drafts()):
        if made.id not in known and made.id not in seen:
            seen.add(made.id)
            yield made


def _append(writer: Writer, batch: list[Draft], sent: Sent) -> None:
    """Facts in a request that is not atomic; then decisions, each in one of its own: they rest on the facts."""
    facts = [d for d in batch if not _is_decision(d)]
    _count(facts, writer.append(facts), sent)
    for decision in (d for d in batch if _is_decision(d)):
        _count([decision], writer.append([decision], atomic=True), sent)


def _count(drafts: list[Draft], receipts: list[Receipt], sent: Sent) -> None:
    raise_refused(drafts, receipts)
    for made, receipt in zip(drafts, receipts, strict=True):
        if not receipt.already_recorded:
            sent.recorded[made.type] += 1


def _report(found: Import, by: Actor, last_seq: int) -> Draft:
    said = found.report(last_seq)
    return draft(_REPORTED, found.stream, said, by=by, id=_report_id(found, said))


def _report_id(found: Import, said: RecordingReported) -> str:
    return digest_id("backfill", found.stream, _REPORTED, said.model_dump_json(exclude_defaults=True))


def _is_decision(made: Draft) -> bool:
    return REGISTRY.get(made.type, made.type_version).decision
