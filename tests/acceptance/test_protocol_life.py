"""A protocol's life from v2 to v4 under three rule sets: what was answered stays, and what would move is what moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest

from ledger.wire import audit_pb2
from tests.acceptance.conftest import ROWS, copied, open_doors
from tests.acceptance.corrected import CODE, CORRECTED, PAGE, Corrected
from tests.acceptance.doors import Doors
from tests.acceptance.protocol_life import (
    CHECKED,
    CHECKLIST,
    HELD,
    JUDGE,
    JUDGED,
    MEASURED_ONCE,
    MEASURED_TWICE,
    UNPROVED,
    UNTOUCHED,
    V2,
    V3,
    WATCHED,
    WIPED,
    Life,
    tell,
)

NOTICED: Final[Mapping[str, Callable[[dict[str, Any]], Any]]] = {
    "quality": lambda s: s["quality"],
    "applicability": lambda s: s["applicability"],
    "review": lambda s: s["review"] and s["review"]["id"],
    "difficulty": lambda s: s["difficulty"]["status"],
    "protocol": lambda s: s["difficulty"]["protocol"],
    "open_defects": lambda s: ", ".join(d["id"] for d in s["open_defects"]) or None,
    "suspected_defects": lambda s: ", ".join(d["id"] for d in s["suspected_defects"]) or None,
    "resolved_defects": lambda s: ", ".join(d["id"] for d in s["resolved_defects"]) or None,
}
"""What a reader notices of a source, read from what is shown."""
PROMOTIONS: Final = ("the code's rules", "the corrected rules", "rolled back", "the corrected rules again")
MOMENTS: Final = (
    "measured under v2",
    "v3 adopted",
    "measured under v3",
    "branched",
    "shadows built",
    "the code's rules",
    "v4 adopted",
    "the corrected rules",
    "rolled back",
    "the corrected rules again",
)


@pytest.fixture(scope="module")
def life(imported: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """The life, told by one server and looked back on at the next one on the same home."""
    folder = tmp_path_factory.mktemp("life")
    home = copied(imported, folder)
    rows = {row["id"]: row for row in ROWS}
    with open_doors(home) as doors:
        told = tell(doors, rows, folder)
    with open_doors(home) as doors:
        told.doors = doors
        told.sources = {key: Corrected(doors, source.row, folder) for key, source in told.sources.items()}
        yield told


def moved(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> dict[str, dict[str, tuple[Any, Any]]]:
    """What a reader would notice between two lists of all sources, by source and field."""
    old, new = ({source["id"]: source for source in side} for side in (before, after))
    assert old.keys() == new.keys()
    found = {}
    for key in old:
        sides = {name: (read(old[key]), read(new[key])) for name, read in NOTICED.items()}
        if differing := {name: side for name, side in sides.items() if side[0] != side[1]}:
            found[key] = differing
    return found


def told_by(report: dict[str, Any]) -> dict[str, dict[str, tuple[Any, Any]]]:
    """The same as an impact report tells it."""
    return {
        change["id"]: {field["field"]: (field["before"], field["after"]) for field in change["fields"]}
        for change in report["changes"]
    }


def answer(doors: Doors, source: str, **coordinates: Any) -> audit_pb2.SourceAsOfResponse:
    where = audit_pb2.Coordinates(**coordinates)
    request = audit_pb2.SourceAsOfRequest(id=source, coordinates=where)
    made: audit_pb2.SourceAsOfResponse = doors.connection.call(doors.connection.audit.SourceAsOf, request)
    return made


class TestImpact:
    @pytest.mark.parametrize("name", PROMOTIONS)
    def test_what_a_promotion_was_said_to_move_is_what_it_moved_and_nothing_else(self, life: Life, name: str) -> None:
        promotion = life.promotions[name]

        told = told_by(promotion.report)

        assert told == moved(promotion.before, promotion.after)
        assert 0 < len(told) < len(promotion.before) == len(ROWS)
        assert promotion.report["total"] == promotion.recorded["moved"] == promotion.event["moved"] == len(told)
        assert promotion.event["diff_digest"] == promotion.report["diff_digest"]
        assert promotion.event["size"] == promotion.report["size"] == promotion.recorded["size"] - 1

    def test_each_promotion_moves_the_sources_that_its_rules_judge_otherwise(self, life: Life) -> None:
        by_name = {name: told_by(life.promotions[name].report) for name in PROMOTIONS}

        coded, corrected = by_name["the code's rules"], by_name["the corrected rules"]
        assert coded.keys() >= {WIPED, JUDGED, CHECKED}
        assert coded[WIPED]["quality"] == ("good", "unrated")
        assert {coded[key]["difficulty"] for key in (JUDGED, CHECKED)} == {("historical", "current")}
        assert (corrected[HELD]["quality"], corrected[WIPED]["quality"]) == (
            ("bad", "some_issues"),
            ("unrated", "good"),
        )
        assert corrected[UNPROVED] == {"applicability": ("current", "unknown"), "difficulty": ("current", "historical")}
        assert not {JUDGED, CHECKED} & corrected.keys()
        assert all(UNTOUCHED not in told and MEASURED_TWICE not in told for told in by_name.values())

    def test_rolling_back_moves_everything_back_and_promoting_again_moves_it_again(self, life: Life) -> None:
        there, back, again = (told_by(life.promotions[name].report) for name in PROMOTIONS[1:])

        assert back == {key: {f: (b, a) for f, (a, b) in fields.items()} for key, fields in there.items()}
        assert again == there
        digests = [life.promotions[name].report["diff_digest"] for name in PROMOTIONS[1:]]
        assert digests[0] == digests[2] != digests[1]

    @pytest.mark.parametrize("name", PROMOTIONS)
    def test_a_report_names_the_rules_and_the_events_of_both_sides(self, life: Life, name: str) -> None:
        report = life.promotions[name].report

        for change in report["changes"]:
            for side in ("before", "after"):
                assert change[side], change["id"]
                positions = {pos for reason in change[side] for pos in reason["events"]}
                assert positions
                assert max(positions) < report["size"]
                assert all(reason["rule"] and reason["text"] for reason in change[side])

    @pytest.mark.parametrize("name", PROMOTIONS)
    def test_the_difference_of_the_two_sizes_is_the_impact_too(self, life: Life, name: str) -> None:
        report = life.promotions[name].report

        told = life.doors.tell("audit", "diff", report["size"], report["size"] + 1)

        assert told_by({"changes": told}) == told_by(report)


class TestRefusals:
    def test_the_page_knows_one_protocol_and_refuses_a_second_beside_it(self, life: Life) -> None:
        assert [problem["place"] for problem in life.refusals["beside"]["problems"]] == ["/replaces"]

    @pytest.mark.parametrize("rules", [CODE, CORRECTED])
    def test_rules_that_were_not_adopted_are_not_promoted_and_the_remedy_adopts_them(
        self, life: Life, rules: str
    ) -> None:
        assert f"ledger rules adopt {rules}" in life.refusals[rules]["remedy"]

    def test_a_difference_that_moved_meanwhile_is_not_promoted(self, life: Life) -> None:
        seen = life.promotions["the code's rules"].report
        assert seen["diff_digest"] in str(life.refusals["moved"])


class TestAnswers:
    @pytest.mark.parametrize("name", MOMENTS)
    def test_what_was_answered_then_is_answered_so_for_ever(self, life: Life, name: str) -> None:
        moment = life.moments[name]

        for key in WATCHED:
            assert life.sources[key].bytes_at(moment.size) == moment.then[key], key
            assert moment.under[key, moment.rules] == moment.then[key], key

    @pytest.mark.parametrize("rules", [PAGE, CODE, CORRECTED])
    @pytest.mark.parametrize("name", MOMENTS)
    def test_under_any_rules_equal_coordinates_give_equal_bytes_whoever_computes_them(
        self, life: Life, name: str, rules: str
    ) -> None:
        """At first nothing was built under two of the sets, and the log itself was folded for the answer."""
        moment = life.moments[name]

        for key in WATCHED:
            assert life.sources[key].bytes_at(moment.size, rules) == moment.under[key, rules], key

    def test_the_rules_in_force_then_are_those_of_the_last_promotion_before(self, life: Life) -> None:
        by_name = {name: moment.rules for name, moment in life.moments.items()}

        assert by_name == {
            **dict.fromkeys(MOMENTS[:5], PAGE),
            "the code's rules": CODE,
            "v4 adopted": CODE,
            "the corrected rules": CORRECTED,
            "rolled back": CODE,
            "the corrected rules again": CORRECTED,
        }

    @pytest.mark.parametrize(
        ("name", "protocol", "statuses"),
        [
            ("measured under v2", V2, ("current", "historical", "historical", "current")),
            ("v3 adopted", V2, ("historical", "historical", "historical", "historical")),
            ("measured under v3", V3, ("current", "current", "current", "current")),
            ("the corrected rules again", V3, ("current", "current", "current", "current")),
        ],
    )
    def test_the_three_named_answers_about_one_source(
        self, life: Life, name: str, protocol: str, statuses: tuple[str, ...]
    ) -> None:
        """Then; now about then; under the code's rules and under the corrected ones, with the policy of then."""
        asked: tuple[dict[str, Any], ...] = (
            {},
            {"rules": "now", "policy_at_head": True},
            {"rules": CODE},
            {"rules": CORRECTED},
        )

        size = life.moments[name].size
        shown = [answer(life.doors, MEASURED_TWICE, size=size, **where).source.difficulty for where in asked]

        assert [difficulty.status for difficulty in shown] == list(statuses)
        assert {difficulty.protocol for difficulty in shown} == {protocol}

    @pytest.mark.parametrize(
        ("name", "protocol", "then", "now_about_then"),
        [("branched", JUDGE, "historical", "current"), ("v4 adopted", JUDGE, "current", "current")],
    )
    def test_now_about_then_has_the_policy_of_now(
        self, life: Life, name: str, protocol: str, then: str, now_about_then: str
    ) -> None:
        size = life.moments[name].size

        shown = answer(life.doors, JUDGED, size=size)
        assert (shown.source.difficulty.status, shown.source.difficulty.protocol) == (then, protocol)
        now = answer(life.doors, JUDGED, size=size, rules="now", policy_at_head=True)
        assert now.source.difficulty.status == now_about_then
        assert (now.coordinates.rules, now.coordinates.policy_size) == (CORRECTED, life.doors.size)
        if then != now_about_then:
            same_rules = answer(life.doors, JUDGED, size=size, rules=CORRECTED)
            assert same_rules.source.difficulty.status == then, "it is the policy that differs"

    @pytest.mark.parametrize("name", MOMENTS)
    def test_what_is_said_now_about_then_can_be_asked_again_by_the_coordinates_that_it_echoes(
        self, life: Life, name: str
    ) -> None:
        size = life.moments[name].size

        for key in WATCHED:
            now = answer(life.doors, key, size=size, rules="now", policy_at_head=True)
            where = now.coordinates
            asked = {"size": where.size, "rules": where.rules, "policy_size": where.policy_size}
            again = answer(life.doors, key, **asked)
            assert again.source == now.source, key
            # By numbers nothing is left open; "now" and "head" will mean something else one day.
            assert (now.coordinates.final, again.coordinates.final) == (False, True)
            again.coordinates.final = False
            assert again.SerializeToString(deterministic=True) == now.SerializeToString(deterministic=True)

    def test_both_branches_count_for_their_own_sources_and_the_general_protocol_for_the_others(
        self, life: Life
    ) -> None:
        shown = {key: life.doors.shown(key)["difficulty"] for key in (JUDGED, CHECKED, MEASURED_TWICE, MEASURED_ONCE)}

        assert {key: (d["status"], d["protocol"]) for key, d in shown.items()} == {
            JUDGED: ("current", JUDGE),
            CHECKED: ("current", CHECKLIST),
            MEASURED_TWICE: ("current", V3),
            MEASURED_ONCE: ("withheld", V2),
        }
        assert [d["status"] for d in shown[MEASURED_TWICE]["history"]] == ["historical"]


class TestGenerations:
    def test_each_set_that_was_in_force_has_its_generation_and_its_promotions(self, life: Life) -> None:
        listed = {g["rules"]: g for g in life.doors.tell("projection", "list") if g["projection"] == "sources"}

        assert {rules: g["status"] for rules, g in listed.items()} == {PAGE: "kept", CODE: "kept", CORRECTED: "live"}
        assert [len(listed[rules]["promoted"]) for rules in (PAGE, CODE, CORRECTED)] == [1, 2, 2]

    @pytest.mark.parametrize("rules", [PAGE, CODE, CORRECTED])
    def test_a_rebuild_is_equal_and_changes_no_answer(self, life: Life, rules: str) -> None:
        rebuilt = life.doors.tell("projection", "rebuild", "--rules", rules)

        assert (rebuilt["equal"], rebuilt["differing_keys"]) == (True, [])
        assert rebuilt["compared_with"]
        for moment in life.moments.values():
            for key in WATCHED:
                assert life.sources[key].bytes_at(moment.size) == moment.then[key]
                assert life.sources[key].bytes_at(moment.size, rules) == moment.under[key, rules]
