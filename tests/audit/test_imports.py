"""Imported audits that nobody published, at any size, from an index that is read on as the log grows."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.audit.imports import MAX_NAMED, Imports
from ledger.client.drafts import Draft
from ledger.core.errors import LedgerError
from ledger.events.administration import EventDisregarded
from tests.audit.asking import Asking
from tests.projections.bench import sqlite_bench
from tests.rules import builders
from tests.rules.builders import SOURCE
from tests.server.doors import of


def audited(collection: str, method: str = "static_inspection", **fields: Any) -> Draft:
    return of(builders.run(collection, method=method, tests_executed=None, **fields))


def test_an_imported_audit_waits_from_its_first_part_to_its_publication() -> None:
    with sqlite_bench() as bench:
        asking = Asking(bench)
        imports = Imports(asking.events, asking.disregards)
        assert imports.unpublished(0) == {}
        parts = [audited("a"), audited("a", "unknown"), audited("b")]
        bench.append(*parts)
        assert imports.unpublished(1) == {SOURCE: [[0]]}
        assert imports.unpublished(3) == {SOURCE: [[0, 1], [2]]}
        bench.append(of(builders.published("r", "a", [p.id for p in parts[:2]])))
        assert imports.unpublished(4) == {SOURCE: [[2]]}
        assert imports.unpublished(3) == {SOURCE: [[0, 1], [2]]}
        assert imports.unpublished(0) == {}


def test_native_runs_and_judgments_are_no_imported_audit() -> None:
    with sqlite_bench() as bench:
        size = bench.append(of(builders.run("a")), of(builders.judgment("b")), of(builders.synthesis("c")))
        asking = Asking(bench)
        assert Imports(asking.events, asking.disregards).unpublished(size) == {}


def test_a_disregarded_part_waits_for_nothing_and_a_disregarded_publication_publishes_nothing() -> None:
    with sqlite_bench() as bench:
        part, closing = audited("a"), of(builders.published("r", "a", []))
        bench.append(part, closing)
        bench.append(of(EventDisregarded(pos=1, event=closing.id, reason="too early"), "ledger"))
        bench.append(of(EventDisregarded(pos=0, event=part.id, reason="of another source"), "ledger"))
        asking = Asking(bench)
        imports = Imports(asking.events, asking.disregards)
        assert [imports.unpublished(size) for size in (2, 3, 4)] == [{}, {SOURCE: [[0]]}, {}]


def test_of_a_large_audit_the_first_parts_are_named() -> None:
    with sqlite_bench() as bench:
        size = bench.append(*[audited("a") for _ in range(MAX_NAMED + 3)])
        asking = Asking(bench)
        assert Imports(asking.events, asking.disregards).unpublished(size) == {SOURCE: [list(range(MAX_NAMED))]}


def test_a_look_that_is_stopped_midway_is_gone_on_with_and_nothing_is_told_twice() -> None:
    with sqlite_bench() as bench:
        for _ in range(3):
            bench.append(*[of(builders.run("native")) for _ in range(500)])
        size = bench.append(audited("a"))
        asking = Asking(bench)
        imports, calls = Imports(asking.events, asking.disregards), [0]

        def stop() -> None:
            calls[0] += 1
            if calls[0] == 2:
                raise LedgerError("nobody waits", reason="INTERRUPTED")

        with pytest.raises(LedgerError, match="nobody waits"):
            imports.unpublished(size, stop)
        assert imports.unpublished(size, stop) == {SOURCE: [[size - 1]]}
        assert calls[0] == 4
