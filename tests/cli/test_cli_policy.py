"""ledger rules and ledger protocol: what is permitted, defined and adopted, and since when."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.client import Writer, actor, connect, draft, protocols
from ledger.client.writer import raise_refused
from ledger.core import clock
from ledger.events.administration import EventDisregarded
from ledger.rules.sets import ALL_RULE_SETS, DEFAULT_RUN_RULES, RULE_SETS, rules_digest
from services.cli.commands.rules import about, in_force
from services.cli.policy_history import Moment, RuleSetHistory
from services.server.app import in_process
from services.server.settings import Settings

from .conftest import Ran, Run

PAGE, CODE = "atlas-page-1", "atlas-code-1"
V2 = "atlas-difficulty-v2-65k16k"
V3 = "atlas-difficulty-v3-65k16k-qwen-recommended-nonthinking"
V4 = "atlas-difficulty-v4-checklist-judge"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def address(home: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """A new log that starts under the page's rules, or under those that the test asks for."""
    with in_process(Settings(home=home, first_rules=getattr(request, "param", PAGE))) as address:
        yield address


@pytest.fixture
def own(run: Run, address: str) -> Run:
    return lambda *arguments: run(*arguments, "--address", address)


under_code = pytest.mark.parametrize("address", [CODE], indirect=True, ids=["code"])


def of(got: Ran, key: str, name: str) -> Any:
    return next(item for item in got.json if item[key] == name)


class TestRules:
    def test_the_list_says_since_which_size_a_set_is_in_force_and_since_which_it_was_before(self) -> None:
        moments = [Moment(pos, f"event-{pos}", "2026-10-01T00:00:00.000000Z") for pos in (4, 214)]

        assert in_force(RuleSetHistory(promoted=tuple(moments[:1]), in_force=True)) == "since size 5"
        assert in_force(RuleSetHistory(promoted=tuple(moments[:1]))) == "no; once since size 5"
        assert in_force(RuleSetHistory(promoted=tuple(moments), in_force=True)) == (
            "since size 215, before that since size 5"
        )
        assert in_force(RuleSetHistory()) == "no"

    def test_the_size_since_which_a_set_is_in_force_is_the_one_that_the_projections_say(self, own: Run) -> None:
        live, _runs = own("projection", "list", "--json").json
        (line,) = [each for each in own("rules", "list").out.splitlines() if each.startswith(PAGE)]

        assert line.endswith(f"since size {live['promoted'][0] + 1}")

    def test_the_list_has_every_set_of_the_release_with_its_digest(self, own: Run) -> None:
        listed = own("rules", "list", "--json").json

        assert {item["rules"]: item["digest"] for item in listed} == {
            name: rules_digest(name) for name in ALL_RULE_SETS
        }

    def test_a_new_log_has_adopted_and_put_in_force_the_set_that_it_started_under(self, own: Run) -> None:
        listed = own("rules", "list", "--json")
        first, other = of(listed, "rules", PAGE), of(listed, "rules", CODE)

        assert (first["adopted_digest"], first["in_force"]) == (rules_digest(PAGE), True)
        assert (first["adopted"]["pos"], [moment["pos"] for moment in first["promoted"]]) == (1, [4])
        assert (other["adopted"], other["adopted_digest"], other["in_force"]) == (None, None, False)

    def test_before_its_first_events_nothing_is_adopted(self, own: Run) -> None:
        for at in ("0", "1", "2020-01-01"):
            listed = own("rules", "list", "--at", at, "--json").json
            assert not any(item["adopted"] or item["in_force"] for item in listed if item["of"] == "sources")

    def test_adopting_permits_a_set_and_puts_nothing_in_force(self, own: Run) -> None:
        got = own("rules", "adopt", CODE, "--note", "to compare with", "--json").json
        listed = own("rules", "list", "--json")

        assert (got["recorded"], got["events"][0]["type"]) == (1, "rules.adopted")
        assert of(listed, "rules", CODE)["adopted"]["pos"] == got["events"][0]["pos"]
        assert (of(listed, "rules", CODE)["in_force"], of(listed, "rules", PAGE)["in_force"]) == (False, True)
        before = own("rules", "list", "--at", got["size"] - 1, "--json")
        assert of(before, "rules", CODE)["adopted"] is None

    def test_adopting_again_says_so_and_appends_nothing(self, own: Run) -> None:
        size = own("rules", "adopt", CODE, "--json").json["size"]
        got = own("rules", "adopt", CODE)

        assert f"{CODE} is adopted already, since position" in got.out
        assert f"at size {size}" in got.err

    def test_a_dry_run_appends_nothing(self, own: Run) -> None:
        got = own("rules", "adopt", CODE, "--dry-run", "--json").json

        assert (got["dry_run"], got["events"][0]["type"]) == (True, "rules.adopted")
        assert of(own("rules", "list", "--json"), "rules", CODE)["adopted"] is None

    def test_a_set_that_is_not_carried_cannot_be_adopted_or_shown(self, own: Run) -> None:
        for words in (("adopt", "nope"), ("show", "nope")):
            assert own("rules", *words, "--json").error["reason"] == "NOT_FOUND"

    def test_a_set_that_another_release_adopted_has_no_digest_here(self) -> None:
        known = RuleSetHistory(adopted=Moment(7, "e7", "2026-10-01T00:00:00Z"), adopted_digest="d")

        assert (about("later-1", known)["digest"], about("later-1", known)["adopted"]["pos"]) == (None, 7)

    def test_a_disregarded_adoption_counts_for_nothing_from_there_on(self, own: Run, address: str) -> None:
        event = own("rules", "adopt", CODE, "--json").json["events"][0]
        payload = EventDisregarded(pos=event["pos"], event=event["id"], reason="a mistake")
        drafts = [draft("event.disregarded", "ledger", payload, by=actor("me"))]
        with connect(address) as connection:
            raise_refused(drafts, Writer(connection).append(drafts))

        assert of(own("rules", "list", "--json"), "rules", CODE)["adopted"] is None
        before = own("rules", "list", "--at", event["pos"] + 1, "--json")
        assert of(before, "rules", CODE)["adopted"]["pos"] == event["pos"]

    def test_those_of_runs_are_in_force_without_being_adopted(self, own: Run) -> None:
        found = of(own("rules", "list", "--json"), "rules", DEFAULT_RUN_RULES)
        assert (found["of"], found["in_force"], found["adopted"], found["promoted"]) == ("runs", True, None, [])
        assert {item["of"] for item in own("rules", "list", "--json").json if item["rules"] in RULE_SETS} == {"sources"}
        refused = own("rules", "adopt", DEFAULT_RUN_RULES, "--json")
        assert refused.error["reason"] == "REFUSED_BY_RULES"
        assert "folds runs" in refused.error["message"]

    @pytest.mark.parametrize("rules", ALL_RULE_SETS)
    def test_show_says_what_a_set_is_module_by_module(self, own: Run, rules: str) -> None:
        shown = own("rules", "show", rules, "--json").json

        assert (shown["rules"], shown["digest"]) == (rules, rules_digest(rules))
        assert shown["about"].startswith(f"The rule set `{rules}`")
        assert {"decide", "fold", "show"} <= shown["modules"].keys()
        text = own("rules", "show", rules).out
        assert rules_digest(rules) in text
        assert "decide" in text

    def test_a_size_that_the_log_has_not_come_to_is_not_found(self, own: Run) -> None:
        assert own("rules", "list", "--at", "999", "--json").error["reason"] == "NOT_FOUND"


class TestProtocolsInTheLog:
    def test_a_new_log_defines_and_adopts_one_and_tells_what_else_is_shipped(self, own: Run) -> None:
        (first,) = own("protocol", "list", "--json").json
        table = own("protocol", "list")

        assert (first["protocol"], first["stands"], first["adopted"]["pos"]) == (V2, True, 3)
        assert V4 in table.err
        assert V4 not in table.out

    def test_a_shipped_one_is_defined_whole_and_once(self, own: Run) -> None:
        first = own("protocol", "define", V4, "--json").json
        again = own("protocol", "define", V4, "--json").json
        shown = own("protocol", "show", V4, "--json").json

        assert (first["recorded"], again["recorded"], again["size"]) == (1, 0, first["size"])
        assert "defined so already" in again["summaries"][0]
        assert shown["terms"] == protocols.definition(V4).model_dump(mode="json")
        assert (shown["defined"]["pos"], shown["stands"]) == (first["events"][0]["pos"], False)

    def test_one_is_defined_from_a_file(self, own: Run, tmp_path: Path) -> None:
        file = tmp_path / "mine.json"
        mine = {**json.loads(protocols.definition(V3).model_dump_json()), "protocol": "mine"}
        file.write_text(json.dumps(mine))

        assert own("protocol", "define", file).code == 0
        assert own("protocol", "show", "mine", "--json").json["terms"] == mine

    def test_another_definition_of_a_known_name_is_refused(self, own: Run, tmp_path: Path) -> None:
        file = tmp_path / "other.json"
        file.write_text(protocols.definition(V2).model_copy(update={"context_window": 8192}).model_dump_json())

        got = own("protocol", "define", file, "--json")
        assert (got.code, got.error["reason"]) == (5, "REFUSED_BY_RULES")

    @pytest.mark.parametrize(
        ("content", "place"), [('{"protocol": "x"}', "#/models"), ("{", "#"), ("[]", "#"), ('{"a": 1, "a": 2}', "#")]
    )
    def test_a_file_that_holds_no_definition_is_refused_with_every_fault(
        self, own: Run, tmp_path: Path, content: str, place: str
    ) -> None:
        file = tmp_path / "bad.json"
        file.write_text(content)
        error = own("protocol", "define", file, "--json").error

        assert error["reason"] == "INVALID_FILE"
        assert any(problem["place"].startswith(f"{file}{place}") for problem in error["problems"])

    def test_a_file_that_is_not_there_is_said_so(self, own: Run, tmp_path: Path) -> None:
        assert "cannot be read" in own("protocol", "define", tmp_path / "none.json", "--json").error["message"]

    def test_a_name_that_is_not_shipped_is_answered_with_those_that_are(self, own: Run) -> None:
        assert V4 in own("protocol", "define", "nope", "--json").error["remedy"]
        assert V4 in own("protocol", "show", "nope", "--json").error["remedy"]

    def test_show_prints_the_terms_as_they_are_shipped_where_the_log_defines_none(self, own: Run) -> None:
        got = own("protocol", "show", V4).out

        for expected in ("as it is shipped", "${TOGETHER_API_KEY}", "substitution_reason", "zai-org/GLM-5.3"):
            assert expected in got
        assert '{"enable_thinking":false} (must be recorded)' in got


class TestAdoptingProtocols:
    def test_it_takes_the_place_of_the_one_that_stands(self, own: Run) -> None:
        own("protocol", "define", V3)
        got = own("protocol", "adopt", V3, "--json").json
        listed = own("protocol", "list", "--json")
        pos = got["events"][0]["pos"]

        assert (of(listed, "protocol", V3)["stands"], of(listed, "protocol", V3)["adopted"]["pos"]) == (True, pos)
        old = of(listed, "protocol", V2)
        assert (old["stands"], old["replaced_by"], old["replaced"]["pos"]) == (False, V3, pos)
        assert f"{V3} at {pos}" in own("protocol", "list").out

    def test_what_stood_before_can_be_asked_for_by_size_and_by_time(self, own: Run) -> None:
        own("protocol", "define", V3)
        event = own("protocol", "adopt", V3, "--json").json["events"][0]
        just_before = clock.to_text(clock.from_text(event["recorded_at"]) - 1)

        for at in (event["pos"], just_before):
            assert of(own("protocol", "list", "--at", at, "--json"), "protocol", V2)["stands"] is True
        assert of(own("protocol", "list", "--at", event["recorded_at"], "--json"), "protocol", V2)["stands"] is False

    def test_adopting_again_says_so_and_appends_nothing(self, own: Run) -> None:
        got = own("protocol", "adopt", V2, "--json").json
        assert (got["recorded"], got["summaries"]) == (0, [f"{V2} is adopted already, since position 3"])

    def test_one_that_was_replaced_can_be_adopted_again(self, own: Run) -> None:
        own("protocol", "define", V3)
        own("protocol", "adopt", V3)
        assert own("protocol", "adopt", V2).code == 0
        listed = own("protocol", "list", "--json")
        assert (of(listed, "protocol", V2)["stands"], of(listed, "protocol", V3)["stands"]) == (True, False)

    def test_a_dry_run_appends_nothing(self, own: Run) -> None:
        own("protocol", "define", V3)
        assert own("protocol", "adopt", V3, "--dry-run", "--json").json["events"][0]["type"] == "protocol.adopted"
        assert of(own("protocol", "list", "--json"), "protocol", V3)["stands"] is False

    def test_one_that_is_not_defined_cannot_be_adopted_and_what_to_do_is_said(self, own: Run) -> None:
        assert f"ledger protocol define {V4}" in own("protocol", "adopt", V4, "--json").error["remedy"]
        assert V2 in own("protocol", "adopt", "nope", "--json").error["remedy"]

    def test_in_the_place_of_one_that_does_not_stand_is_refused_by_the_rules(self, own: Run) -> None:
        own("protocol", "define", V3)
        assert own("protocol", "adopt", V3, "--replaces", "nope", "--json").error["reason"] == "REFUSED_BY_RULES"

    def test_the_pages_rules_permit_none_beside_another(self, own: Run) -> None:
        own("protocol", "define", V4)
        assert own("protocol", "adopt", V4, "--beside", "--json").error["reason"] == "REFUSED_BY_RULES"

    def test_both_flags_are_a_usage_error(self, own: Run) -> None:
        own("protocol", "define", V4)
        assert own("protocol", "adopt", V4, "--beside", "--replaces", V2).code == 2

    @under_code
    def test_where_the_rules_permit_it_two_stand_beside_each_other_until_one_is_named(self, own: Run) -> None:
        own("protocol", "define", V4)
        own("protocol", "define", V3)
        assert own("protocol", "adopt", V4, "--beside").code == 0
        listed = own("protocol", "list", "--json")
        assert [item["protocol"] for item in listed.json if item["stands"]] == [V2, V4]

        refused = own("protocol", "adopt", V3, "--json")
        assert (refused.code, "--replaces" in refused.error["remedy"]) == (2, True)
        assert own("protocol", "adopt", V3, "--replaces", V2).code == 0
        listed = own("protocol", "list", "--json")
        assert {item["protocol"] for item in listed.json if item["stands"]} == {V3, V4}
