"""Long questions at the door: however many are asked, decisions and single reads are answered meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.audit.judgments import Judgments
from ledger.audit.sources import Sources
from ledger.audit.timeline import Timelines
from ledger.core.errors import LedgerError
from ledger.wire import audit_pb2
from services.server.threads import LONG_QUESTIONS
from tests.rules import builders
from tests.rules.builders import SOURCE
from tests.server.doors import Doors, served

ASKED = 24
"""More than any server has common threads on the machines that the tests run on."""


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Every long question waits for the event, or for its caller to leave."""
    let = threading.Event()

    def wait(*_args: Any, check: Any = None, **_fields: Any) -> Any:
        while not let.is_set():
            check()
            time.sleep(0.01)
        raise LedgerError("it was let go", remedy="none")

    for where, name in ((Sources, "page"), (Judgments, "page"), (Judgments, "agreement"), (Timelines, "page")):
        monkeypatch.setattr(where, name, wait)
    yield let
    let.set()


def test_long_questions_do_not_keep_decisions_and_single_reads_waiting(tmp_path: Path, stuck: threading.Event) -> None:
    with served(tmp_path / "home", first_rules="atlas-page-1") as doors:
        doors.list_source()
        doors.source(min_size=doors.size())
        asked = [call for _ in range(ASKED // 4) for call in _long_questions(doors)]
        time.sleep(0.3)
        began = time.monotonic()
        doors.publish("r1", builders.good("r1"))
        assert doors.source(min_size=doors.size()).source.quality == "good"
        assert doors.why().source.id == SOURCE
        assert time.monotonic() - began < 5
        assert not any(call.done() for call in asked)
        stuck.set()
        assert [type(call.exception(20)).__name__ for call in asked] == ["_MultiThreadedRendezvous"] * len(asked)


def test_a_long_question_whose_caller_left_gives_its_turn_to_the_next(tmp_path: Path, stuck: threading.Event) -> None:
    with served(tmp_path / "home", first_rules="atlas-page-1") as doors:
        doors.list_source()
        leaving = [call for _ in range(LONG_QUESTIONS) for call in _long_questions(doors)]
        time.sleep(0.3)
        for call in leaving:
            call.cancel()
        asked = audit_pb2.QueueRequest(coordinates=audit_pb2.Coordinates(min_size=doors.size()))
        assert doors.audit.Queue(asked, timeout=10).coordinates.size == doors.size()
        assert not stuck.is_set()


def _long_questions(doors: Doors) -> list[Any]:
    """One of each kind, asked and not waited for."""
    return [
        doors.audit.ListSources.future(audit_pb2.ListSourcesRequest(), timeout=30),
        doors.audit.Judgments.future(audit_pb2.JudgmentsRequest(), timeout=30),
        doors.audit.Agreement.future(audit_pb2.AgreementRequest(), timeout=30),
        doors.audit.Timeline.future(audit_pb2.TimelineRequest(id=SOURCE), timeout=30),
    ]
