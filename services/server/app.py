"""The composition root: everything that a server is, put together once.

A server carries every rule set of its release. Which one answers, and judges decisions, is for the log to say.

    serve(settings, on_ready=print)         until SIGTERM or SIGINT
    with in_process(settings) as address:   a server of this process alone, on a private socket

Stopping is graceful: no new calls, what was accepted is finished, then the store is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import ipaddress
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import grpc.aio
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1._async import HealthServicer
from grpc_reflection.v1alpha import reflection

from ledger.artifacts.directory import ArtifactDirectory
from ledger.audit.coordinates import Clockwork
from ledger.audit.run_questions import RunQuestions
from ledger.audit.sources import Sources
from ledger.core.errors import InvalidInput, LedgerError
from ledger.events import REGISTRY
from ledger.log.fsck import FsckReport
from ledger.log.fsck import fsck as check_log
from ledger.log.log import Log
from ledger.projections.generations import Identity
from ledger.projections.identity import fold_digest
from ledger.projections.projector import Projector
from ledger.projections.runs import RunStates
from ledger.rules import training_1
from ledger.rules.sets import DEFAULT_RULES, RULE_SETS, rules_digest
from ledger.wire import (
    artifacts_pb2,
    artifacts_pb2_grpc,
    audit_pb2,
    audit_pb2_grpc,
    log_pb2,
    log_pb2_grpc,
    projections_pb2,
    projections_pb2_grpc,
    provenance_pb2,
    runs_pb2,
    runs_pb2_grpc,
)
from services.server import home, opening, provenance
from services.server.appending import Appender
from services.server.artifacts import ArtifactsService
from services.server.audit import AuditService
from services.server.decisions import Decider
from services.server.event_log import EventLogService
from services.server.first_start import create_log, introduce
from services.server.logging import configure as configure_logging
from services.server.projections import ProjectionsService
from services.server.promoting import Promoter
from services.server.rebuilds import Rebuilds
from services.server.renewal import check_rules, renew, renew_the_rest
from services.server.runs import RunsServicer
from services.server.settings import Settings
from services.server.standing import Standings
from services.server.threads import LongQuestions
from services.server.tuning import tune

log = structlog.get_logger(__name__)

GRACE_SECONDS: Final = 30.0
MESSAGE_BYTES: Final = 32 << 20
"""What the transport takes; the request's own limit is smaller, so that its error can say what to do."""
MIN_PING_MS: Final = 30_000
"""Who asks more often whether the server is still there is cut off. The SDK asks every minute; gRPC's limit is five."""
SERVER_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.max_send_message_length", MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", MIN_PING_MS),
)
_SERVICES: Final = tuple(
    module.DESCRIPTOR.services_by_name[name].full_name
    for module, name in (
        (log_pb2, "EventLog"),
        (provenance_pb2, "Provenance"),
        (artifacts_pb2, "Artifacts"),
        (audit_pb2, "Audit"),
        (projections_pb2, "Projections"),
        (runs_pb2, "Runs"),
    )
)

_HEALTH: Final = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


class Application:
    """One log with its projection and its doors. The home must be held, or the database be Postgres."""

    def __init__(self, settings: Settings, *, identities: Mapping[str, Identity] | None = None) -> None:
        self.settings = settings
        self.identities = release_identities() if identities is None else identities
        self.artifacts = ArtifactDirectory(settings.artifacts_folder)
        self.store = opening.open_store(settings)
        with opening.told(settings):
            create_log(self.store)
        self.log = Log(self.store)
        self.standings = Standings(self.log)
        self.projector = Projector(self.log, self.identities)
        self.promoter = Promoter(self.log, self.projector, self.standings)
        self.rebuilds = Rebuilds(self.projector)
        self.questions = LongQuestions()
        self._renewing = threading.Thread(target=self._renew_the_rest, name="renewing", daemon=True)

    def start(self) -> None:
        """Writes the first events if nobody has, and starts to record and to fold.

        Raises:
            LedgerError: reason RULES_CHANGED, if the log's rules are not this release's; UNAVAILABLE, if the database
                cannot be written.
        """
        with opening.told(self.settings):
            self._start()

    def _start(self) -> None:
        self.log.start()
        if self.log.head().size == 0:
            self._introduce()
        standing = self.standings.now()
        check_rules(standing, self.identities)
        assert standing.in_force is not None, "the first events put rules in force"
        self.projector.open(standing.in_force.identity.rules)
        renew(self.projector, self.standings, self.promoter, self.identities)
        self.projector.start()
        self._renewing.start()

    def _introduce(self) -> None:
        first = self.identities.get(self.settings.first_rules)
        if first is None:
            raise InvalidInput(
                f"a log cannot begin under the rules {self.settings.first_rules!r}: this release does not carry them",
                reason="USAGE",
                remedy=f"Name one of {', '.join(sorted(self.identities))} with --first-rules.",
            )
        if introduce(self.log, self.settings.keys_folder, first):
            log.info("made a new log", origin=self.log.origin, rules=first.rules)

    def _renew_the_rest(self) -> None:
        """While readers are answered already: a fault here is told, and tried again at the next start."""
        try:
            renew_the_rest(self.projector, self.standings, self.identities)
        except LedgerError as error:
            log.warning("generations of another release were not renewed", reason=error.reason, cause=error.message)
        except Exception:
            log.exception("generations of another release were not renewed")

    def close(self) -> None:
        """Finishes what was accepted."""
        self.projector.stop_building()
        self.rebuilds.close()
        self.questions.close()
        if self._renewing.ident is not None:
            self._renewing.join()
        self.projector.close()
        self.log.close()

    async def serve(self, address: str, stop: asyncio.Event, on_ready: Callable[[str], None]) -> None:
        """Answers calls until told to stop."""
        stopping = asyncio.Event()
        server = grpc.aio.server(options=SERVER_OPTIONS)
        health = self._register(server, stopping)
        port = self._listen(server, address)
        await server.start()
        bound = address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"
        log.info("listening", address=bound, origin=self.log.origin, size=self.log.head().size)
        on_ready(bound)
        await stop.wait()
        log.info("stopping", unanswered=self.log.waiting)
        await health.enter_graceful_shutdown()
        stopping.set()
        self.projector.stop_building()
        await server.stop(GRACE_SECONDS)
        # While the loop still runs: their last words go through it.
        await asyncio.to_thread(self.rebuilds.close)
        await asyncio.to_thread(self.questions.close)
        log.info("stopped", size=self.log.head().size)

    def _register(self, server: grpc.aio.Server, stopping: asyncio.Event) -> HealthServicer:
        generations = self.projector.generations
        appender = Appender(self.log, Decider(self.log, generations, self.artifacts))
        version = importlib.metadata.version("atlas-ledger")
        log_pb2_grpc.add_EventLogServicer_to_server(
            EventLogService(self.log, appender, version=version, stopping=stopping), server
        )
        provenance.register(provenance.ProvenanceService(appender, stopping=stopping), server)
        artifacts_pb2_grpc.add_ArtifactsServicer_to_server(ArtifactsService(self.artifacts), server)
        clockwork, sources = Clockwork(self.log, generations), Sources(self.log, generations)
        runs = RunQuestions(self.log, self._run_states(), training_1.RULES, clockwork, sources)
        audit = AuditService(clockwork, sources, runs, self.questions, stopping=stopping)
        audit_pb2_grpc.add_AuditServicer_to_server(audit, server)
        runs_pb2_grpc.add_RunsServicer_to_server(
            RunsServicer(clockwork, runs, self.questions, stopping=stopping), server
        )
        projections = ProjectionsService(self.projector, self.standings, self.promoter, self.rebuilds, self.questions)
        projections_pb2_grpc.add_ProjectionsServicer_to_server(projections, server)
        health: HealthServicer = HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(health, server)
        for name in ("", *_SERVICES):
            health._server_status[name] = health_pb2.HealthCheckResponse.SERVING  # noqa: SLF001  # set() is a coroutine
        reflection.enable_server_reflection((*_SERVICES, _HEALTH, reflection.SERVICE_NAME), server)
        return health

    def _run_states(self) -> RunStates:
        states = self.projector.runs
        assert states is not None, "the release has rules for runs"
        return states

    def _listen(self, server: grpc.aio.Server, address: str) -> int:
        try:
            return server.add_insecure_port(address)
        except RuntimeError as error:
            raise LedgerError(
                f"the server cannot listen on {address}",
                reason="IN_USE",
                remedy="Another program has the port: give another with --port, or 0 for a free one.",
            ) from error


def serve(settings: Settings, *, on_ready: Callable[[str], None]) -> None:
    """Runs a server until SIGTERM or SIGINT; `on_ready` is told its address."""
    configure_logging(settings.log_level or "info")
    _check_loopback(settings.host)
    with contextlib.ExitStack() as stack:
        if settings.db is None:
            stack.enter_context(home.held(settings.home, wait=home.GLANCE_SECONDS))
        application = Application(settings)
        stack.callback(application.close)
        application.start()
        tune()
        asyncio.run(_serve(application, settings, on_ready))


async def _serve(application: Application, settings: Settings, on_ready: Callable[[str], None]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    def ready(address: str) -> None:
        if settings.db is None:
            home.announce(settings.home, address)
        on_ready(address)

    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    await application.serve(f"{host}:{settings.port}", stop, ready)


@contextmanager
def in_process(settings: Settings) -> Iterator[str]:
    """A server within this process; yields its address.

    Raises:
        LedgerError: reason IN_USE if the home is held by a server, or by a command for longer than the wait.
    """
    configure_logging(settings.log_level or "error")
    with contextlib.ExitStack() as stack:
        if settings.db is None:
            stack.enter_context(home.held(settings.home, wait=home.LOCK_WAIT_SECONDS))
        application = Application(settings)
        stack.callback(application.close)
        application.start()
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ledger-"))
        yield stack.enter_context(_background(application, f"unix:{Path(folder) / 's'}"))


@contextmanager
def _background(application: Application, address: str) -> Iterator[str]:
    """The server's loop in a thread, for as long as the block runs."""
    ready: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def run() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        await application.serve(address, stop, lambda bound: ready.set_result((bound, loop, stop)))

    def thread() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:  # noqa: BLE001  # handed to the waiting thread
            if not ready.done():
                ready.set_exception(error)

    running = threading.Thread(target=thread, name="server")
    running.start()
    bound, loop, stop = ready.result()
    try:
        yield bound
    finally:
        loop.call_soon_threadsafe(stop.set)
        running.join()


def fsck(settings: Settings) -> FsckReport:
    """Checks a log and its artifacts as they are stored, also while a server runs on them."""
    if settings.db is None and not settings.database_file.exists():
        raise LedgerError(
            f"there is no log in {settings.home}", reason="NOT_FOUND", remedy="Name the home with --home, or start one."
        )
    store = opening.existing_store(settings)
    try:
        return check_log(store, ArtifactDirectory(settings.artifacts_folder))
    finally:
        store.close()


def upgrade(settings: Settings) -> list[str]:
    """Brings the database's schema to this release's; returns the revisions that were applied."""
    with contextlib.ExitStack() as stack:
        if settings.db is None:
            stack.enter_context(home.held(settings.home, wait=home.GLANCE_SECONDS))
        return opening.upgrade(settings)


def release_identities() -> dict[str, Identity]:
    """What this release computes, by rule set: its rules, its fold, its upcasters."""
    fold, upcasters = fold_digest(), REGISTRY.upcaster_digest()
    return {rules: Identity(rules, rules_digest(rules), fold, upcasters) for rules in RULE_SETS}


def release_identity(rules: str = DEFAULT_RULES) -> Identity:
    """What this release computes under one rule set."""
    return release_identities()[rules]


def _check_loopback(host: str) -> None:
    """Without authentication anybody who reaches the port may write: only this machine may reach it."""
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return
    if host == "localhost":
        return
    raise LedgerError(
        f"the server would listen on {host}, and no authentication is configured",
        reason="USAGE",
        remedy="Listen on 127.0.0.1; this release has no authentication.",
    )
