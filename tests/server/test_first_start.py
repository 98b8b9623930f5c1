"""What a new log says of itself, and what every server answers about itself."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from ledger.core.errors import LedgerError
from ledger.core.ids import sha256_hex
from ledger.events.registry import REGISTRY
from ledger.log import limits
from ledger.rules.sets import DEFAULT_RULES, RULE_SETS
from ledger.wire import log_pb2
from services.server.app import Application, fsck, release_identity
from services.server.settings import Settings
from tests.server.doors import FIRST_EVENTS, Doors, served

SERVICES = [f"atlas.ledger.v1.{name}" for name in ("EventLog", "Artifacts", "Audit", "Projections")]


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Of a new log on each store; who begins it names no rules."""
    db = request.getfixturevalue("database") if request.param == "postgres" else None
    return Settings(tmp_path / "home", db=db)


@pytest.mark.parametrize("rules", [None, *RULE_SETS])
def test_a_new_log_begins_with_its_key_its_rules_its_protocol_and_their_promotion(
    rules: str | None, settings: Settings
) -> None:
    named = {} if rules is None else {"first_rules": rules}
    with served(settings.home, settings.db, **named) as doors:
        events = doors.read()
        assert doors.sources({"min_size": FIRST_EVENTS}).coordinates.rules == (rules or DEFAULT_RULES)
    headers = [orjson.loads(e.header) for e in events]
    assert [h["type"] for h in headers] == [
        "key.introduced",
        "rules.adopted",
        "protocol.defined",
        "protocol.adopted",
        "projection.promoted",
    ]
    assert len({h["recorded_at"] for h in headers}) == 1, "they were recorded in several transactions"
    adopted, promoted = orjson.loads(events[1].payload), orjson.loads(events[4].payload)
    identity = release_identity(rules or DEFAULT_RULES)
    assert (adopted["rules"], adopted["digest"]) == (identity.rules, identity.rules_digest)
    assert (promoted["rules"], promoted["rules_digest"]) == (identity.rules, identity.rules_digest)
    assert (promoted["size"], promoted["moved"]) == (0, 0)
    assert promoted["diff_digest"] == sha256_hex(b"[]")


def test_a_log_does_not_begin_under_rules_that_are_none(tmp_path: Path) -> None:
    settings = Settings(tmp_path / "home", first_rules="house-rules")
    settings.home.mkdir()
    application = Application(settings)
    try:
        with pytest.raises(LedgerError) as refused:
            application.start()
        assert (refused.value.reason, DEFAULT_RULES in refused.value.remedy) == ("USAGE", True)
        assert application.log.head().size == 0
    finally:
        application.close()


def test_the_private_key_is_its_owner_s_alone_and_fits_the_one_that_the_log_names(tmp_path: Path) -> None:
    with served(tmp_path / "home") as doors:
        introduced = orjson.loads(doors.read(limit=1)[0].payload)
        origin = doors.log.GetInfo(log_pb2.GetInfoRequest()).origin
    (file,) = (tmp_path / "home" / "keys").iterdir()
    key = load_pem_private_key(file.read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert introduced["public_key"] == key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
    assert (file.stem, introduced["key"].startswith(origin)) == (introduced["key"], True)


def test_a_second_start_writes_nothing(tmp_path: Path) -> None:
    with served(tmp_path / "home") as doors:
        before = doors.read()
    with served(tmp_path / "home") as doors:
        assert doors.read() == before
    assert len(list((tmp_path / "home" / "keys").iterdir())) == 1


def test_two_logs_have_two_names(tmp_path: Path) -> None:
    origins = set()
    for name in ("one", "two"):
        with served(tmp_path / name) as doors:
            origins.add(doors.log.GetInfo(log_pb2.GetInfoRequest()).origin)
    assert len(origins) == 2
    assert not any(" " in origin or "+" in origin for origin in origins)


def test_servers_that_start_together_on_an_empty_postgres_write_the_first_events_once(
    database: str, tmp_path: Path
) -> None:
    starters = [Application(Settings(tmp_path / f"home{n}", db=database)) for n in range(4)]
    together = threading.Barrier(len(starters))

    def start(application: Application) -> None:
        together.wait()
        application.start()

    threads = [threading.Thread(target=start, args=(a,)) for a in starters]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert {a.log.head().size for a in starters} == {FIRST_EVENTS}
        made = [g.identity.projection for g in starters[0].projector.generations.all()]
        assert made == ["sources", "runs"]
    finally:
        for application in starters:
            application.close()
    keys = [key for n in range(4) for key in (tmp_path / f"home{n}" / "keys").glob("*.pem")]
    assert len(keys) == 1, "a starter that lost the race keeps a key that nobody knows"
    assert fsck(Settings(tmp_path / "home0", db=database)).problems == []


def test_every_service_is_healthy_and_reflected(doors: Doors) -> None:
    for service in ("", *SERVICES):
        answer = doors.health.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING, service
    reflected = reflection_pb2_grpc.ServerReflectionStub(doors.channel)
    asked = reflection_pb2.ServerReflectionRequest(list_services="")
    (answer,) = reflected.ServerReflectionInfo(iter([asked]))
    assert {s.name for s in answer.list_services_response.service} >= {*SERVICES, "grpc.health.v1.Health"}


def test_info_names_the_limits_and_every_type_with_its_versions(doors: Doors) -> None:
    info = doors.log.GetInfo(log_pb2.GetInfoRequest())
    assert info.size == FIRST_EVENTS
    assert info.auth == "none"
    assert info.limits.request_events == limits.REQUEST_EVENTS
    assert info.limits.payload_bytes == limits.PAYLOAD_BYTES
    assert {(t.type, v) for t in info.event_types for v in t.versions} == {(t.type, t.version) for t in REGISTRY}
    assert {t.type for t in info.event_types if t.decision} == {t.type for t in REGISTRY if t.decision}
