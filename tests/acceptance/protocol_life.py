"""The life of a difficulty protocol in one log, told once: v2, v3, both v4 branches, and three rule sets in force in turn.

It begins under the page's rules with the real inventory. What was answered at each moment is kept as bytes, and what
each promotion said that it would move is kept beside what was then shown of every source.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ledger.client.protocols import definition
from services.cli.demo_plan import DATA
from tests.acceptance.corrected import CODE, CORRECTED, PAGE, Corrected
from tests.acceptance.curated import BAD
from tests.acceptance.doors import Doors

V2: Final = "atlas-difficulty-v2-65k16k"
V3: Final = "atlas-difficulty-v3-65k16k-qwen-recommended-nonthinking"
JUDGE: Final = "atlas-difficulty-v4-judge-verifier-nonthinking"
CHECKLIST: Final = "atlas-difficulty-v4-checklist-judge"

MEASURED_TWICE: Final = "MarinSkyRL:svamp"
"""Measured under v2, and again under v3."""
MEASURED_ONCE: Final = "MarinSkyRL:aime24"
"""Measured under v2 alone."""
UNPROVED: Final = "MarinSkyRL:gsm8k"
"""Measured twice; its review does not show which verifier ran."""
HELD: Final = "MarinSkyRL:asdiv"
"""Bad, then a defect, then a Good review."""
WIPED: Final = "MarinSkyRL:apps"
"""Good, then a supplemental review."""
JUDGED: Final = "Task Trove:laion__stackexchange-codereview-sandboxes-verified-v2"
CHECKED: Final = "Task Trove:laion__nemotron-gym-safety-v3"
"""Measured under a v4 branch each."""
UNTOUCHED: Final = "MarinSkyRL:math500"
WATCHED: Final = (MEASURED_TWICE, MEASURED_ONCE, UNPROVED, HELD, WIPED, JUDGED, CHECKED, UNTOUCHED)


@dataclass(frozen=True)
class Moment:
    """What was answered at a size, while that was the newest one."""

    size: int
    rules: str
    """Then in force."""
    then: dict[str, bytes]
    """By source."""
    under: dict[tuple[str, str], bytes]
    """By source and rule set."""


@dataclass(frozen=True)
class Promotion:
    """What a promotion was said to move, what it recorded, and what was shown before and after it."""

    report: dict[str, Any]
    recorded: dict[str, Any]
    event: dict[str, Any]
    before: list[dict[str, Any]]
    after: list[dict[str, Any]]


@dataclass
class Life:
    """The log as it came to be."""

    doors: Doors
    sources: dict[str, Corrected]
    moments: dict[str, Moment] = field(default_factory=dict)
    promotions: dict[str, Promotion] = field(default_factory=dict)
    refusals: dict[str, dict[str, Any]] = field(default_factory=dict)

    def mark(self, name: str) -> None:
        """Keeps what is answered now."""
        size = self.doors.size
        then = {key: source.bytes_at(size) for key, source in self.sources.items()}
        under = {
            (key, rules): source.bytes_at(size, rules)
            for key, source in self.sources.items()
            for rules in (PAGE, CODE, CORRECTED)
        }
        rules = self.doors.tell("source", "show", UNTOUCHED, "--at", size)["rules"]
        self.moments[name] = Moment(size, rules, then, under)

    def promote(self, name: str, rules: str) -> None:
        """Lets a generation answer, and keeps both sides of it."""
        report = self.doors.tell("projection", "diff", rules)
        before = self.doors.listed("--retired", include_retired=True)
        digest = report["diff_digest"]
        recorded = self.doors.tell("projection", "promote", rules, "--diff-digest", digest, "--actor", "curator-1")
        after = self.doors.listed("--retired", include_retired=True)
        event = self.doors.payload(recorded["receipt"]["pos"])
        self.promotions[name] = Promotion(report, recorded, event, before, after)


def report_under(source: Corrected, protocol: str, **configuration: Any) -> None:
    """Publishes a report that keeps to a protocol."""
    terms = definition(protocol)
    report = json.loads((DATA / "difficulty" / "svamp.json").read_text())
    report |= {"atlas_id": source.id, "source_revision": source.dataset, "verifier_revision": source.verifier}
    report["protocol"] = {
        "id": protocol,
        "context_window": terms.context_window,
        "max_input_tokens": terms.max_input_tokens,
        "max_output_tokens": terms.max_output_tokens,
    }
    for model, asked in zip(report["models"], terms.models, strict=True):
        model |= {"model": asked.model, "generation_parameters": asked.generation_parameters}
    report["limitations"] = [f"Under {protocol}."]
    report["verifier_configuration"] = configuration
    path = source.folder / f"{source.id.rpartition(':')[2]}-{protocol}.json"
    path.write_text(json.dumps(report))
    source.doors.record("difficulty", "publish", path)


def judge_of(protocol: str) -> dict[str, Any]:
    """A judge as the branch asks for it, with what must be recorded."""
    judge = definition(protocol).judge
    assert judge is not None
    return {judge.key: {**judge.required, **dict.fromkeys(judge.not_empty, "as recorded")}}


def tell(doors: Doors, rows: dict[str, dict[str, Any]], folder: Path) -> Life:
    """Lives it."""
    life = Life(doors, {key: Corrected(doors, rows[key], folder) for key in WATCHED})
    _measure_under_v2(life)
    _adopt_v3(life)
    _branch(life)
    _change_the_rules(life)
    return life


def _measure_under_v2(life: Life) -> None:
    for key in (MEASURED_TWICE, MEASURED_ONCE):
        life.sources[key].review()
    life.sources[UNPROVED].review(executed_commit="7" * 40)
    for key in (MEASURED_TWICE, MEASURED_ONCE, UNPROVED):
        report_under(life.sources[key], V2)
    life.mark("measured under v2")


def _adopt_v3(life: Life) -> None:
    life.doors.record("protocol", "define", V3)
    life.doors.record("protocol", "adopt", V3)
    life.mark("v3 adopted")
    for key in (MEASURED_TWICE, UNPROVED):
        report_under(life.sources[key], V3)
    life.mark("measured under v3")


def _branch(life: Life) -> None:
    """Both branches are defined, and reported under; the page's rules have no place for a second protocol."""
    for protocol, key in ((JUDGE, JUDGED), (CHECKLIST, CHECKED)):
        source = life.sources[key]
        life.doors.record("protocol", "define", protocol)
        source.revise(verifier="9" * 40)
        source.review()
        report_under(source, protocol, **judge_of(protocol))
    beside = ("protocol", "adopt", JUDGE, "--beside")
    life.refusals["beside"] = life.doors.refused(*beside, code=5, reason="REFUSED_BY_RULES")
    held, wiped = life.sources[HELD], life.sources[WIPED]
    held.review(**BAD)
    held.confirm()
    held.review()
    wiped.review()
    wiped.review(supplemental=True)
    life.mark("branched")


def _change_the_rules(life: Life) -> None:
    for rules in (CODE, CORRECTED):
        life.doors.tell("projection", "rebuild", "--rules", rules)
        promote = ("projection", "promote", rules, "--yes")
        life.refusals[rules] = life.doors.refused(*promote, code=5, reason="NOT_ADOPTED")
        life.doors.record("rules", "adopt", rules)
    life.mark("shadows built")
    stale = life.doors.tell("projection", "diff", CODE)["diff_digest"]
    life.sources[MEASURED_ONCE].confirm()
    moved = ("projection", "promote", CODE, "--diff-digest", stale)
    life.refusals["moved"] = life.doors.refused(*moved, code=5, reason="DIFF_MOVED")
    life.promote("the code's rules", CODE)
    life.mark("the code's rules")
    for protocol in (JUDGE, CHECKLIST):
        life.doors.record("protocol", "adopt", protocol, "--beside")
    life.mark("v4 adopted")
    life.promote("the corrected rules", CORRECTED)
    life.mark("the corrected rules")
    life.promote("rolled back", CODE)
    life.mark("rolled back")
    life.promote("the corrected rules again", CORRECTED)
    life.mark("the corrected rules again")
