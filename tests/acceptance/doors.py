"""One ledger behind both of its doors: the gRPC services and the `ledger` command.

Whoever asks here is answered by both, and they must say the same. What the command prints is read back into the message
of the wire by protobuf itself, so the comparison shares nothing with the code that printed it.
"""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from pydantic import BaseModel

from ledger.client import Connection, Reader, Writer, actor, draft
from ledger.client.reader import At, coordinates
from ledger.core.clock import from_text
from ledger.core.errors import LedgerError
from ledger.wire import audit_pb2, log_pb2
from services.cli.main import main

COORDINATES = ("size", "recorded_at", "final", "rules", "rules_digest", "redactions_through", "policy_size")
CURATOR = ("--actor", "curator-1", "--actor-kind", "human")


@dataclass(frozen=True)
class Ran:
    """What one command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """The error as JSON: on stderr, alone, with stdout empty."""
        assert self.code != 0
        assert self.out == ""
        error: dict[str, Any] = json.loads(self.err)["error"]
        assert set(error) == {"reason", "message", "remedy", "details", "problems"}
        return error


def ledger(*arguments: object) -> Ran:
    """Runs a command within this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Ran(code, out.getvalue(), err.getvalue())


class Doors:
    """A running ledger, spoken to through both doors."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.reader = Reader(connection)
        self.writer = Writer(connection)

    @property
    def size(self) -> int:
        """How many events the log holds."""
        return self.reader.info().size

    def run(self, *arguments: object) -> Ran:
        """Runs a command on this ledger, whatever comes of it."""
        return ledger(*arguments, "--address", self.connection.address)

    def tell(self, *arguments: object) -> Any:
        """What a command that succeeds prints as JSON."""
        return self.run(*arguments, "--json").json

    def record(self, *arguments: object) -> list[dict[str, Any]]:
        """Runs a command that appends, as the curator, and gives its events: all of them new."""
        told = self.tell(*arguments, *CURATOR)
        assert told["recorded"] == len(told["events"]) > 0
        assert told["size"] == self.size
        return list(told["events"])

    def refused(self, *arguments: object, code: int, reason: str) -> dict[str, Any]:
        """The error of a command that is refused: with a remedy, and with nothing appended."""
        before = self.size
        ran = self.run(*arguments, "--json")
        assert (ran.code, ran.error["reason"]) == (code, reason), ran.err
        assert ran.error["message"]
        assert ran.error["remedy"]
        assert self.size == before
        return ran.error

    def append(self, type_: str, stream: str, payload: BaseModel) -> log_pb2.Receipt:
        """Appends one event over gRPC, as a program does."""
        (receipt,) = self.writer.append([draft(type_, stream, payload, by=actor("program-1"))], atomic=True)
        return receipt

    def refused_over_grpc(self, type_: str, stream: str, payload: BaseModel) -> LedgerError:
        """The error of an event that is refused, with nothing appended."""
        before = self.size
        with pytest.raises(LedgerError) as refused:
            self.append(type_, stream, payload)
        assert self.size == before
        return refused.value

    def shown(self, source: str, at: At = None) -> dict[str, Any]:
        """A source as both doors show it."""
        told = self.tell("source", "show", source, *_flags(at))
        request = audit_pb2.SourceAsOfRequest(id=source, coordinates=self._where(at))
        answer = self.connection.call(self.connection.audit.SourceAsOf, request)
        assert_same(told, answer.source, answer.coordinates)
        return dict(told)

    def why(self, source: str, at: At = None) -> dict[str, Any]:
        """The reasons of what is shown, as both doors give them, and the events that they rest on."""
        told = self.tell("source", "why", source, *_flags(at))
        request = audit_pb2.WhyRequest(id=source, coordinates=self._where(at))
        answer = self.connection.call(self.connection.audit.Why, request)
        reasons = [ParseDict(reason, audit_pb2.Reason()) for reason in told["reasons"]]
        assert reasons == list(answer.source.reasons)
        assert [(e["pos"], e["type"]) for e in told["events"]] == [(e.pos, e.type) for e in answer.events]
        assert {pos for reason in told["reasons"] for pos in reason["events"]} == {e.pos for e in answer.events}
        return dict(told)

    def listed(self, *flags: object, at: At = None, **wanted: Any) -> list[dict[str, Any]]:
        """The sources that pass a filter, as both doors list them."""
        told = self.tell("source", "list", *flags, *_flags(at))
        request = audit_pb2.ListSourcesRequest(
            coordinates=self._where(at), filter=audit_pb2.SourceFilter(**wanted), page_size=1000
        )
        answer = self.connection.call(self.connection.audit.ListSources, request)
        for one, source in zip(told, answer.sources, strict=True):
            assert_same(one, source, answer.coordinates)
        return list(told)

    def not_shown(self, source: str, at: At = None) -> None:
        """Neither door knows the source there."""
        ran = self.run("source", "show", source, *_flags(at), "--json")
        assert (ran.code, ran.error["reason"]) == (4, "NOT_FOUND")
        request = audit_pb2.SourceAsOfRequest(id=source, coordinates=self._where(at))
        with pytest.raises(LedgerError) as refused:
            self.connection.call(self.connection.audit.SourceAsOf, request)
        assert refused.value.reason == "NOT_FOUND"

    def payload(self, key: object) -> dict[str, Any]:
        """What an event says, as both doors give it."""
        told = self.tell("event", "show", key, "--content")
        event = self.reader.event(told["pos"])
        assert json.loads(event.payload) == told["payload"]
        return dict(told["payload"])

    def _where(self, at: At) -> audit_pb2.Coordinates:
        return coordinates(at, min_size=self.size if at is None else 0)


def assert_same(told: dict[str, Any], source: audit_pb2.Source, where: audit_pb2.AnswerCoordinates) -> None:
    """What the command printed is what the wire carried."""
    facts = {name: value for name, value in told.items() if name not in COORDINATES}
    assert ParseDict(facts, audit_pb2.Source()) == source
    assert [told[name] for name in ("size", "final", "redactions_through")] == [
        where.size,
        where.final,
        where.redactions_through,
    ]
    assert (told["rules"] or "") == where.rules
    assert from_text(told["recorded_at"]) == where.recorded_at_us


def rules_of(shown: dict[str, Any], field: str) -> list[str]:
    """The names of the rules that explain a field."""
    return [reason["rule"] for reason in shown["reasons"] if reason["field"] == field]


def text_of(shown: dict[str, Any], field: str) -> str:
    """Everything that is said in explanation of a field."""
    return " ".join(reason["text"] for reason in shown["reasons"] if reason["field"] == field)


def _flags(at: At) -> tuple[object, ...]:
    return () if at is None else ("--at", at)
