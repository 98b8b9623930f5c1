"""The arms of a campaign: what varies, how each ended, and which of them may be ranked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.audit.curves import MAX_POINTS, thinned
from ledger.audit.sweeps import Sweep
from ledger.core.errors import InvalidInput, NotFound
from ledger.events.runs import Arm, ConfigRecorded
from tests.audit.running import (
    ENTROPY,
    OTHER,
    SETTINGS,
    Asked,
    asked,
    attempt,
    attempt_ended,
    campaign,
    declared,
    ended,
    saved,
    selected,
    steps,
    taken,
    told,
)
from tests.projections.bench import Bench
from tests.rules.builders import SOURCE, sha

REDUCTION = "trainer.algorithm.loss_reduction"


@pytest.fixture
def bench() -> Iterator[Bench]:
    with asked() as made:
        yield made


def arm(bench: Bench, run: str, rewards: dict[int, float], *sources: Any, **fields: Any) -> None:
    """A whole arm of the campaign "sweep"."""
    known = {"campaign_id": "sweep", "arm": run, **fields}
    bench.append(*told(declared(run, *(sources or (taken(),)), **known), attempt(run), steps(run, rewards), ended(run)))


def swept(bench: Bench, *, compare_unlike: bool = False, size: int | None = None) -> Sweep:
    asking = Asked(bench)
    return asking.questions.sweep(asking.moment(size), "sweep", compare_unlike=compare_unlike)


def test_arms_over_sources_are_ranked_by_their_highest_ema(bench: Bench) -> None:
    bench.append(*told(campaign("sweep")))
    arm(bench, "low", {1: 0.1, 2: 0.2, 3: 0.3})
    arm(bench, "high", {1: 0.2, 2: 0.9, 3: 0.1}, taken(OTHER, data="data-9"))
    found = swept(bench)
    assert [(a.run, a.varies, a.end_step) for a in found.arms] == [("high", OTHER, 3), ("low", SOURCE, 3)]
    (group,) = found.groups
    assert (group.ranking, group.unknown, group.differs_in, group.warnings) == (("high", "low"), (), (), ())


def test_the_ranking_is_over_the_last_lineage_and_not_over_what_was_given_up(bench: Bench) -> None:
    bench.append(*told(campaign("sweep")))
    arm(bench, "steady", {1: 0.3, 2: 0.3, 3: 0.3})
    begun = declared("restarted", taken(), campaign_id="sweep")
    bench.append(
        *told(begun, attempt("restarted"), steps("restarted", {1: 0.2, 2: 1.0, 3: 1.0}), saved("restarted", 1))
    )
    bench.append(*told(attempt_ended("restarted"), attempt("restarted", 2, (1, 1))))
    bench.append(*told(steps("restarted", {2: 0.2, 3: 0.2}, 2)))
    found = swept(bench)
    assert found.groups[0].ranking == ("steady", "restarted")
    (arm_,) = [a for a in found.arms if a.run == "restarted"]
    assert [(p.step, p.reward) for p in arm_.curve] == [(1, 0.2), (2, 0.2), (3, 0.2)]


def test_an_arm_whose_revision_nobody_knows_is_not_ranked_and_it_is_said(bench: Bench) -> None:
    bench.append(*told(campaign("sweep")))
    arm(bench, "known", {1: 0.1})
    arm(bench, "unknown", {1: 0.9}, taken(OTHER, data=None))
    known, unknown = swept(bench).groups
    assert (known.runs, known.ranking, known.unknown) == (("known",), ("known",), ())
    assert (unknown.runs, unknown.ranking, unknown.unknown) == (("unknown",), (), ("dataset_revision",))
    assert unknown.warnings == (
        "Not ranked: nobody can say that they are alike in dataset revision, which is not recorded of each.",
    )


def test_unlike_arms_are_ranked_only_when_it_is_asked_and_then_it_says_in_what(bench: Bench) -> None:
    bench.append(*told(campaign("sweep")))
    arm(bench, "small", {1: 0.1, 2: 0.1})
    bigger = SETTINGS.model_copy(update={"train_batch_size": 128})
    arm(bench, "big", {1: 0.9}, taken(OTHER, data=None), algorithm=bigger)
    apart = swept(bench)
    assert [group.runs for group in apart.groups] == [("big",), ("small",)]
    assert apart.groups[1].differs_in == ("dataset_revision", "train_batch_size")
    (together,) = swept(bench, compare_unlike=True).groups
    assert together.ranking == ("big", "small")
    assert (together.differs_in, together.unknown) == (("train_batch_size",), ("dataset_revision",))
    unlike, unknown, ends = together.warnings
    assert unlike == "Unlike arms are compared: they differ in train batch size."
    assert unknown.startswith("Arms are compared although nobody can say that they are alike in dataset revision")
    assert ends.startswith("Arms ended at different steps (big at step 1, small at step 2)")


def test_a_setting_that_is_compared_varies_and_need_not_be_alike(bench: Bench) -> None:
    bench.append(*told(campaign("sweep", compares="setting", setting=REDUCTION)))
    arm(bench, "tokens", {1: 0.1})
    sequences = SETTINGS.model_copy(update={"loss_reduction": "sequence_mean"})
    arm(bench, "sequences", {1: 0.2}, algorithm=sequences)
    found = swept(bench)
    assert [(a.run, a.varies) for a in found.arms] == [("sequences", "sequence_mean"), ("tokens", "token_mean")]
    assert [group.runs for group in found.groups] == [("sequences", "tokens")]


def test_where_only_a_setting_is_compared_sources_and_their_revisions_must_be_alike(bench: Bench) -> None:
    bench.append(*told(campaign("sweep", compares="setting", setting=REDUCTION)))
    arm(bench, "a", {1: 0.1})
    arm(bench, "b", {1: 0.1}, taken(data="data-2"))
    arm(bench, "c", {1: 0.1}, taken(OTHER))
    assert [group.differs_in for group in swept(bench).groups] == [
        (), ("dataset_revision",), ("dataset_revision", "verifier_revision", "sources"),
    ]  # fmt: skip


def test_what_varies_is_read_from_the_configuration_else_from_the_plan(bench: Bench) -> None:
    arms = [Arm(arm="planned", settings={"x.y": 3}), Arm(arm="never")]
    bench.append(*told(campaign("sweep", *arms, compares="setting", setting="x.y")))
    arm(bench, "planned", {1: 0.1})
    arm(bench, "recorded", {1: 0.1})
    config = ConfigRecorded(run_id="recorded", attempt=1, moment="start", digest=sha("c"), settings={"x.y": 5})
    bench.append(*told(config))
    found = swept(bench)
    assert [(a.run, a.varies) for a in found.arms] == [("planned", "3"), ("recorded", "5")]
    assert found.not_recorded == ("never",)


def test_the_last_selection_and_its_ema_stand_with_an_arm(bench: Bench) -> None:
    bench.append(*told(campaign("sweep")))
    arm(bench, "a", {1: 0.3, 2: 0.6})
    bench.append(*told(saved("a", 1), saved("a", 2), selected("a", 2)))
    (found,) = swept(bench).arms
    assert (found.selected_step, found.selected_ema) == (2, pytest.approx(0.4))


def test_a_selection_that_was_recorded_with_an_ema_that_is_no_number_keeps_it(bench: Bench) -> None:
    bench.append(*told(declared("a", taken(), campaign_id="sweep"), saved("a", 2), selected("a", 2, ema="NaN")))
    (found,) = swept(bench).arms
    assert found.selected_ema is not None
    assert math.isnan(found.selected_ema)


def test_an_arm_of_which_no_step_was_recorded_is_told_and_ranked_last(bench: Bench) -> None:
    bench.append(*told(campaign("sweep")))
    arm(bench, "z", {1: 0.0})
    bench.append(*told(declared("a", taken(OTHER), campaign_id="sweep")))
    (group,) = swept(bench).groups
    assert group.ranking == ("z", "a")
    assert group.warnings[-1] == "No step of a was recorded: it has no curve, and no place in a ranking but the last."


def test_a_campaign_that_runs_name_and_nobody_declared_has_arms_all_the_same(bench: Bench) -> None:
    arm(bench, "a", {1: 0.1})
    found = swept(bench)
    assert (found.campaign, [a.varies for a in found.arms]) == ({"id": "sweep"}, ["a"])


def test_a_run_that_the_campaign_plans_is_an_arm_of_it_unless_it_names_another(bench: Bench) -> None:
    plan = [Arm(arm="one", run_id="a"), Arm(arm="two", run_id="b"), Arm(arm="three", run_id="c")]
    bench.append(*told(campaign("sweep", *plan)))
    bench.append(*told(declared("a", taken()), declared("b", taken(), campaign_id="other"), declared("d", taken())))
    found = swept(bench)
    assert ([arm_.run for arm_ in found.arms], found.not_recorded) == (["a"], ("two", "three"))


def test_a_campaign_that_nothing_names_is_not_found(bench: Bench) -> None:
    with pytest.raises(NotFound, match="there is no campaign 'sweep'"):
        swept(bench)
    asking = Asked(bench)
    with pytest.raises(InvalidInput):
        asking.questions.sweep(asking.moment(), "")


def test_a_curve_shows_entropy_beside_reward_and_ema(bench: Bench) -> None:
    logged = steps("a", {1: 0.3, 2: 0.6}, **{ENTROPY: {1: 0.5}})
    bench.append(*told(declared("a", campaign_id="sweep"), logged))
    (found,) = swept(bench).arms
    assert [(p.step, p.reward, p.ema, p.entropy) for p in found.curve] == [
        (1, 0.3, 0.3, 0.5), (2, 0.6, pytest.approx(0.4), None),
    ]  # fmt: skip


@given(st.integers(0, 3_000), st.integers(2, MAX_POINTS))
def test_thinning_keeps_both_ends_the_order_and_an_even_spacing(length: int, most: int) -> None:
    items = list(range(length))
    found = thinned(items, most)
    assert len(found) == min(length, most)
    assert found == sorted(set(found))
    if length:
        assert (found[0], found[-1]) == (0, length - 1)
    gaps = {b - a for a, b in pairwise(found)}
    assert not gaps or max(gaps) - min(gaps) <= 1
