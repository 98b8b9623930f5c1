"""What a curator does to one source under the corrected rules, and how other rules would have answered.

judged.review()                                 # Good, and the run's own record names the verifier that graded
judged.shown()["quality"]                       # under the rules in force
judged.under("atlas-code-1")["quality"]         # the same events under the rules of the applet's later code
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict

from ledger.client.reader import At, coordinates
from ledger.wire import audit_pb2
from tests.acceptance.curated import Curated
from tests.acceptance.doors import assert_same, rules_of, text_of

CODE = "atlas-code-1"
PAGE = "atlas-page-1"
CORRECTED = "ledger-1"


@dataclass(frozen=True)
class Event:
    """An event as it is stored."""

    pos: int
    header: dict[str, Any]
    payload: dict[str, Any]


class Corrected(Curated):
    """One source of a ledger under the corrected rules."""

    def run_of(self, *, edit: Callable[[dict[str, Any]], object] | None = None, **options: Any) -> Path:
        """A review run on disk that the source's own verifier graded, unless the options say otherwise."""
        known = {"executed_commit": self.verifier} if self.verifier is not None else {}
        return super().run_of(edit=edit, **{**known, **options})

    def under(self, rules: str, at: At = None) -> dict[str, Any]:
        """The source as another rule set shows it, as both doors say."""
        told = self.doors.tell("source", "show", self.id, "--rules", rules, *(() if at is None else ("--at", at)))
        where = coordinates(at, rules, min_size=self.doors.size if at is None else 0)
        request = audit_pb2.SourceAsOfRequest(id=self.id, coordinates=where)
        answer = self.doors.connection.call(self.doors.connection.audit.SourceAsOf, request)
        assert answer.coordinates.rules == rules
        assert_same(told, answer.source, answer.coordinates)
        return dict(told)

    def bytes_at(self, size: int, rules: str = "", *, policy: int | None = None) -> bytes:
        """The answer about the source at a size, as the wire carries it."""
        where = coordinates(size, rules)
        if policy is not None:
            where.policy_size = policy
        request = audit_pb2.SourceAsOfRequest(id=self.id, coordinates=where)
        answer = self.doors.connection.call(self.doors.connection.audit.SourceAsOf, request)
        return bytes(answer.SerializeToString(deterministic=True))

    def explained(self, field: str) -> str:
        """The reasons of a field, each with its rule; every event that one names is in the log."""
        why = self.doors.why(self.id)
        assert all(reason["events"] for reason in why["reasons"])
        return text_of(why, field)

    def because(self, field: str) -> list[str]:
        """The rules that explain a field."""
        return rules_of(self.shown(), field)

    def events(self, *types: str) -> list[Event]:
        """The source's events, first to last."""
        read = self.doors.reader.events(streams=[self.stream], types=types)
        return [Event(e.pos, json.loads(e.header), json.loads(e.payload)) for e in read]

    def relist(self, **fields: Any) -> None:
        """Publishes the source's row with other fields; the other sources stay as they are listed."""
        self.row = {**self.row, **fields}
        inventory = self.folder / "relisted.jsonl"
        inventory.write_text(json.dumps(self.row) + "\n")
        self.doors.record("catalogue", "import", inventory, "--partial")
        self.verifier = self.row.get("verifier_revision")
        self.dataset = self.row.get("dataset_revision") or self.row["revision"]


def same_source(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two answers show the same, wherever they stand."""
    return _facts(one) == _facts(other)


def _facts(told: dict[str, Any]) -> audit_pb2.Source:
    message = audit_pb2.Source()
    known = {name: value for name, value in told.items() if name in message.DESCRIPTOR.fields_by_name}
    return ParseDict(known, message)
