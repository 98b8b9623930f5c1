"""One transaction's requests, judged in order and placed one after the other.

Known ids first, then conditions, then places; a refused request leaves nothing behind. The batch is also the `View`
that conditions are judged against: the store under its lock, and what the batch has accepted so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import cast

import structlog

from ledger.core import clock, merkle
from ledger.core.errors import LedgerError, Problem, Refused
from ledger.log.conditions import Condition, MustExist, MustNotExist, StreamVersion, failures
from ledger.log.model import Entry, Head, Known, Outcome, Prepared, Receipt
from ledger.log.ports import WriteTransaction
from ledger.log.preparing import draft_hash

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class AppendRequest:
    """A request as it waits: what could be prepared, and why the rest could not."""

    prepared: Sequence[Prepared | LedgerError]
    conditions: Sequence[Condition] = ()
    guards: Sequence[Condition] = ()
    """Conditions of the server's own decision: when one fails, the decision is made again."""
    atomic: bool = True
    payload_bytes: int = 0
    future: Future[Outcome] = field(default_factory=Future)
    faulty: bool = field(init=False)
    """Some draft could not be prepared."""

    def __post_init__(self) -> None:
        self.faulty = any(type(p) is not Prepared for p in self.prepared)

    def accepted(self) -> Sequence[Prepared]:
        """The drafts that could be prepared."""
        if not self.faulty:
            return cast("Sequence[Prepared]", self.prepared)
        return [p for p in self.prepared if isinstance(p, Prepared)]


class GuardMoved(Refused):
    """What a decision rests on changed before it was recorded: decide again."""

    default_reason = "CONDITION_FAILED"


class Batch:
    """The requests of one transaction, judged one after the other. Also the `View` that conditions see."""

    def __init__(self, tx: WriteTransaction, streams: dict[str, tuple[int, str]]) -> None:
        self._tx = tx
        self._streams = streams
        self._known: dict[str, Known] = {}
        self._accepted: dict[str, tuple[Prepared, Receipt]] = {}
        self._entries: list[Entry] = []
        self._origin_size = tx.head.size
        lag = tx.head.recorded_at_us + 1 - tx.now_us
        self._recorded_at_us = max(tx.now_us, tx.head.recorded_at_us + 1)
        self._recorded_at = clock.to_text(self._recorded_at_us)
        if lag > 1:
            log.warning("the clock lags behind the log; bridged by a microsecond", lag_us=lag)

    def look_up(self, requests: Sequence[AppendRequest]) -> None:
        """What the store knows of the ids and streams of all requests, in as few statements as can be."""
        prepared = [p for request in requests for p in request.accepted()]
        ids = {p.id for p in prepared}
        streams = {p.stream for p in prepared}
        for request in requests:
            for condition in (*request.conditions, *request.guards):
                match condition:
                    case MustExist(named) | MustNotExist(named):
                        ids.update(named)
                    case StreamVersion(stream):
                        streams.add(stream)
        if ids:
            self._known = self._tx.known(sorted(ids))
        unknown = sorted(streams - self._streams.keys())
        if unknown:
            self._streams.update(dict.fromkeys(unknown, (0, "null")))
            found = self._tx.stream_heads(unknown)
            self._streams.update({s: (sv, f'"{leaf.hex()}"') for s, (sv, leaf) in found.items()})

    def judge(self, request: AppendRequest) -> Outcome | LedgerError:
        """Accepts or refuses one request. Nothing of a refused request stays."""
        if self._all_new(request):
            refusal = self._condition_refusal(request)
            return refusal or Outcome([self._place(p) for p in request.accepted()])
        answers = self._answers(request.prepared)
        refusal = _atomic_refusal(answers, request.prepared) if request.atomic else None
        if refusal is None and None in answers:
            refusal = self._condition_refusal(request)
        return refusal or Outcome(list(map(self._answer_or_place, request.prepared, answers)))

    def _all_new(self, request: AppendRequest) -> bool:
        """Whether every draft is sound and nobody has seen its id: the common case, told in few steps."""
        ids = {p.id for p in request.accepted()}
        return (
            len(ids) == len(request.prepared)
            and self._known.keys().isdisjoint(ids)
            and self._accepted.keys().isdisjoint(ids)
        )

    def _condition_refusal(self, request: AppendRequest) -> LedgerError | None:
        if failed := failures(request.conditions, self):
            return _condition_error(failed)
        if moved := failures(request.guards, self):
            return GuardMoved("what the decision rests on has changed", problems=moved)
        return None

    def _answer_or_place(
        self, prepared: Prepared | LedgerError, answer: Receipt | LedgerError | None
    ) -> Receipt | LedgerError:
        # The same id may stand twice in the request: the second is known by now.
        answer = answer or self._answer_if_known(prepared)
        if answer is not None:
            return answer
        assert isinstance(prepared, Prepared)
        return self._place(prepared)

    def write(self) -> Head:
        """Writes what was accepted and moves the head."""
        if not self._entries:
            return self._tx.head
        old = self._tx.head
        peaks = merkle.extend(old.size, old.peaks, [entry.leaf for entry in self._entries])
        size = old.size + len(self._entries)
        head = Head(old.origin, size, tuple(peaks), merkle.root(peaks), self._recorded_at_us)
        self._tx.write(self._entries, head)
        return head

    def _answers(self, drafts: Sequence[Prepared | LedgerError]) -> list[Receipt | LedgerError | None]:
        """What is known of each draft; an id that stands twice in the request must stand for the same content."""
        answers = [self._answer_if_known(p) for p in drafts]
        first: dict[str, Prepared] = {}
        for index, prepared in enumerate(drafts):
            if isinstance(prepared, Prepared) and answers[index] is None:
                twin = first.setdefault(prepared.id, prepared)
                if (twin.fields, twin.payload) != (prepared.fields, prepared.payload):
                    answers[index] = Refused(
                        f"the id {prepared.id} stands twice in the request, for different content",
                        reason="ID_CONFLICT",
                        remedy="Give each event an id of its own.",
                        details={"id": prepared.id},
                    )
        return answers

    def _answer_if_known(self, prepared: Prepared | LedgerError) -> Receipt | LedgerError | None:
        """The first receipt, a conflict or the fault; None for a new event."""
        if isinstance(prepared, LedgerError):
            return prepared
        accepted = self._accepted.get(prepared.id)
        if accepted is not None:
            first, receipt = accepted
            if first.principal != prepared.principal:
                return _not_yours()
            same = first.fields == prepared.fields and first.payload == prepared.payload
            return receipt._replace(already_recorded=True) if same else _conflict(prepared, receipt.pos)
        known = self._known.get(prepared.id)
        if known is None:
            return None
        if known.principal != prepared.principal:
            return _not_yours()
        redacted = known.draft_hash is None or known.salt is None
        if redacted or draft_hash(known.salt or b"", prepared.fields, prepared.payload) == known.draft_hash:
            return known.receipt
        return _conflict(prepared, known.receipt.pos)

    def _place(self, prepared: Prepared) -> Receipt:
        version, prev = self._streams[prepared.stream]
        version += 1
        pos = self._origin_size + len(self._entries)
        header = prepared.header(pos, prev, self._recorded_at, version)
        leaf = merkle.leaf_hash(header)
        self._streams[prepared.stream] = (version, f'"{leaf.hex()}"')
        self._entries.append(Entry(pos, version, self._recorded_at_us, prepared, header, leaf))
        receipt = Receipt(pos, version, self._recorded_at_us, leaf)
        self._accepted[prepared.id] = (prepared, receipt)
        return receipt

    # The View that conditions are judged against.

    def stream_version(self, stream: str) -> int:
        return self._streams[stream][0]

    def exists(self, event_id: str) -> bool:
        return event_id in self._known or event_id in self._accepted

    def first_match(self, types: tuple[str, ...], tags: tuple[str, ...], after: int) -> int | None:
        stored = self._tx.first_match(types, tags, after)
        if stored is not None:
            return stored
        wanted = set(tags)
        for entry in self._entries:
            made = entry.prepared
            if entry.pos >= after and (not types or made.type in types) and wanted.issubset(made.tags):
                return entry.pos
        return None

    def tagged_ids(self, tag: str) -> list[str]:
        here = [e.prepared.id for e in self._entries if tag in e.prepared.tags]
        return [*self._tx.tagged_ids(tag), *here]


def _atomic_refusal(
    answers: Sequence[Receipt | LedgerError | None], prepared: Sequence[Prepared | LedgerError]
) -> LedgerError | None:
    """Why an atomic request is refused as a whole, if it is."""
    faults = [a for a in answers if isinstance(a, LedgerError)]
    if faults:
        if len(faults) == 1:
            return faults[0]
        first = faults[0]
        problems = [Problem(f"drafts[{n}]", a.message) for n, a in enumerate(answers) if isinstance(a, LedgerError)]
        return LedgerError(
            f"{len(faults)} drafts are refused; the first: {first.message}",
            reason=first.reason,
            remedy=first.remedy,
            details=first.details,
            problems=problems,
        )
    known = [p.id for p, a in zip(prepared, answers, strict=True) if a is not None and isinstance(p, Prepared)]
    if known and len(known) < len(answers):
        return Refused(
            f"{len(known)} of the {len(answers)} drafts are recorded already, the others are not",
            reason="PARTLY_RECORDED",
            remedy="Send the rest alone, or all with atomic = false.",
            details={"recorded": ",".join(known[:20])},
        )
    return None


def _not_yours() -> Refused:
    return Refused("the id belongs to another principal", reason="NOT_PERMITTED", remedy="Use an id of your own.")


def _conflict(prepared: Prepared, pos: int) -> Refused:
    return Refused(
        f"the id {prepared.id} is taken by other content, at position {pos}",
        reason="ID_CONFLICT",
        remedy="A retry must send the same bytes; new content needs a new id.",
        details={"id": prepared.id, "pos": str(pos)},
    )


def _condition_error(failed: list[Problem]) -> Refused:
    return Refused(
        f"{failed[0].message}" + (f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""),
        reason="CONDITION_FAILED",
        remedy="Read again what the request rests on, and decide again.",
        problems=failed,
    )
