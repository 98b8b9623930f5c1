"""What contradicts what of a run's checkpoints: their saves, labels, loads, deletions and selections."""

from __future__ import annotations

from collections.abc import Iterator

from ledger.rules.training_1 import reading
from ledger.rules.training_1.flagging import Flag
from ledger.rules.training_1.history import Save, names, saves
from ledger.rules.training_1.model import Fact, Life

_RESTORED = ("weights", "optimizer", "scheduler", "rng", "data_state")


def checkpoint_flags(life: Life) -> Iterator[Flag]:
    known = [save for save in saves(life) if save.committed_pos is not None]
    yield from _saved_again(known)
    yield from _labels(known)
    yield from _without_weights(known)
    yield from _under_two_steps(known)
    yield from _too_many(life, known)
    yield from _deletions(life, known)
    for load in life.loads:
        if load.said.from_run_id is None:
            yield from _load(load, known)
    yield from _selected_then_gone(life, known)


def _saved_again(known: list[Save]) -> Iterator[Flag]:
    """A step of one attempt with two digests, or bytes that were written over."""
    at_step: dict[int, list[Save]] = {}
    for later in known:
        before = at_step.setdefault(later.step, [])
        for earlier in before:
            if _gone(earlier) < later.pos:
                continue
            again = earlier.replaced_pos == later.pos or earlier.attempt == later.attempt
            if again and earlier.digest != later.digest:
                yield Flag(
                    "CHECKPOINT_SAVED_AGAIN",
                    f"{later.name} was saved again{_by(later)}: its digest was {_short(earlier.digest)}, "
                    f"then {_short(later.digest)}",
                    (earlier.pos, later.pos),
                )
        before.append(later)


def _by(save: Save) -> str:
    return " by an export job" if save.said is not None and save.said.saved_by == "export_job" else ""


def _labels(known: list[Save]) -> Iterator[Flag]:
    for save in known:
        said = save.said
        assert said is not None  # they are committed
        if said.recorded_step is not None and said.recorded_step != save.step:
            message = f"{save.name} names step {said.recorded_step} in its own state"
            yield Flag("RECORDED_STEP_DIFFERS", message, (save.pos,))
        if save.last_update < save.step:
            message = f"{save.name} holds the weights after update {save.last_update}: its label is ahead of them"
            yield Flag("LABEL_AHEAD_OF_WEIGHTS", message, (save.pos,))
        elif save.last_update > save.step:
            message = f"{save.name} holds the weights after update {save.last_update}: its label is behind them"
            yield Flag("LABEL_BEHIND_WEIGHTS", message, (save.pos,))


def _without_weights(known: list[Save]) -> Iterator[Flag]:
    for save in known:
        if save.lacks_weights:
            yield Flag("COMMITTED_WITHOUT_WEIGHTS", f"{save.name} holds no weights", (save.pos,))


def _under_two_steps(known: list[Save]) -> Iterator[Flag]:
    """The same bytes cannot be the state after two updates."""
    first: dict[str, Save] = {}
    for save in known:
        if save.digest is None:
            continue
        other = first.setdefault(save.digest, save)
        if other.step != save.step:
            message = f"{save.name} has the bytes of {other.name}: two steps claim one checkpoint"
            yield Flag("CHECKPOINT_UNDER_TWO_STEPS", message, (other.pos, save.pos))


def _too_many(life: Life, known: list[Save]) -> Iterator[Flag]:
    """More are kept than was declared. Between a save and the deletion that makes room there is one too many."""
    most = life.declared[-1].said.max_checkpoints_kept if life.declared else None
    if not most:
        return
    for save in known:
        kept = [one for one in known if one.pos < save.pos and _gone(one) > save.pos]
        if len(kept) > most:
            message = (
                f"{len(kept)} checkpoints were kept when step {save.step} was saved, and at most {most} were to be"
            )
            yield Flag("CHECKPOINTS_OVER_LIMIT", message, (life.declared[-1].pos, save.pos))
            return


def _gone(save: Save) -> float:
    """The position at which its bytes went."""
    return min(
        float("inf") if save.deleted_pos is None else save.deleted_pos,
        float("inf") if save.replaced_pos is None else save.replaced_pos,
    )


def _deletions(life: Life, known: list[Save]) -> Iterator[Flag]:
    deleted = {save.deleted_pos for save in known}
    for fact in life.deletions:
        if fact.pos not in deleted:
            message = f"a checkpoint at step {fact.said.step} was deleted, and none was there then"
            yield Flag("DELETED_UNKNOWN_CHECKPOINT", message, (fact.pos,))


def _load(load: Fact[reading.CheckpointLoaded], known: list[Save]) -> Iterator[Flag]:
    said = load.said
    if said.recorded_step is not None and said.recorded_step != said.step:
        message = f"attempt {said.attempt} loaded step {said.step}, whose own state names step {said.recorded_step}"
        yield Flag("RECORDED_STEP_DIFFERS", message, (load.pos,))
    there = [save for save in known if save.step == said.step and save.pos < load.pos]
    if not there:
        return
    if said.digest is not None and all(save.digest not in {None, said.digest} for save in there):
        digests = " or ".join(sorted({_short(save.digest) for save in there}))
        message = f"attempt {said.attempt} loaded step {said.step} with digest {_short(said.digest)}"
        message += f", and {digests} was committed"
        yield Flag("LOADED_OTHER_BYTES", message, (*(save.pos for save in there), load.pos))
    save = next((s for s in reversed(there) if said.digest is not None and s.digest == said.digest), there[-1])
    yield from _restored(load, save)


def _restored(load: Fact[reading.CheckpointLoaded], save: Save) -> Iterator[Flag]:
    said, committed = load.said, save.said
    assert committed is not None  # only what was committed is compared
    positions = (save.pos, load.pos)
    yield from _data_state(load, committed, positions)
    if said.restored is None:
        return
    lost = [
        name.replace("_", " ")
        for name in _RESTORED
        if getattr(said.restored, name) is False
        and committed.contents is not None
        and getattr(committed.contents, name)
    ]
    if lost:
        message = f"attempt {said.attempt} loaded step {said.step} without its {', '.join(lost)}"
        yield Flag("RESTORED_IN_PART", message, positions)


def _data_state(
    load: Fact[reading.CheckpointLoaded], committed: reading.CheckpointCommitted, positions: tuple[int, ...]
) -> Iterator[Flag]:
    then, now = committed.data_state, load.said.data_state
    if then is None or now is None:
        return
    for name in ("prompts_consumed", "prompts_trained", "epoch"):
        before, after = getattr(then, name), getattr(now, name)
        if before is not None and after is not None and after != before:
            code = "DATA_STATE_WENT_BACK" if after < before else "DATA_STATE_RAN_AHEAD"
            message = f"attempt {load.said.attempt} began with {name.replace('_', ' ')} {after}"
            message += f", and {before} when step {load.said.step} was saved"
            yield Flag(code, message, positions)
    if None not in {then.consumed_digest, now.consumed_digest} and then.consumed_digest != now.consumed_digest:
        message = (
            f"attempt {load.said.attempt} began with consumed ids {_short(now.consumed_digest)}, and "
            f"{_short(then.consumed_digest)} were saved with step {load.said.step}"
        )
        yield Flag("CONSUMED_IDS_DIFFER", message, positions)
    if None not in {then.shuffle_seed, now.shuffle_seed} and then.shuffle_seed != now.shuffle_seed:
        message = (
            f"attempt {load.said.attempt} shuffles by seed {now.shuffle_seed}, and by {then.shuffle_seed} at the save"
        )
        yield Flag("SHUFFLE_SEED_CHANGED", message, positions)


def _selected_then_gone(life: Life, known: list[Save]) -> Iterator[Flag]:
    for selection in life.selections:
        for save in known:
            if save.pos > selection.pos or not names(selection.said, save):
                continue
            for gone, code, what in (
                (save.deleted_pos, "SELECTED_THEN_DELETED", "deleted"),
                (save.replaced_pos, "SELECTED_THEN_REPLACED", "written over with other bytes"),
            ):
                if gone is not None and gone > selection.pos:
                    message = f"{save.name} was selected for {selection.said.purpose} and then {what}"
                    yield Flag(code, message, (selection.pos, gone))


def _short(digest: str | None) -> str:
    return "unknown" if digest is None else f"{digest[:12]}…"
