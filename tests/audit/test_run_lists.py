"""Lists of runs: what a filter takes, in which order, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ledger.audit.pages import decode_token
from ledger.audit.run_lists import QUESTION, RunFilter
from ledger.core.errors import InvalidInput
from tests.audit.running import OTHER, Asked, asked, declared, ended, saved, selected, steps, taken, told
from tests.projections.bench import Bench
from tests.rules.builders import SOURCE


@pytest.fixture
def bench() -> Iterator[Bench]:
    with asked() as made:
        made.append(*told(declared("z", taken(), campaign_id="one", arm="first"), ended("z", "failed")))
        made.append(*told(declared("a", taken(OTHER), campaign_id="two"), steps("a", {1: 0.5, 2: "NaN"})))
        made.append(*told(declared("b", taken(role="eval"), campaign_id="one"), saved("b", 2), selected("b", 2)))
        made.append(*told(declared("lone", taken(None, dataset="org/Svamp")), ended("lone"), ended("lone")))
        yield made


def listed(bench: Bench, **fields: Any) -> list[str]:
    known = {name: frozenset(value) if isinstance(value, list) else value for name, value in fields.items()}
    asking = Asked(bench)
    return [run["id"] for run in asking.questions.page(asking.moment(), RunFilter(**known)).runs]


def test_runs_stand_by_campaign_then_id_and_those_of_none_last(bench: Bench) -> None:
    assert listed(bench) == ["b", "z", "a", "lone"]


@pytest.mark.parametrize(
    ("fields", "taken_"),
    [
        ({"campaigns": ["one"]}, ["b", "z"]),
        ({"campaigns": ["one", "two"]}, ["b", "z", "a"]),
        ({"sources": [SOURCE]}, ["z"]),
        ({"sources": [SOURCE, OTHER]}, ["z", "a"]),
        ({"statuses": ["failed"]}, ["z"]),
        ({"statuses": ["open"]}, ["b", "a"]),
        ({"anomalies": ["non_finite"]}, ["a"]),
        ({"selected": True}, ["b"]),
        ({"selected": False}, ["z", "a", "lone"]),
        ({"has_flags": True, "campaigns": [], "search": "lone"}, ["lone"]),
        ({"search": "FIRST"}, ["z"]),
        ({"search": "svamp"}, ["z", "lone"]),
        ({"search": "org/base"}, ["b", "z", "a", "lone"]),
        ({"search": "nothing"}, []),
        ({"campaigns": ["one"], "statuses": ["open"]}, ["b"]),
    ],
)
def test_a_filter_takes_what_it_names(bench: Bench, fields: dict[str, Any], taken_: list[str]) -> None:
    assert listed(bench, **fields) == taken_


def test_pages_put_together_are_the_whole_list_at_one_size(bench: Bench) -> None:
    asking, which = Asked(bench), RunFilter()
    moment, found, start = asking.moment(), [], 0
    while True:
        page = asking.questions.page(moment, which, size=1, start=start)
        found += [run["id"] for run in page.runs]
        assert page.total == 4
        if not page.next_token:
            break
        (at,), start = decode_token(page.next_token, QUESTION, which)
        assert at.size == moment.size
    assert found == listed(bench)


@pytest.mark.parametrize("fields", [{"statuses": frozenset({"running"})}, {"anomalies": frozenset({"gloom"})}])
def test_a_value_that_no_run_can_have_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=f"filter.{next(iter(fields))}"):
        RunFilter(**fields)
