"""The SDK: connect to a ledger, read from it, write to it.

    from ledger.client import Reader, Recorder, Writer, actor, connect, draft

    with connect("127.0.0.1:7410") as connection:
        receipts = Writer(connection).append([draft(TYPE, STREAM, payload, by=actor("trainer-7"))])
        answer = Reader(connection).source("MarinSkyRL:svamp", at="2026-10-01")

    with Recorder("127.0.0.1:7410", run="taco-arm-3") as rec:
        rec.step(1, {"reward/avg_raw_reward": 0.84})

It promises: a call ends by its deadline; every failure is a `LedgerError` with a reason and a remedy; writing again
what was written is safe and answered with the first receipts. What is not listed here may change.
"""

from __future__ import annotations

from ledger.client.connection import Connection, connect
from ledger.client.drafts import Publication, actor, draft
from ledger.client.reader import Reader
from ledger.client.recording import Recorder, Report
from ledger.client.writer import Writer
from ledger.core.errors import LedgerError

__all__ = [
    "Connection",
    "LedgerError",
    "Publication",
    "Reader",
    "Recorder",
    "Report",
    "Writer",
    "actor",
    "connect",
    "draft",
]
