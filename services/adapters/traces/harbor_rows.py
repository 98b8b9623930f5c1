"""A Harbor job into rows: one a trial that has a conversation, whatever came of it.

Which group a trial was of, by which weights it was sampled and whether it trained, no trial says: these stay unknown.
An archive tells the step. Tokens are those that the steps of the conversation hold themselves; those of the result are
taken only where there is one list of them, as long as the conversation.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from services.adapters.backfill.harbor_models import (
    AgentInfo,
    AgentModel,
    AgentResult,
    Known,
    Lenient,
    TrialResult,
    Words,
)
from services.adapters.backfill.harbor_trials import FoundTrial, read_trial
from services.adapters.traces.accounts import Account
from services.adapters.traces.cleaning import Cleaner
from services.adapters.traces.harbor_files import ERRORS, OUTPUT, RESULT, Trial, job_trials
from services.adapters.traces.numbers import Turns, as_float, reward_text
from services.adapters.traces.reading import PlaceRead
from services.adapters.traces.rows import Row
from services.adapters.traces.trajectories import FIRST, Chain, Transcript, first_of_user, follow, transcript


class RolloutDetail(Lenient):
    """The tokens of one conversation, a list a turn."""

    prompt_token_ids: Known[list[Any]] = None
    completion_token_ids: Known[list[Any]] = None
    logprobs: Known[list[Any]] = None


class TracedAgentResult(AgentResult):
    rollout_details: Known[list[RolloutDetail]] = None


class TaskId(Lenient):
    git_commit_id: Known[Words] = None


class TracedResult(TrialResult):
    """Of a result also what only a row needs."""

    task_id: Known[TaskId] = None
    agent_result: Known[TracedAgentResult] = None


_CHECKSUM: Final = frozenset("0123456789abcdef")


def job_rows(job: Path, spool: Path, account: Account, read: PlaceRead, *, run_id: str | None) -> Iterator[Row]:
    """The trials of a job that have a conversation. That they are of the run is for whoever names it to know."""
    seen: set[tuple[str | None, str]] = set()
    for trial in job_trials(job, spool, account, read):
        found = read_trial(trial.name, trial.content, partial(_unreadable, account), TracedResult)
        key = (found.result.id if found.result is not None else None, trial.name)
        if key in seen:
            account.leave_out("there twice", trial.place)
            continue
        seen.add(key)
        account.tally.add(_reached(trial, found))
        row = _row(trial, found, account, run_id)
        if row is not None:
            yield row


def _unreadable(account: Account, place: str, what: str) -> None:
    account.note(f"a file that is {what}", place, hides=("verified",))


def _reached(trial: Trial, found: FoundTrial) -> dict[str, bool | None]:
    """How far a trial came; a result that is there and cannot be read would tell."""
    told = found.result is not None or not trial.content.holds(RESULT)
    return {"finished": found.finished if told else None, "verified": found.verified or (False if told else None)}


def _row(trial: Trial, found: FoundTrial, account: Account, run_id: str | None) -> Row | None:
    """The trial's row, or None where it has no conversation, which is told."""
    try:
        chain = follow(trial.content)
        if chain is None:
            account.leave_out("no trajectory", trial.place)
            return None
        cleaner = Cleaner(account, trial.place)
        part = transcript(chain.last, chain.name, cleaner, lambda what, name: account.note(what, _at(trial, name)))
    except ValueError as error:
        account.leave_out("a trajectory that cannot be read", f"{_at(trial, FIRST)}: {_first_line(error)}")
        return None
    if not part.turns:
        account.leave_out("no conversation", trial.place)
        return None
    if chain.broken is not None:
        account.note(chain.broken, _at(trial, chain.name))
    return _made(trial, found, chain, part, cleaner=cleaner, run_id=run_id)


def _made(
    trial: Trial, found: FoundTrial, chain: Chain, part: Transcript, *, cleaner: Cleaner, run_id: str | None
) -> Row:
    result = found.result if isinstance(found.result, TracedResult) else TracedResult()
    info = result.agent_info or AgentInfo()
    model = info.model_info or AgentModel()
    tokens = cleaner.tokens(_tokens(chain, part, result))
    exception = cleaner.label(found.exception_type)
    return Row(
        conversations=part.turns,
        agent=cleaner.label(info.name or part.agent),
        model=cleaner.label(model.name or part.model),
        model_provider=cleaner.label(model.provider),
        date=cleaner.label(result.started_at),
        task=cleaner.label(result.task_name),
        episode=f"episode-{part.answers - 1}" if part.answers else None,
        run_id=run_id,
        trial_name=cleaner.label(trial.name),
        result=reward_text(found.reward) or exception,
        instruction=_instruction(chain, part, cleaner),
        verifier_output=_verifier_output(trial, cleaner),
        **tokens,
        step=trial.step,
        finished=_reached(trial, found)["finished"],
        reward=as_float(found.reward),
        exception_type=exception,
        segment=chain.parts,
        segments=None if chain.broken else chain.parts,
        complete=chain.parts == 1 and chain.broken is None and part.whole,
        subagents=part.subagents,
        dataset_id=cleaner.label(result.source),
        dataset_revision=cleaner.label(result.task_id.git_commit_id if result.task_id is not None else None),
        task_checksum=_checksum(result.task_checksum),
        trial_id=cleaner.label(result.id),
    )


def _instruction(chain: Chain, part: Transcript, cleaner: Cleaner) -> str | None:
    if chain.last is chain.first:
        return next((turn.content for turn in part.turns if turn.role == "user"), None)
    return first_of_user(chain.first, cleaner)


def _verifier_output(trial: Trial, cleaner: Cleaner) -> str | None:
    printed = [data for name in (OUTPUT, ERRORS) if (data := trial.content(name)) is not None]
    return "".join(map(cleaner.decoded, printed)) if printed else None


def _tokens(chain: Chain, part: Transcript, result: TracedResult) -> dict[str, Any]:
    columns = part.tokens.columns
    if any(value is not None for value in columns.values()):
        return columns
    details = (result.agent_result.rollout_details if result.agent_result is not None else None) or []
    if len(details) != 1 or chain.parts != 1 or chain.broken is not None:
        return columns
    (said,) = details
    lists = [said.prompt_token_ids, said.completion_token_ids, said.logprobs]
    turns = Turns()
    for number in range(part.answers):
        turns.add(*(one[number] if one is not None and len(one) == part.answers else None for one in lists))
    return turns.columns


def _checksum(said: str | None) -> str | None:
    """A digest; a text of another form is none."""
    return said if said is not None and len(said) == 64 and set(said) <= _CHECKSUM else None


def _at(trial: Trial, name: str) -> str:
    return f"{trial.place}/{name}"


def _first_line(error: ValueError) -> str:
    return str(error).partition("\n")[0][:200]
