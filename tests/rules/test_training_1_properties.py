"""What holds for any run, with crashes, resumes and odd facts: each fold, each state, each lineage."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ledger.rules import RuleEvent
from ledger.rules.training_1 import RULES
from ledger.rules.training_1.growing import items
from ledger.rules.training_1.history import resumes, rule_saves
from ledger.rules.training_1.model import Facts
from ledger.rules.training_1.selection import committed_steps
from ledger.rules.training_1.series import abandoned
from ledger.rules.training_1.tail import outcome, whole

from .training_1_stories import Story, metrics, selection, sha

values = st.one_of(st.floats(0, 1), st.sampled_from([0.0, "NaN", "Infinity", None]))
keys = st.sampled_from([None, "score"])
entropies = st.one_of(st.floats(0.01, 9), st.sampled_from(["NaN", None]))


@st.composite
def tidy_runs(draw: st.DrawFn) -> Story:
    """A run whose attempts crash and resume from what was saved, and whose recorder loses nothing."""
    story = Story().declared(checkpoint_interval=draw(st.integers(1, 4)))
    saves: list[tuple[int, int]] = []
    seq = itertools.count(1)
    for attempt in range(1, draw(st.integers(1, 4)) + 1):
        origin = draw(st.sampled_from([None, *saves]))
        resumed = None if origin is None else {"attempt": origin[0], "step": origin[1], "digest": sha(str(origin))}
        story.attempt(attempt, resumed)
        first = 1 if origin is None else origin[1] + 1
        for step in range(first, first + draw(st.integers(0, 9))):
            if draw(st.booleans()):
                story.saved(step, str((attempt, step)), attempt)
                saves.append((attempt, step))
            logged = {"step": step, "metrics": metrics(draw(values), draw(entropies))}
            payload = {"attempt": attempt, "steps": [logged]}
            story.add("steps.logged", payload, producer=("rank-0", 1, next(seq)))
    return story


@st.composite
def odd_runs(draw: st.DrawFn) -> Story:
    """Any facts in any order."""
    story = Story()
    small = st.integers(1, 3)
    steps = st.integers(0, 8)
    for _ in range(draw(st.integers(0, 30))):
        attempt, step = draw(small), draw(steps)
        producer = draw(st.sampled_from([None, ("a", 1, draw(steps) + 1), ("b", draw(small), draw(steps) + 1)]))
        happening: tuple[str, dict[str, Any]] = draw(
            st.sampled_from(
                [
                    ("run.declared", {"rl_start": None, "sources": [], "max_checkpoints_kept": attempt}),
                    ("run.declared", {"rl_start": None, "sources": [], "series": {"reward": draw(keys)}}),
                    ("attempt.started", {"attempt": attempt}),
                    ("attempt.started", {"attempt": attempt, "resumed_from": {"step": step}}),
                    ("attempt.started", {"attempt": attempt, "resumed_from": {"step": step, "attempt": attempt}}),
                    ("checkpoint.loaded", {"attempt": attempt, "step": step, "digest": sha("x")}),
                    ("checkpoint.save_started", {"attempt": attempt, "step": step}),
                    (
                        "checkpoint.committed",
                        {"attempt": attempt, "step": step, "digest": sha(draw(st.sampled_from("xy")))},
                    ),
                    ("checkpoint.committed", {"attempt": None, "step": step, "last_update": attempt}),
                    ("checkpoint.deleted", {"step": step}),
                    ("checkpoint.selected", selection(step, ema=draw(values), reward=draw(values))),
                    ("steps.logged", {"attempt": attempt, "steps": draw(st.lists(_steps(), min_size=1, max_size=3))}),
                    ("attempt.ended", {"attempt": attempt, "ending": "failed", "last_step": step}),
                    ("run.ended", {"ending": "completed", "last_step": step}),
                    ("rollouts.summarised", {"step": step, "started": attempt, "consumed": step}),
                    ("weights.synced", {"attempt": attempt, "step": step, "weight_version": step}),
                    ("engine.sampled", {"attempt": attempt, "samples": [_SAMPLE]}),
                    ("recording.reported", {"producer": "a", "epoch": attempt, "last_seq": step, "closed": True}),
                ]
            )
        )
        story.add(*happening, producer=producer)
    return story


_SAMPLE = {"engine": "0", "sampled_at": "2026-07-27T08:20:00Z", "metrics": {"running": 3.0}}


def _steps() -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda step, reward, entropy, other: {"step": step, "metrics": metrics(reward, entropy, score=other)},
        st.integers(0, 8),
        values,
        entropies,
        st.floats(0, 1),
    )


runs = st.one_of(tidy_runs(), odd_runs())


def folded(events: list[RuleEvent], facts: Facts | None = None) -> Facts:
    facts = RULES.initial_facts() if facts is None else facts
    for event in events:
        facts = RULES.fold(facts, event)
    return facts


def bytes_of(facts: Facts) -> bytes:
    return RULES.encode_facts(facts)


@given(story=runs, data=st.data())
def test_folding_in_pages_gives_what_folding_at_once_gives(story: Story, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(story.events)), max_size=4)))
    facts = RULES.initial_facts()
    for first, last in itertools.pairwise([0, *cuts, len(story.events)]):
        # Between two pages the facts lie on disk.
        facts = RULES.decode_facts(bytes_of(folded(story.events[first:last], facts)))
    assert bytes_of(facts) == bytes_of(story.facts)


@given(story=runs)
def test_what_is_shown_early_never_knows_what_comes_later(story: Story) -> None:
    """Each state along the way is that of a stream that ends there."""
    facts = RULES.initial_facts()
    along = []
    for event in story.events:
        facts = RULES.fold(facts, event)
        along.append((RULES.show(story.stream, facts, RULES.initial_environment()), bytes_of(facts)))
    for size, (state, kept) in enumerate(along, 1):
        alone = RULES.decode_facts(bytes_of(folded(story.events[:size])))
        assert bytes_of(alone) == kept
        assert RULES.show(story.stream, alone, RULES.initial_environment()) == state


@given(story=runs)
def test_what_is_said_to_show_alike_shows_alike(story: Story) -> None:
    facts = RULES.initial_facts()
    for event in story.events:
        after = RULES.fold(facts, event)
        if RULES.shows_alike(facts, after):
            environment = RULES.initial_environment()
            assert RULES.show(story.stream, facts, environment) == RULES.show(story.stream, after, environment)
        facts = after


@given(story=runs)
def test_a_dossier_can_always_be_answered(story: Story) -> None:
    dossier = story.dossier()
    assert dossier["summary"]["flags"] == len(dossier["flags"])
    recorded = {event.pos for event in story.events}
    assert {pos for flag in dossier["flags"] for pos in flag["positions"]} <= recorded


@given(story=runs)
def test_the_outcome_that_is_kept_up_is_that_of_the_whole_series(story: Story) -> None:
    facts = RULES.initial_facts()
    for event in story.events:
        facts = RULES.fold(facts, event)
        kept, read = outcome(facts.run), whole(facts.run)
        assert repr(kept) == repr(read)  # a NaN is equal to itself in words alone


@given(story=tidy_runs())
def test_a_tidy_run_has_a_lineage_that_leaves_nothing_out_and_no_flags_but_of_saves(story: Story) -> None:
    points = list(items(story.facts.run.series.points))
    left = abandoned(points, resumes(story.facts.run.life), committed=committed_steps(rule_saves(story.facts.run.life)))
    dossier = story.dossier()
    assert dossier["flags"] == []
    assert sum(attempt["abandoned_steps"] for attempt in dossier["attempts"]) == len(left)
    for checkpoint in dossier["checkpoints"]:
        parts = checkpoint["lineage"]
        covered = [step for part in parts for step in range(part["first_step"], part["last_step"] + 1)]
        assert covered == list(range(1, checkpoint["step"] + 1))
        assert parts[-1]["attempt"] == checkpoint["attempt"]


@given(story=tidy_runs())
def test_the_ema_of_a_checkpoint_is_that_of_its_own_lineage(story: Story) -> None:
    logged = {(p.attempt, p.step): p.reward for p in items(story.facts.run.series.points)}
    for checkpoint in story.dossier()["checkpoints"]:
        average: float | None = None
        for part in checkpoint["lineage"]:
            for step in range(part["first_step"], part["last_step"] + 1):
                reward = logged.get((part["attempt"], step))
                if reward is not None and abs(reward) < float("inf"):
                    average = reward if average is None else reward / 3 + average * 2 / 3
        known = checkpoint.get("ema")
        assert (known is None) == (average is None)
        assert average is None or abs(known - average) < 1e-9


@given(story=tidy_runs(), step=st.integers(1, 12))
def test_a_selection_stands_only_on_a_checkpoint_that_was_committed_and_is_there(story: Story, step: int) -> None:
    there = {c["step"] for c in story.dossier()["checkpoints"] if c["status"] == "committed"}
    refused = story.against("checkpoint.selected", selection(step))
    if step not in there:
        assert any(problem.place == "/step" for problem in refused)
    for gone in there:
        story.add("checkpoint.deleted", {"step": gone})
    assert story.against("checkpoint.selected", selection(step))


@given(story=odd_runs(), data=st.data())
def test_an_event_of_another_kind_of_stream_or_unknown_type_changes_nothing(story: Story, data: st.DataObject) -> None:
    event = RuleEvent(9_999, "e", data.draw(st.sampled_from(["defect.suspected", "no.such"])), story.stream, body=b"{}")
    assert RULES.fold(story.facts, event) is story.facts
