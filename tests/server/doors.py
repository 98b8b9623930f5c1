"""The doors of a server as a client has them: the stubs of one channel, and what its errors say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2_grpc
from pydantic import BaseModel

from ledger.client.drafts import Draft, actor, draft
from ledger.client.status import TRAILER
from ledger.core.ids import new_id, sha256_hex
from ledger.events.administration import EventDisregarded
from ledger.events.policy import RulesAdopted
from ledger.events.registry import REGISTRY
from ledger.rules.sets import rules_digest
from ledger.wire import (
    artifacts_pb2,
    artifacts_pb2_grpc,
    audit_pb2,
    audit_pb2_grpc,
    log_pb2,
    log_pb2_grpc,
    projections_pb2,
    projections_pb2_grpc,
)
from services.server.app import in_process
from services.server.settings import Settings
from tests.rules import builders

BY = actor("tester", "human")
FIRST_EVENTS = 5
_TYPES = {t.model: t.type for t in REGISTRY}


def of(payload: BaseModel, stream: str = "", **fields: Any) -> Draft:
    """A draft of a payload, on the stream that it belongs to unless one is named."""
    return draft(_TYPES[type(payload)], stream or builders._stream(payload), payload, by=BY, **fields)


def alias(name: str = "x", event_id: str | None = None) -> Draft:
    """A fact that no rule looks at."""
    payload = b'{"alias":"a","source_ids":["x"],"status":"confirmed","applicability":"unknown"}'
    return Draft(id=event_id or new_id(), type="alias.mapped", stream=f"alias/{name}", payload=payload, actor=BY)


def request(*drafts: Draft, atomic: bool = True, conditions: Iterable[log_pb2.Condition] = ()) -> log_pb2.AppendRequest:
    return log_pb2.AppendRequest(drafts=drafts, atomic=atomic, conditions=conditions)


class Doors:
    """The stubs of one server."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", 64 << 20)])
        self.log = log_pb2_grpc.EventLogStub(self.channel)
        self.artifacts = artifacts_pb2_grpc.ArtifactsStub(self.channel)
        self.audit = audit_pb2_grpc.AuditStub(self.channel)
        self.projections = projections_pb2_grpc.ProjectionsStub(self.channel)
        self.health = health_pb2_grpc.HealthStub(self.channel)

    def append(self, *drafts: Draft, **fields: Any) -> log_pb2.AppendResponse:
        return self.log.Append(request(*drafts, **fields), timeout=30)

    def size(self) -> int:
        return int(self.log.GetInfo(log_pb2.GetInfoRequest()).size)

    def read(self, from_pos: int = 0, **fields: Any) -> list[log_pb2.Event]:
        pages = self.log.Read(log_pb2.ReadRequest(from_pos=from_pos, **fields))
        return [event for page in pages for event in page.events]

    def put(self, content: bytes, *, name: str = "", size: int | None = None, chunk: int = 1 << 20) -> Any:
        announced = artifacts_pb2.Artifact(
            sha256=name or sha256_hex(content), size=len(content) if size is None else size
        )

        def parts() -> Iterator[artifacts_pb2.PutArtifactRequest]:
            yield artifacts_pb2.PutArtifactRequest(artifact=announced)
            for start in range(0, len(content), chunk):
                yield artifacts_pb2.PutArtifactRequest(chunk=content[start : start + chunk])

        return self.artifacts.Put(parts())

    def put_named(self, *names: str) -> None:
        """Stores what the references of the builders point to."""
        for name in names:
            self.put(name.encode())

    def source(self, source: str = builders.SOURCE, **coordinates: Any) -> audit_pb2.SourceAsOfResponse:
        asked = audit_pb2.SourceAsOfRequest(id=source, coordinates=audit_pb2.Coordinates(**coordinates))
        return self.audit.SourceAsOf(asked, timeout=20)

    def sources(self, coordinates: dict[str, Any] | None = None, **fields: Any) -> audit_pb2.ListSourcesResponse:
        asked = audit_pb2.ListSourcesRequest(coordinates=audit_pb2.Coordinates(**(coordinates or {})), **fields)
        return self.audit.ListSources(asked, timeout=20)

    def why(self, source: str = builders.SOURCE, **coordinates: Any) -> audit_pb2.WhyResponse:
        asked = audit_pb2.WhyRequest(id=source, coordinates=audit_pb2.Coordinates(**coordinates))
        return self.audit.Why(asked, timeout=20)

    def rebuild(self, rules: str = "", **fields: Any) -> projections_pb2.RebuildResult:
        return list(self.projections.Rebuild(projections_pb2.RebuildRequest(rules=rules, **fields)))[-1].result

    def generations(self, projection: str = "sources") -> list[projections_pb2.Generation]:
        listed = self.projections.List(projections_pb2.ListProjectionsRequest()).generations
        return [generation for generation in listed if generation.projection == projection]

    def adopt(self, rules: str) -> log_pb2.AppendResponse:
        """Permits a rule set, as this release carries it."""
        return self.append(of(RulesAdopted(rules=rules, digest=rules_digest(rules))))

    def diff(self, generation: str, **fields: Any) -> projections_pb2.GenerationDiffResponse:
        asked = projections_pb2.GenerationDiffRequest(generation=generation, **fields)
        return self.projections.Diff(asked, timeout=30)

    def promote(self, generation: str, diff_digest: str | None = None, **fields: Any) -> Any:
        """Lets a generation answer, whatever it moves unless a digest is given."""
        digest = self.diff(generation).diff_digest if diff_digest is None else diff_digest
        asked = projections_pb2.PromoteRequest(generation=generation, diff_digest=digest, actor=BY, **fields)
        return self.projections.Promote(asked, timeout=30)

    def drop(self, generation: str) -> projections_pb2.Generation:
        return self.projections.Drop(projections_pb2.DropRequest(generation=generation), timeout=30).generation

    def disregard(self, pos: int, /, **fields: Any) -> log_pb2.AppendResponse:
        """Lets an event count for nothing."""
        event = orjson.loads(self.read(pos, limit=1)[0].header)["id"]
        said = {"pos": pos, "event": event, "reason": "recorded by mistake", **fields}
        return self.append(of(EventDisregarded(**said), "ledger"))

    def list_source(self, source: str = builders.SOURCE, *, collection: str = "c1", replaces: str | None = None) -> str:
        """Puts a source into the catalogue; gives the id of the refresh."""
        part = of(builders.declared(collection, id=source))
        closing = of(builders.synced(collection, [part.id], replaces=replaces))
        self.append(part, closing)
        return closing.id

    def publish(self, name: str, parts: Iterable[BaseModel], **fields: Any) -> log_pb2.AppendResponse:
        """Publishes a review, its evidence first."""
        self.put_named("trace", "quality-reviews.json")
        drafts = [of(part) for part in parts]
        return self.append(*drafts, of(builders.published(name, name, [d.id for d in drafts], **fields)))


@contextmanager
def opened(address: str) -> Iterator[Doors]:
    doors = Doors(address)
    try:
        yield doors
    finally:
        doors.channel.close()


@contextmanager
def served(home: Path, db: str | None = None, **settings: Any) -> Iterator[Doors]:
    """A server of this process, and its doors."""
    with in_process(Settings(home=home, db=db, **settings)) as address, opened(address) as doors:
        yield doors


class Failure:
    """What a failed call said, in the one form of an error."""

    def __init__(self, error: grpc.RpcError) -> None:
        trailers = dict(error.trailing_metadata())
        self.code: grpc.StatusCode = error.code()
        self.text: str = error.details()
        self.status = status_pb2.Status.FromString(trailers[TRAILER])
        info = self._detail(error_details_pb2.ErrorInfo)
        self.reason, self.domain, self.metadata = info.reason, info.domain, dict(info.metadata)
        self.remedy = self.metadata.get("remedy", "")
        self.problems = {v.field: v.description for v in self._detail(error_details_pb2.BadRequest).field_violations}

    def _detail(self, kind: Any) -> Any:
        found = kind()
        for packed in self.status.details:
            if packed.Is(kind.DESCRIPTOR):
                packed.Unpack(found)
        return found


def failure(call: Callable[[], Any]) -> Failure:
    """What the call fails with; it must fail."""
    with pytest.raises(grpc.RpcError) as raised:
        call()
    return Failure(raised.value)
