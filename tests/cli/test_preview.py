"""A dry run of a publication says what the ledger shows once it is published, to the position of every event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.client import Reader, connect
from ledger.client.drafts import Publication
from ledger.core.errors import Refused
from ledger.core.ids import new_id
from ledger.rules.sets import RULE_SETS
from services.cli.preview import preview
from services.server.app import in_process
from services.server.settings import Settings
from tests.rules import builders
from tests.server.doors import Doors, of, opened


class Both:
    """A ledger that lists one source, as the command reads it and as a test writes to it."""

    def __init__(self, reader: Reader, doors: Doors) -> None:
        self.reader = reader
        self.doors = doors

    def foretold(self, publication: Publication) -> dict[str, Any]:
        shown = preview(self.reader, publication, builders.SOURCE)
        assert shown is not None
        return _told(shown["quality"], shown["applicability"], shown["reasons"])

    def published(self, publication: Publication) -> dict[str, Any]:
        size = self.doors.append(*publication.drafts).size
        shown = self.doors.source(min_size=size).source
        reasons = [{"rule": r.rule, "text": r.text, "events": list(r.events)} for r in shown.reasons]
        return _told(shown.quality, shown.applicability or None, reasons)


def _told(quality: str, applicability: str | None, reasons: list[dict[str, Any]]) -> dict[str, Any]:
    said = [(r["rule"], r["text"], list(r["events"])) for r in reasons]
    return {"quality": quality, "applicability": applicability, "reasons": said}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Both]:
    settings = Settings(tmp_path / "home", first_rules="atlas-page-1")
    with in_process(settings) as address, opened(address) as doors, connect(address) as connection:
        doors.list_source()
        doors.put_named("trace", "quality-reviews.json", "input-1", "input-2")
        yield Both(Reader(connection), doors)


def review(name: str, **fields: Any) -> Publication:
    parts = [of(part) for part in builders.good(name)]
    closing = of(builders.published(name, name, [p.id for p in parts], **fields))
    return Publication(parts=tuple(parts), closing=closing)


@pytest.mark.parametrize("rules", RULE_SETS)
def test_it_is_foretold_under_whichever_rules_are_in_force(rules: str, ledger: Both) -> None:
    if rules != "atlas-page-1":
        ledger.doors.adopt(rules)
        ledger.doors.rebuild(rules)
        ledger.doors.promote(rules)
    publication = review("r1", verifier_revision_basis="catalogue")
    assert ledger.foretold(publication) == ledger.published(publication)
    assert ledger.doors.source().coordinates.rules == rules


def test_what_was_disregarded_counts_for_nothing(ledger: Both) -> None:
    ledger.doors.append(of(builders.confirmed("d1")))
    publication = review("r1")
    capped = ledger.foretold(publication)["quality"]
    ledger.doors.disregard(ledger.doors.size() - 1)
    assert (capped, ledger.foretold(publication)["quality"]) == ("some_issues", "good")
    assert ledger.foretold(publication) == ledger.published(publication)


def test_the_rules_in_force_refuse_in_a_dry_run_what_they_would_refuse(ledger: Both) -> None:
    publication = review("r1", rests_on=[new_id()])
    assert ledger.foretold(publication)["quality"] == "good"
    ledger.doors.adopt("ledger-1")
    ledger.doors.rebuild("ledger-1")
    ledger.doors.promote("ledger-1")
    with pytest.raises(Refused) as refused:
        ledger.foretold(publication)
    assert any("/rests_on" in problem.place for problem in refused.value.problems)
