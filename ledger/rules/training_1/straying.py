"""Events whose payload says that they are of another stream than the one that they were recorded in.

Such an event is flagged, and counts for nothing else: not for the stream that it stands in, since it says that it is
not of it, nor for the one that it names, which must not change with what stands elsewhere. It does not count among its
producer's numbers either: what it says is missing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from ledger.rules import RuleEvent
from ledger.rules.training_1.model import Odd
from ledger.rules.training_1.oddities import noted
from ledger.rules.training_1.reading import Said

NAMES_ANOTHER_STREAM: Final = "NAMES_ANOTHER_STREAM"


class OfRun(Said, frozen=True):
    run_id: Any = None


class OfExport(Said, frozen=True):
    export_id: Any = None


class OfCampaign(Said, frozen=True):
    campaign_id: Any = None


class Subject(Said, frozen=True):
    kind: Any = None
    id: Any = None


class OfSubject(Said, frozen=True):
    subject: Subject = Subject()


_OF_EXPORTS: Final = frozenset(
    {"export.started", "export.completed", "export.verified", "export.failed", "model.published", "hosting.observed"}
)
_SUBJECTS: Final[Mapping[str, str]] = {
    "campaign": "campaign", "export": "export", "model": "export", "hosting": "export",
}  # fmt: skip
"""What is claimed of a model or a host belongs to the export that was published; all else to the run."""

FIELDS: Final[Mapping[str, str]] = {"run": "run_id", "export": "export_id", "campaign": "campaign_id"}
"""Which field names the stream, by its kind."""

_run: Final = msgspec.json.Decoder(OfRun).decode
_export: Final = msgspec.json.Decoder(OfExport).decode
_campaign: Final = msgspec.json.Decoder(OfCampaign).decode
_subject: Final = msgspec.json.Decoder(OfSubject).decode


def named_elsewhere(event: RuleEvent) -> str | None:
    """The other stream that the event names; None where it names its own, or no longer names any."""
    kind, id_ = _NAMED.get(event.type, _by_run)(event.body)
    if not isinstance(id_, str):
        return None
    named = f"{kind}/{id_}"
    return None if named == event.stream else named


def _by_run(body: bytes) -> tuple[str, Any]:
    return "run", _run(body).run_id


def _by_export(body: bytes) -> tuple[str, Any]:
    return "export", _export(body).export_id


def _by_campaign(body: bytes) -> tuple[str, Any]:
    return "campaign", _campaign(body).campaign_id


def _by_subject(body: bytes) -> tuple[str, Any]:
    subject = _subject(body).subject
    return _SUBJECTS.get(subject.kind, "run") if isinstance(subject.kind, str) else "run", subject.id


_NAMED: Final[Mapping[str, Callable[[bytes], tuple[str, Any]]]] = {
    "campaign.declared": _by_campaign,
    "claim.recorded": _by_subject,
    **dict.fromkeys(_OF_EXPORTS, _by_export),
}


def strayed(known: tuple[Odd, ...], event: RuleEvent, named: str) -> tuple[Odd, ...]:
    """The contradictions with one more such event."""
    message = f"{event.type} names {named}, and was recorded in {event.stream}: it counts for neither"
    return noted(known, NAMES_ANOTHER_STREAM, 0, message, event.pos)
