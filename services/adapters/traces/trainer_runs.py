"""A trainer's run folder into rows: one a rollout, as `ledger.client.rollouts` keeps them.

- A line that is no rollout, or not one of its file's step, has no row and is named; the lines behind it are read.
- A step is abandoned once a later attempt trained from before it: what it changed in the weights was given up, whether
  or not the later attempt came as far. An evaluation at the step where the later attempt went on was not.
- Links are not followed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from ledger.client.rollouts import MAX_LINE, Rollout
from services.adapters.backfill.documents import harmless_name
from services.adapters.traces.accounts import STAGES, Account
from services.adapters.traces.cleaning import LONE, Cleaner, without_lone
from services.adapters.traces.numbers import Turns, as_float, reward_text
from services.adapters.traces.reading import PlaceRead
from services.adapters.traces.rows import Row, Turn

_FOLDER: Final = "rollouts"
_ATTEMPT: Final = re.compile(r"attempt_(\d{4,9})", re.ASCII)
_STEP: Final = re.compile(r"(step|eval)_(\d{6,15})\.jsonl", re.ASCII)


class Of(NamedTuple):
    """What a file's name says that its lines are of."""

    attempt: int
    step: int
    phase: str


@dataclass(frozen=True)
class _File:
    path: Path
    name: str
    of: Of


def is_run(place: Path) -> bool:
    """Whether it is a folder in which a trainer kept rollouts."""
    folder = place / _FOLDER
    return folder.is_dir() and not folder.is_symlink()


def run_rows(place: Path, account: Account, read: PlaceRead, *, run_id: str | None) -> Iterator[Row]:
    """The rollouts of a run folder; with `run_id`, of that run alone."""
    files = list(_files(place / _FOLDER, account))
    given_up = abandoned({file.of for file in files})
    seen: set[tuple[str, str]] = set()
    for file in files:
        for line, place_of in _lines(file, account, read):
            rollout = _parsed(line, place_of, account)
            if rollout is None:
                continue
            if reason := _refusal(rollout, file.of, run_id, seen):
                account.leave_out(reason, place_of, hides=() if reason in _NOT_OURS else STAGES)
                continue
            seen.add((rollout.run_id, rollout.trial_id))
            account.tally.add(_reached(rollout))
            if rollout.messages:
                yield _row(rollout, Cleaner(account, place_of), abandoned=file.of in given_up)
            else:
                account.leave_out("no conversation", place_of)


def abandoned(made: set[Of]) -> set[Of]:
    """Those of the steps that a later attempt gave up."""
    first = {a: min((o.step for o in made if o.attempt == a and o.phase == "train"), default=None) for a, *_ in made}

    def is_given_up(of: Of) -> bool:
        later = (attempt for attempt in first if attempt > of.attempt)
        return any(
            of._replace(attempt=attempt) in made or ((begun := first[attempt]) is not None and of.step >= begun)
            for attempt in later
        )

    return {of for of in made if is_given_up(of)}


_OTHER_RUN: Final = "of another run"
_TWICE: Final = "there twice"
_NOT_OURS: Final = frozenset({_OTHER_RUN, _TWICE})
"""What is left out for these reasons is no trial that should have been counted."""


def _refusal(rollout: Rollout, of: Of, run_id: str | None, seen: set[tuple[str, str]]) -> str | None:
    if run_id is not None and rollout.run_id != run_id:
        return _OTHER_RUN
    if Of(rollout.attempt, rollout.step, rollout.phase) != of:
        return "of another step than its file"
    return _TWICE if (rollout.run_id, rollout.trial_id) in seen else None


def _reached(rollout: Rollout) -> dict[str, bool]:
    ended = (rollout.finished_at, rollout.finish_reason, rollout.reward)
    return {
        "finished": any(sign is not None for sign in ended),
        "verified": rollout.reward is not None,
        "consumed": rollout.consumed,
        "trained": rollout.trained,
    }


def _row(rollout: Rollout, cleaner: Cleaner, *, abandoned: bool) -> Row:
    said = [Turn(message.role, cleaner.text(message.content)) for message in rollout.messages]
    tokens = cleaner.tokens(_tokens(rollout))
    answered = said[-1].role == "assistant"
    return Row(
        conversations=said,
        date=rollout.started_at,
        task=cleaner.label(rollout.task_id),
        episode="episode-0" if answered else None,
        run_id=cleaner.label(rollout.run_id),
        trial_name=cleaner.label(rollout.trial_id),
        result=reward_text(rollout.reward) or cleaner.label(rollout.exception_type),
        instruction=next((turn.content for turn in said if turn.role == "user"), None),
        **tokens,
        attempt=rollout.attempt,
        step=rollout.step,
        weight_version=rollout.weight_version,
        group=cleaner.label(rollout.group),
        sample=rollout.sample,
        phase=rollout.phase,
        consumed=rollout.consumed,
        masked=rollout.masked,
        trained=rollout.trained,
        abandoned=abandoned,
        finished=_reached(rollout)["finished"],
        advantage=as_float(rollout.advantage),
        reward=as_float(rollout.reward),
        finish_reason=rollout.finish_reason,
        exception_type=cleaner.label(rollout.exception_type),
        segment=1,
        segments=1,
        complete=True,
        dataset_id=cleaner.label(rollout.dataset_id),
        dataset_revision=cleaner.label(rollout.dataset_revision),
        verifier_revision=cleaner.label(rollout.verifier_revision),
        atlas_id=rollout.atlas_id,
        trial_id=cleaner.label(rollout.trial_id),
    )


def _tokens(rollout: Rollout) -> dict[str, Any]:
    """One turn; a rollout that has no token of its prompt or answer does not know them."""
    turns = Turns()
    turns.add(rollout.prompt_token_ids or None, rollout.completion_token_ids or None, rollout.logprobs)
    return turns.columns


def _files(folder: Path, account: Account) -> Iterator[_File]:
    """The files of rollouts, in order of attempt, phase and step."""
    found = []
    for attempt in sorted(folder.iterdir()):
        if not (named := _ATTEMPT.fullmatch(attempt.name)) or attempt.is_symlink() or not attempt.is_dir():
            _stray(attempt, f"{_FOLDER}/{harmless_name(attempt.name)}", account)
            continue
        for path in sorted(attempt.iterdir()):
            name = f"{_FOLDER}/{attempt.name}/{harmless_name(path.name)}"
            if not (match := _STEP.fullmatch(path.name)) or path.is_symlink() or not path.is_file():
                _stray(path, name, account)
                continue
            phase = "train" if match[1] == "step" else "eval"
            found.append(_File(path, name, Of(int(named[1]), int(match[2]), phase)))
    yield from sorted(found, key=lambda file: (file.of.attempt, file.of.phase, file.of.step, file.name))


def _stray(path: Path, name: str, account: Account) -> None:
    if path.is_symlink():
        account.leave_out("a link, which is not followed", name, hides=STAGES)
    elif not path.name.startswith("."):  # a file that was being written has such a name
        account.leave_out("not named as a file of rollouts", name)


def _lines(file: _File, account: Account, read: PlaceRead) -> Iterator[tuple[bytes, str]]:
    """Each line of a file and its place. What cannot be read is named."""
    digest, size = hashlib.sha256(), 0
    try:
        with file.path.open("rb") as stream:
            for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE + 1), b""), start=1):
                whole = line
                while not whole.endswith(b"\n") and len(whole) > MAX_LINE:
                    digest.update(whole)
                    size += len(whole)
                    whole = stream.readline(MAX_LINE + 1)
                digest.update(whole)
                size += len(whole)
                place = f"{file.name}:{number}"
                if len(line) > MAX_LINE:
                    account.leave_out("a line that is too long", place, hides=STAGES)
                else:
                    yield line, place
    except OSError as error:
        account.leave_out("a file that cannot be read", f"{file.name}: {error.strerror}", hides=STAGES)
    read.add(file.name, digest.hexdigest(), size)


def _parsed(line: bytes, place: str, account: Account) -> Rollout | None:
    try:
        return Rollout.model_validate_json(line)
    except ValidationError as error:
        rollout = _mended(line, account)
        if rollout is None:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the line"
            account.leave_out("no rollout", f"{place}: {where}: {first['msg']}", hides=STAGES)
        return rollout


def _mended(line: bytes, account: Account) -> Rollout | None:
    """A line that escapes half of a character, which strict JSON does not take: nothing else is forgiven."""
    if b"\\u" not in line:
        return None
    try:
        text, lone = without_lone(json.dumps(json.loads(line), ensure_ascii=False))
        rollout = Rollout.model_validate_json(text)
    except (ValueError, RecursionError):
        return None
    account.replaced[LONE] += lone
    return rollout
