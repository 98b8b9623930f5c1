"""What contradicts what of a run's course: its declarations, configurations, attempts and ends.

The order of two events tells something only where both were recorded as they happened. What is claimed, imported or
inferred was recorded afterwards, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ledger.rules.training_1 import reading
from ledger.rules.training_1.flagging import Flag
from ledger.rules.training_1.growing import items
from ledger.rules.training_1.history import Save, first_loads, resumes, saves
from ledger.rules.training_1.keys import SKYRL, Keys, keys_of
from ledger.rules.training_1.model import Fact, Life, Series, Span, Work


def life_flags(life: Life) -> Iterator[Flag]:
    """Those that no step bears on."""
    yield from _declarations(life)
    yield from _configurations(life)
    yield from _starts(life)
    yield from _ends(life)


def course_flags(life: Life, series: Series) -> Iterator[Flag]:
    """Those between what was said and the steps that were logged."""
    yield from _first_keys(life, series)
    yield from _first_steps(life, series)
    yield from _after_ends(life, series)
    yield from _last_steps(life, series)
    yield from _plan(life, series)


def transfer_flags(life: Life, series: Series, work: Work) -> Iterator[Flag]:
    """Engines start with other weights than those that a resume reads back: they must be sent once more.

    Told only of a run that recorded a transfer in some attempt: of any other nobody can say.
    """
    if not work.versions:
        return
    for attempt, resume in resumes(life).items():
        span = series.spans.get(attempt)
        if resume is None or span is None or span.live_pos is None or attempt in work.versions:
            continue
        message = (
            f"attempt {attempt} began at step {resume.step} and logged steps, and no weights were sent to the engines "
            "in it"
        )
        yield Flag("NO_WEIGHTS_SENT_AFTER_RESUME", message, (*_beginnings(life, attempt), span.live_pos))


def _beginnings(life: Life, attempt: int) -> Iterator[int]:
    """Where it is said with what an attempt began."""
    for facts in (life.starts, life.loads):
        yield from (fact.pos for fact in facts if fact.said.attempt == attempt)


# Without the steps


def _declarations(life: Life) -> Iterator[Flag]:
    for before, after in pairwise(life.declared):
        if before.said.sources != after.said.sources:
            message = f"the run was declared on {_sources(before.said)}, then on {_sources(after.said)}"
            yield Flag("SOURCES_DECLARED_OTHERWISE", message, (before.pos, after.pos))
        if before.said.rl_start != after.said.rl_start:
            message = f"the RL start was declared as {_model(before.said)}, then as {_model(after.said)}"
            yield Flag("RL_START_DECLARED_OTHERWISE", message, (before.pos, after.pos))
        if keys_of(before.said) != keys_of(after.said):
            yield _other_keys(keys_of(before.said), before.pos, after)


def _other_keys(keys: Keys, pos: int, after: Fact[reading.RunDeclared]) -> Flag:
    """What was read under other keys is another series than what follows."""
    message = f"the series was read as {keys.words}, and from then on as {keys_of(after.said).words}"
    return Flag("SERIES_KEYS_CHANGED", message, (pos, after.pos))


def _sources(said: reading.RunDeclared) -> str:
    return ", ".join(
        f"{source.atlas_id or source.dataset_id} at {source.dataset_revision or 'an unknown revision'}, "
        f"verifier {source.verifier_revision or 'unknown'}"
        for source in said.sources
    ) or "no source"  # fmt: skip


def _model(said: reading.RunDeclared) -> str:
    return "unknown" if said.rl_start is None else f"{said.rl_start.name} at {said.rl_start.commit or 'no commit'}"


def _configurations(life: Life) -> Iterator[Flag]:
    for before, after in pairwise(life.configs):
        if before.digest != after.digest:
            message = (
                f"the configuration of attempt {after.attempt} ({after.moment}) has digest {after.digest[:12]}…, and "
                f"that of attempt {before.attempt} ({before.moment}) {before.digest[:12]}…"
            )
            yield Flag("CONFIG_DRIFTED", message, (before.pos, after.pos))
    for drift in life.drifts:
        said = drift.said
        changed = len(said.changes) + said.changes_left_out
        named = ", ".join(change.path for change in said.changes[:3])
        settings = "1 setting" if changed == 1 else f"{changed} settings"
        message = f"in attempt {said.attempt} {settings} of the configuration changed: {named}"
        yield Flag("CONFIG_DRIFTED", message, (drift.pos,))


def _starts(life: Life) -> Iterator[Flag]:
    seen: dict[int, int] = {}
    for start in life.starts:
        attempt = start.said.attempt
        if attempt in seen:
            message = f"attempt {attempt} was started twice"
            yield Flag("ATTEMPT_STARTED_AGAIN", message, (seen[attempt], start.pos))
        elif seen and attempt < max(seen) and start.said.basis is None:
            message = f"attempt {attempt} was started after attempt {max(seen)}"
            yield Flag("ATTEMPT_NUMBER_WENT_BACK", message, (seen[max(seen)], start.pos))
        seen.setdefault(attempt, start.pos)
        if start.said.resumed_from is not None:
            yield from _beginning(life, start, start.said.resumed_from)


def _beginning(life: Life, start: Fact[reading.AttemptStarted], resumed: reading.ResumedFrom) -> Iterator[Flag]:
    """An attempt begins at a checkpoint that an earlier one committed."""
    loaded = first_loads(life).get(start.said.attempt)
    if loaded is not None and loaded.said.step != resumed.step:
        message = (
            f"attempt {start.said.attempt} was to begin at step {resumed.step}, and loaded step {loaded.said.step}"
        )
        yield Flag("LOADED_OTHER_STEP", message, (start.pos, loaded.pos))
    if resumed.run_id is not None or resumed.step == 0:
        return
    at_step = [s for s in saves(life) if s.step == resumed.step and s.committed_pos is not None and _earlier(s, start)]
    named = [s for s in at_step if resumed.attempt in {None, s.attempt}]
    what = f"attempt {start.said.attempt} began at the checkpoint at step {resumed.step}"
    if resumed.attempt is not None:
        what += f" of attempt {resumed.attempt}"
    if not named:
        yield Flag("RESUMED_FROM_UNKNOWN", f"{what}, which no earlier attempt committed", (start.pos,))
        return
    alike = [s for s in named if resumed.digest is None or s.digest in {None, resumed.digest}]
    if not alike:
        message = f"{what} with digest {str(resumed.digest)[:12]}…, and another one was committed"
        yield Flag("RESUMED_FROM_OTHER_BYTES", message, (*(s.pos for s in named), start.pos))
    elif start.said.basis is None and all(s.deleted_pos is not None and s.deleted_pos < start.pos for s in alike):
        gone = [s.deleted_pos for s in alike if s.deleted_pos is not None]
        yield Flag("RESUMED_FROM_DELETED", f"{what}, which was deleted before", (*gone, start.pos))


def _earlier(save: Save, start: Fact[reading.AttemptStarted]) -> bool:
    return save.attempt is None or save.attempt < start.said.attempt


def _ends(life: Life) -> Iterator[Flag]:
    ended: dict[int, Fact[reading.AttemptEnded]] = {}
    for end in life.ends:
        before = ended.setdefault(end.said.attempt, end)
        if before is not end:
            message = f"attempt {end.said.attempt} ended twice: {before.said.ending}, then {end.said.ending}"
            yield Flag("ATTEMPT_ENDED_TWICE", message, (before.pos, end.pos))
    for first, again in pairwise(life.run_ends):
        message = f"the run ended twice: {first.said.ending}, then {again.said.ending}"
        yield Flag("RUN_ENDED_TWICE", message, (first.pos, again.pos))
    over = next(iter(_live_ends(life)), None)
    if over is not None:
        yield from _after_the_run(life, over)


def _after_the_run(life: Life, over: Fact[reading.RunEnded]) -> Iterator[Flag]:
    for start in life.starts:
        if start.pos > over.pos and start.said.basis is None:
            message = f"attempt {start.said.attempt} was started after the run had ended ({over.said.ending})"
            yield Flag("STARTED_AFTER_END", message, (over.pos, start.pos))
    for commit in life.commits:
        # An export job that saves again is told of with the checkpoint.
        if commit.pos > over.pos and commit.said.basis is None and commit.said.saved_by != "export_job":
            message = f"a checkpoint at step {commit.said.step} was saved after the run had ended ({over.said.ending})"
            yield Flag("SAVED_AFTER_END", message, (over.pos, commit.pos))


def _live_ends(life: Life) -> list[Fact[reading.RunEnded]]:
    return [over for over in life.run_ends if over.said.basis is None]


# Against the steps


def _first_keys(life: Life, series: Series) -> Iterator[Flag]:
    """Steps that came before the first declaration could say how to read them."""
    first = next(items(series.points), None) if life.declared else None
    if first is not None and first.pos < life.declared[0].pos and keys_of(life.declared[0].said) != SKYRL:
        yield _other_keys(SKYRL, first.pos, life.declared[0])


def _first_steps(life: Life, series: Series) -> Iterator[Flag]:
    """After a resume at step N the next update is N + 1, unless steps were numbered anew, or skipped."""
    for attempt, resume in resumes(life).items():
        span = series.spans.get(attempt)
        if resume is None or span is None or span.first == resume.step + 1:
            continue
        code = "STEPS_SKIPPED_AT_RESUME" if span.first > resume.step else "STEPS_NUMBERED_ANEW"
        message = f"attempt {attempt} began at step {resume.step}, and the first step that it logged is {span.first}"
        yield Flag(code, message, (_began(life, attempt),))


def _began(life: Life, attempt: int) -> int:
    """Where it is said with which step's weights the attempt began."""
    started = [start.pos for start in life.starts if start.said.attempt == attempt]
    return started[-1] if started else first_loads(life)[attempt].pos


def _after_ends(life: Life, series: Series) -> Iterator[Flag]:
    for end in life.ends:
        span = series.spans.get(end.said.attempt)
        logged = span.live_pos if span is not None else None
        if logged is not None and logged > end.pos and end.said.basis is None:
            message = f"attempt {end.said.attempt} logged steps after it had ended ({end.said.ending})"
            yield Flag("STEPS_AFTER_ATTEMPT_END", message, (end.pos, logged))
    for over in _live_ends(life)[:1]:
        last = max((span.live_pos for span in series.spans.values() if span.live_pos is not None), default=-1)
        if last > over.pos:
            message = f"steps were logged after the run had ended ({over.said.ending})"
            yield Flag("STEPS_AFTER_RUN_END", message, (over.pos, last))


def _last_steps(life: Life, series: Series) -> Iterator[Flag]:
    for end in life.ends:
        span = series.spans.get(end.said.attempt)
        if span is not None and end.said.last_step is not None and end.said.last_step != span.last:
            message = (
                f"attempt {end.said.attempt} is said to have ended at step {end.said.last_step}, and logged up to step "
            )
            yield Flag("LAST_STEP_DIFFERS", f"{message}{span.last}", (end.pos, span.last_pos))
    newest = _newest(series)
    for over in life.run_ends[-1:]:
        if newest is not None and over.said.last_step is not None and over.said.last_step != newest.last:
            message = (
                f"the run is said to have ended at step {over.said.last_step}, and its last attempt logged up to step "
            )
            yield Flag("LAST_STEP_DIFFERS", f"{message}{newest.last}", (over.pos, newest.last_pos))


def _plan(life: Life, series: Series) -> Iterator[Flag]:
    planned = planned_steps(life)
    newest = _newest(series)
    if planned is None:
        return
    for over in life.run_ends[-1:]:
        reached = newest.last if newest is not None else over.said.last_step
        if over.said.ending == "completed" and reached is not None and reached < planned:
            message = f"the run is said to be completed at step {reached}, and {planned} steps were planned"
            yield Flag("COMPLETED_BEFORE_PLAN", message, (over.pos,))
    if newest is not None and newest.last > planned:
        message = f"step {newest.last} was logged, and {planned} steps were planned"
        yield Flag("STEPS_PAST_PLAN", message, (newest.last_pos,))


def planned_steps(life: Life) -> int | None:
    """As the run was declared; else as its end says."""
    for declared in reversed(life.declared):
        if declared.said.planned_steps is not None:
            return declared.said.planned_steps
    return next((end.said.planned_steps for end in reversed(life.run_ends) if end.said.planned_steps is not None), None)


def _newest(series: Series) -> Span | None:
    return series.spans[max(series.spans)] if series.spans else None
