"""Which checkpoint the trainer chooses and keeps: what the ledger's own rule gives, and never one that it would delete."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.rules.training_1 import selection
from ledger.rules.training_1.recomputing import RULE as LEDGERS_RULE
from ledger.rules.training_1.series import Point, Resume
from services.trainer import selections
from services.trainer.histories import Begun, History, Saved
from services.trainer.keeping import to_delete
from services.trainer.selections import choose
from tests.trainer.runs import settings

INTERVAL = 2


def history(folder: Path, attempts: list[tuple[int | None, list[float | None]]]) -> History:
    """Attempts, each from a step of the one before (None: from the start), with its rewards; every second step is
    saved."""
    made = History(folder)
    for number, (begin, rewards) in enumerate(attempts, start=1):
        made.begin(Begun(number) if begin is None else Begun(number, number - 1, begin))
        for step, reward in enumerate(rewards, start=(begin or 0) + 1):
            made.step(number, step, reward, skipped=False)
            if step % INTERVAL == 0:
                made.save(Saved(number, step, f"global_step_{step}.attempt_{number}", "0" * 64))
    return made


rewards = st.lists(st.none() | st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, float("nan")]), min_size=1, max_size=9)


@st.composite
def attempts_of(draw: st.DrawFn) -> list[tuple[int | None, list[float | None]]]:
    first = draw(rewards)
    made: list[tuple[int | None, list[float | None]]] = [(None, first)]
    reached = len(first)
    for _ in range(draw(st.integers(0, 2))):
        saved = [step for step in range(INTERVAL, reached + 1, INTERVAL) if step > (made[-1][0] or 0)]
        begin = draw(st.sampled_from(saved)) if saved else None
        more = draw(rewards)
        made.append((begin, more))
        reached = (begin or 0) + len(more)
    return made


@given(attempts=attempts_of())
def test_the_choice_is_that_of_the_ledgers_rule(attempts):
    with tempfile.TemporaryDirectory() as folder:
        made = history(Path(folder), attempts)
    saved = [selection.Saved(attempt=s.attempt, step=s.step, committed_pos=place) for place, s in enumerate(made.saves)]
    points = [Point(a, s, r, None, None, 0, None, 0) for (a, s), r in made.rewards.items()]
    resumes = {
        a: None if b.from_step is None else Resume(b.from_attempt, b.from_step) for a, b in made.attempts.items()
    }
    theirs = selection.choose(selection.eligible(saved, points, resumes, interval=INTERVAL), INTERVAL)
    ours = choose(made, INTERVAL)
    assert (ours is not None and ours.by_rule) == theirs.by_rule
    if ours is not None and ours.by_rule:
        assert theirs.candidate is not None
        assert (ours.saved.attempt, ours.saved.step) == (theirs.candidate.saved.attempt, theirs.candidate.saved.step)
        assert ours.ema == pytest.approx(theirs.candidate.ema, abs=1e-12)
        assert ours.reward == theirs.candidate.reward


def test_the_rule_has_the_name_and_the_numbers_that_the_ledger_judges_by():
    assert selections.RULE == LEDGERS_RULE
    assert selections.FIRST_MULTIPLE == selection.FIRST_MULTIPLE
    assert selections.ALPHA == selection.ALPHA


def test_where_nothing_is_eligible_the_last_save_stands_in_and_is_not_called_the_rules(tmp_path):
    chosen = choose(history(tmp_path, [(None, [0.5, 0.6, 0.7])]), INTERVAL)
    assert chosen is not None
    assert not chosen.by_rule
    assert (chosen.saved.step, chosen.rule["id"], chosen.ema) == (2, "last-save", None)


def test_without_a_save_there_is_no_choice(tmp_path):
    assert choose(history(tmp_path, [(None, [0.5])]), INTERVAL) is None


@given(series=st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=4, max_size=16), kept=st.integers(1, 3))
def test_with_few_saves_kept_the_choice_is_that_of_a_run_that_keeps_all(series, kept):
    """Deleting after each save, as the loop does, never costs the one that is chosen at the end."""
    given_settings = settings(Path("unused"), run={"checkpoint_interval": INTERVAL, "checkpoints_kept": kept})
    with tempfile.TemporaryDirectory() as all_of, tempfile.TemporaryDirectory() as few:
        whole = history(Path(all_of), [(None, list(series))])
        made = History(Path(few))
        made.begin(Begun(1))
        for step, reward in enumerate(series, start=1):
            made.step(1, step, reward, skipped=False)
            if step % INTERVAL == 0:
                made.save(Saved(1, step, f"global_step_{step}.attempt_1", "0" * 64))
                for save in to_delete(made, given_settings):
                    made.delete(save)
                assert len(made.saves) <= kept + 1
    assert choose(made, INTERVAL).to_dict() | {"eligible": 0} == choose(whole, INTERVAL).to_dict() | {"eligible": 0}


def test_what_was_selected_is_never_deleted_even_if_another_would_be_chosen_now(tmp_path):
    made = history(tmp_path, [(None, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])])
    made.select(made.saves[0])
    given_settings = settings(tmp_path, run={"checkpoint_interval": INTERVAL, "checkpoints_kept": 1})
    assert [save.step for save in to_delete(made, given_settings)] == [4, 6]


def test_a_history_is_read_back_as_it_was_and_a_torn_line_is_left_out(tmp_path):
    made = history(tmp_path, [(None, [0.1, 0.2, 0.3, 0.4]), (2, [0.5, None])])
    made.complete(4)
    with (tmp_path / "history.jsonl").open("ab") as file:
        file.write(b'{"kind": "step", "att')
    torn = (tmp_path / "history.jsonl").read_bytes()
    again = History(tmp_path)
    assert (tmp_path / "history.jsonl").read_bytes() == torn  # to read it changes nothing: another may be writing it
    assert (again.rewards, again.saves, again.attempts) == (made.rewards, made.saves, made.attempts)
    assert (again.next_attempt, again.completed_steps) == (3, 4)
    assert again.lineage(2, 4) == [(1, 1), (1, 2), (2, 3), (2, 4)]
    again.step(2, 5, 1.0, skipped=True)
    assert History(tmp_path).rewards[2, 5] == 1.0
