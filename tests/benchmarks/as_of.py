"""Reading one source as it is now beside reading it as it was, in one loop.

Each turn takes a source and a past size by chance and reads the source at both, in an order that changes with every
turn; so whatever disturbs the machine, or warms a cache, meets both alike.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from random import Random
from statistics import quantiles
from typing import Final

import grpc

from ledger.audit.coordinates import At, Clockwork
from ledger.audit.sources import Sources
from ledger.log.log import Log
from ledger.projections.generations import Generations
from ledger.wire import audit_pb2, audit_pb2_grpc
from tests.benchmarks.ledger_server import CHANNEL, served
from tests.benchmarks.written_logs import Home

ON_STORE: Final = "on the store"
OVER_GRPC: Final = "over gRPC"

Read = Callable[[str, int | None], str]
"""Reads a source at a size, or now; gives the id that the answer bears."""


@dataclass(frozen=True)
class Past:
    """Where a source can be asked about."""

    source: str
    listed: int
    """It is listed from this size on."""
    size: int
    """Of the log."""


@dataclass(frozen=True)
class Latency:
    """Of one kind of read in one loop, in milliseconds."""

    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latency:
        cut = quantiles(seconds, n=100, method="inclusive")
        return cls(cut[49] * 1_000, cut[98] * 1_000)


@dataclass(frozen=True)
class Loop:
    """What one loop measured."""

    now: Latency
    then: Latency


def loops(home: Home, turns: int, seed: int) -> dict[str, Loop]:
    """One loop through each door of a home whose projection is at the head."""
    with home.opened() as (log, projector):
        where = pasts(log, projector.generations)
        on_store = loop(from_store(log, projector.generations), where, turns, seed)
    with over_grpc(home) as read:
        return {ON_STORE: on_store, OVER_GRPC: loop(read, where, turns, seed)}


def loop(read: Read, where: Sequence[Past], turns: int, seed: int) -> Loop:
    """So many sources, each read now and at a past size; a tenth more go before, unmeasured."""
    random = Random(seed)  # the same turns every time
    taken: dict[bool, list[float]] = {False: [], True: []}
    gc.collect()
    for turn in range(-turns // 10, turns):
        past = random.choice(where)
        size = random.randint(past.listed, past.size)
        for then in (turn % 2 == 0, turn % 2 == 1):
            started = time.perf_counter()
            answered = read(past.source, size if then else None)
            if turn >= 0:
                taken[then].append(time.perf_counter() - started)
            if answered != past.source:
                raise RuntimeError(f"asked for {past.source}, answered with {answered}")
    return Loop(Latency.of(taken[False]), Latency.of(taken[True]))


def pasts(log: Log, generations: Generations) -> list[Past]:
    """Every source, with the sizes at which it is listed."""
    sources, moment = Sources(log, generations), Clockwork(log, generations).moment(At())
    states = sources.shelf.states(moment)
    return [Past(key, states.turns(key)[0] + 1, moment.size) for key, _ in states.all()]


def from_store(log: Log, generations: Generations) -> Read:
    """As a question of the audit, on the store, in this process."""
    clockwork, sources = Clockwork(log, generations), Sources(log, generations)

    def read(source: str, size: int | None) -> str:
        return str(sources.one(source, clockwork.moment(At(size=size)))["id"])

    return read


@contextmanager
def over_grpc(home: Home) -> Iterator[Read]:
    """As a call, from this process to a server of its own."""
    with (
        served(home.settings.home, home.settings.db) as address,
        closing(grpc.insecure_channel(address, options=CHANNEL)) as channel,
    ):
        stub: audit_pb2_grpc.AuditStub = audit_pb2_grpc.AuditStub(channel)

        def read(source: str, size: int | None) -> str:
            at = audit_pb2.Coordinates() if size is None else audit_pb2.Coordinates(size=size)
            return stub.SourceAsOf(audit_pb2.SourceAsOfRequest(id=source, coordinates=at)).source.id

        yield read
