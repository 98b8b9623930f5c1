"""What became of each checkpoint, and with which weights each attempt began.

A label is not an identity: the same step is saved again by a later attempt, or by an export job over the bytes that
training wrote. Two saves of one step are two checkpoints as soon as their digests differ; the earlier one is replaced
where both lay in one place. Attempts name what they are to begin with; where they do not, or where another step of the
run was loaded first, what was loaded says it.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from ledger.rules.training_1 import reading
from ledger.rules.training_1.model import Fact, Life
from ledger.rules.training_1.remembering import remembered
from ledger.rules.training_1.selection import Saved
from ledger.rules.training_1.series import Resume
from ledger.rules.training_1.values import Value

COMMITTED: Final = "committed"
DELETED: Final = "deleted"
REPLACED: Final = "replaced"
SAVE_STARTED: Final = "save_started"


class Save(Value, frozen=True):
    """A checkpoint, as the events up to now leave it."""

    step: int
    attempt: int | None
    committed_pos: int | None
    said: reading.CheckpointCommitted | None = None
    """As it was committed first, with what a later commit of the same bytes adds."""
    digest: str | None = None
    deleted_pos: int | None = None
    replaced_pos: int | None = None
    begun_pos: int | None = None
    """Of a save that was begun and never committed."""

    @property
    def status(self) -> str:
        if self.committed_pos is None:
            return SAVE_STARTED
        if self.deleted_pos is not None:
            return DELETED
        return COMMITTED if self.replaced_pos is None else REPLACED

    @property
    def there(self) -> bool:
        return self.status == COMMITTED

    @property
    def lacks_weights(self) -> bool:
        """Its producer says so; where nobody looked, nothing does."""
        return self.said is not None and self.said.contents is not None and self.said.contents.weights is False

    @property
    def last_update(self) -> int:
        said = self.said
        return self.step if said is None or said.last_update is None else said.last_update

    @property
    def pos(self) -> int:
        """Of the event by which it is known."""
        known = self.committed_pos if self.committed_pos is not None else self.begun_pos
        assert known is not None  # one or the other made it
        return known

    @property
    def name(self) -> str:
        """How messages call it."""
        of = "" if self.attempt is None else f" of attempt {self.attempt}"
        return f"the checkpoint at step {self.step}{of}"


@remembered
def saves(life: Life) -> tuple[Save, ...]:
    """Every checkpoint, in the order of their first events."""
    happened: list[tuple[int, Any]] = [(fact.pos, fact.said) for fact in life.commits]
    happened += [(fact.pos, fact.said) for fact in life.deletions]
    happened.sort(key=lambda one: one[0])
    # Nothing tells of the checkpoints of two steps at once, and there may be many.
    at_step: dict[int, list[Save]] = {}
    for pos, said in happened:
        known = at_step.setdefault(said.step, [])
        if isinstance(said, reading.CheckpointCommitted):
            _commit(known, pos, said)
        else:
            _delete(known, pos, said)
    committed = [save for known in at_step.values() for save in known]
    return tuple(sorted((*committed, *_never_committed(life, committed)), key=lambda save: save.pos))


def _commit(known: list[Save], pos: int, said: reading.CheckpointCommitted) -> None:
    """One more commit, among the checkpoints of its step."""
    for place, save in enumerate(known):
        if save.deleted_pos is not None or save.replaced_pos is not None:
            continue
        if save.attempt == said.attempt and _same_bytes(save, said):
            known[place] = _completed(save, said)
            return
        if _written_over(save, said):
            known[place] = replace(save, replaced_pos=pos)
    known.append(Save(said.step, said.attempt, pos, said, said.digest))


def _same_bytes(save: Save, said: reading.CheckpointCommitted) -> bool:
    """Nothing tells them apart."""
    return save.digest is None or said.digest is None or save.digest == said.digest


def _completed(save: Save, said: reading.CheckpointCommitted) -> Save:
    known = save.said
    assert known is not None  # only what was committed is completed
    missing = {
        name: getattr(said, name)
        for name in ("last_update", "digest", "total_bytes", "format", "contents", "data_state", "recorded_step")
        if getattr(known, name) is None and getattr(said, name) is not None
    }
    return replace(save, said=replace(known, **missing), digest=save.digest or said.digest) if missing else save


def _written_over(save: Save, said: reading.CheckpointCommitted) -> bool:
    """Whether a commit of the same step replaces the bytes of a save."""
    if _same_bytes(save, said):
        return False
    place = save.said.location if save.said else None
    if place is not None and said.location is not None:
        return place == said.location
    return save.attempt == said.attempt or said.saved_by == "export_job"


def _delete(known: list[Save], pos: int, said: reading.CheckpointDeleted) -> None:
    for place, save in enumerate(known):
        if save.deleted_pos is None and names(said, save):
            known[place] = replace(save, deleted_pos=pos)


def names(said: reading.CheckpointDeleted | reading.CheckpointSelected, save: Save) -> bool:
    """Whether what is said can be of the checkpoint: what it does not name can be anything."""
    return (
        said.step == save.step
        and said.attempt in {None, save.attempt}
        and (said.digest is None or save.digest is None or said.digest == save.digest)
    )


def _never_committed(life: Life, known: list[Save]) -> list[Save]:
    committed = {(save.attempt, save.step) for save in known}
    begun: dict[tuple[int, int], Save] = {}
    for fact in life.begun:
        key = (fact.said.attempt, fact.said.step)
        if key not in committed:
            begun.setdefault(key, Save(fact.said.step, fact.said.attempt, None, begun_pos=fact.pos))
    return list(begun.values())


@remembered
def rule_saves(life: Life) -> tuple[Saved, ...]:
    """The committed checkpoints, as the rule of selection takes them."""
    return tuple(
        Saved(
            attempt=save.attempt,
            step=save.step,
            digest=save.digest,
            deleted=save.deleted_pos is not None,
            committed_pos=save.pos,
            last_update=save.last_update,
            replaced=save.replaced_pos is not None,
        )
        for save in saves(life)
        if save.committed_pos is not None
    )


@remembered
def resumes(life: Life) -> dict[int, Resume | None]:
    """With which step's weights each attempt began; None: at the RL start, or with weights of another run."""
    beginnings: dict[int, Resume | None] = {}
    for start in life.starts:
        beginnings[start.said.attempt] = _resume(life, start.said.attempt, start.said.resumed_from)
    for attempt, load in first_loads(life).items():
        said, named = load.said, beginnings.get(attempt)
        if named is None or (said.from_run_id is None and said.step != named.step):
            loaded = reading.ResumedFrom(said.step, None, said.from_run_id, said.digest)
            beginnings[attempt] = _resume(life, attempt, loaded)
    return beginnings


@remembered
def first_loads(life: Life) -> dict[int, Fact[reading.CheckpointLoaded]]:
    """What each attempt loaded first, before it logged a step: later ones are evaluations or exports, no beginning."""
    loads: dict[int, Fact[reading.CheckpointLoaded]] = {}
    for load in life.loads:
        if load.pos not in life.late_loads:
            loads.setdefault(load.said.attempt, load)
    return loads


def _resume(life: Life, attempt: int, said: reading.ResumedFrom | None) -> Resume | None:
    if said is None or said.run_id is not None:
        return None
    if said.attempt is not None or said.digest is None:
        return Resume(said.attempt, said.step)
    # The digest says whose checkpoint it was, where the attempt is not named.
    makers = [
        save.attempt
        for save in saves(life)
        if save.step == said.step and save.digest == said.digest and save.attempt is not None and save.attempt < attempt
    ]
    return Resume(max(makers, default=None), said.step)
