"""The trials of a job: in their folders, or packed into archives that are read and never unpacked.

A trial is known by its folder. Its reward is that of its result; where it has none, that of `verifier/reward.txt`, and
only then that of `reward.json`, in the runner's own order. Names within an archive group files and lead nowhere.
"""

from __future__ import annotations

import gzip
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pydantic import ValidationError

from ledger.core.errors import InvalidInput
from ledger.events.steps import Treatment
from services.adapters.backfill import metrics
from services.adapters.backfill.accounts import Account
from services.adapters.backfill.clocks import LogClock, text_or_none
from services.adapters.backfill.documents import harmless_name
from services.adapters.backfill.harbor_models import AgentResult, TrialResult, seconds

MAX_FILE: Final = 64 << 20
"""Bytes of one file of a trial. A result may hold the tokens of every turn."""
MAX_MEMBERS: Final = 2_000_000

_CHUNK: Final = 1 << 20
_WITHIN: Final = frozenset({"agent", "verifier", "artifacts"})
"""Folders of a trial, in which a file of a trial's name is content and no trial."""

_CONFIG, _RESULT = "config.json", "result.json"
_REWARD_TEXT, _REWARD_JSON = "verifier/reward.txt", "verifier/reward.json"
FILES: Final = (_CONFIG, _RESULT, _REWARD_TEXT, _REWARD_JSON)
Unreadable = Callable[[str, str], None]
"""Told of a place that cannot be made out, and of what is wrong with it."""

_CHECKSUM: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_ARCHIVE: Final = re.compile(r"trials_step(\d{1,15})_([\w.-]{1,100})\.tar\.gz", re.ASCII)


@dataclass(frozen=True)
class FoundTrial:
    """A trial as its files say it."""

    name: str
    result: TrialResult | None
    rewards: Mapping[str, metrics.Value]
    """By name; empty: it was not verified."""

    @property
    def finished(self) -> bool:
        return self.result is not None and self.result.finished_at is not None

    @property
    def verified(self) -> bool:
        return bool(self.rewards)

    @property
    def reward(self) -> metrics.Value | None:
        """The one that is called so, or the only one. Of several others none speaks for all."""
        if len(self.rewards) == 1:
            return next(iter(self.rewards.values()))
        return self.rewards.get("reward")

    @property
    def exception_type(self) -> str | None:
        info = self.result.exception_info if self.result is not None else None
        return None if info is None else info.exception_type or "unknown"


def folder_trials(job: Path, account: Account) -> Iterator[FoundTrial]:
    """The trials whose folders lie in a job's folder. Links are not followed."""
    for folder in sorted(job.iterdir()):
        if folder.is_symlink():
            account.left_out["links in the job's folder, which are not followed"] += 1
        elif folder.is_dir() and any((folder / name).is_file() for name in (_CONFIG, _RESULT)):
            yield read_trial(folder.name, partial(_file, folder), account.unreadable)


def archives(job: Path) -> list[tuple[int, Path]]:
    """The archives of trials that lie in a job's folder, with the step that each is of."""
    found = [(match, path) for path in sorted(job.iterdir()) if (match := _ARCHIVE.fullmatch(path.name))]
    return sorted((int(match[1]), path) for match, path in found if path.is_file() and not path.is_symlink())


def archive_trials(path: Path, account: Account) -> Iterator[FoundTrial]:
    """The trials in an archive.

    Raises:
        InvalidInput: reason INVALID_FILE, if it is no such archive or is damaged.
    """
    by_trial: dict[str, dict[str, bytes]] = {}
    try:
        with gzip.open(path, "rb") as unpacked:
            with tarfile.open(fileobj=unpacked, mode="r|") as archive:
                for number, member in enumerate(archive):
                    if number >= MAX_MEMBERS:
                        raise _bad_archive(path, "it holds too many files")
                    _take(archive, member, by_trial, account)
            while unpacked.read(_CHUNK):  # to the end: only there does it show that nothing is missing
                pass
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise _bad_archive(path, str(error)) from None
    for name, files in sorted(by_trial.items()):
        yield read_trial(name, files.get, account.unreadable)


def _take(
    archive: tarfile.TarFile, member: tarfile.TarInfo, by_trial: dict[str, dict[str, bytes]], account: Account
) -> None:
    """Keeps a member that is one of a trial's files: TRIAL/result.json, with folders above it or none."""
    parts = PurePosixPath(member.name).parts
    name = next((f for f in FILES if parts[-len(PurePosixPath(f).parts) :] == PurePosixPath(f).parts), None)
    if name is None or not member.isfile():
        return
    above = parts[: -len(PurePosixPath(name).parts)]
    if not above or above[-1] in ("..", "/", ".") or _WITHIN & set(above):
        return
    if member.size > MAX_FILE:
        account.unreadable(f"{harmless_name(above[-1])}/{name}", "too large to be read")
        return
    content = archive.extractfile(member)
    if content is not None:
        by_trial.setdefault(above[-1], {})[name] = content.read()


def read_trial(
    folder: str,
    content: Callable[[str], bytes | None],
    unreadable: Unreadable,
    model: type[TrialResult] = TrialResult,
) -> FoundTrial:
    """A trial by the content of its files: None of a file that is not there.

    Args:
        folder: The name of its folder.
        content: Gives a file by its name below the folder.
        unreadable: Told of each file that cannot be made out, with what is wrong with it.
        model: What is read of its result, where more is needed than is counted.
    """
    name = harmless_name(folder)
    data = content(_RESULT)
    result = None if data is None else _parsed(data, f"{name}/{_RESULT}", unreadable, model)
    verified = result.verifier_result if result is not None else None
    rewards = _numbers(verified.rewards) if verified is not None and verified.rewards else {}
    return FoundTrial(name, result, rewards or _rewards_beside(content, name, unreadable))


def trial_fields(
    trial: FoundTrial, clean: Callable[[str], str], clock: LogClock, treatment: Treatment | None
) -> dict[str, Any]:
    """What the result says of a trial, as `rollouts.summarised` has it; each text as `clean` gives it."""
    result = trial.result or TrialResult()
    agent = result.agent_result or AgentResult()
    checksum, error = result.task_checksum or "", trial.exception_type
    return {
        "trial_name": clean(trial.name),
        "trial_id": clean(result.id) if result.id else None,
        "task_name": clean(result.task_name or trial.name.rpartition("__")[0] or trial.name),
        "task_checksum": checksum if _CHECKSUM.fullmatch(checksum) else None,
        "input_tokens": agent.n_input_tokens,
        "output_tokens": agent.n_output_tokens,
        "reward": trial.reward,
        "exception_type": clean(error) if error else None,
        "treatment": treatment,
        "started_at": text_or_none(clock.stamp(result.started_at)),
        "finished_at": text_or_none(clock.stamp(result.finished_at)),
        "seconds": seconds(result),
        "environment_setup_seconds": seconds(result.environment_setup),
        "agent_setup_seconds": seconds(result.agent_setup),
        "agent_execution_seconds": seconds(result.agent_execution),
        "verifier_seconds": seconds(result.verifier),
    }


def _rewards_beside(
    content: Callable[[str], bytes | None], name: str, unreadable: Unreadable
) -> dict[str, metrics.Value]:
    """The rewards in the verifier's own files, for a trial that never came to its result."""
    text = content(_REWARD_TEXT)
    if text is not None:
        value = metrics.from_text(text.decode("utf-8", "replace"))
        if value is None:
            unreadable(f"{name}/{_REWARD_TEXT}", "no number")
        return {} if value is None else {"reward": value}
    data = content(_REWARD_JSON)
    if data is None:
        return {}
    try:
        said = metrics.loads(data.decode())
    except ValueError:
        said = None
    if not isinstance(said, dict):
        unreadable(f"{name}/{_REWARD_JSON}", "no JSON object")
        return {}
    return _numbers(said)


def _numbers(said: Mapping[str, Any]) -> dict[str, metrics.Value]:
    return metrics.numbers(said).metrics


def _parsed(data: bytes, place: str, unreadable: Unreadable, model: type[TrialResult]) -> TrialResult | None:
    try:
        said = metrics.loads(data.decode())
    except ValueError:
        unreadable(place, "no JSON")
        return None
    try:
        return model.model_validate(said)
    except ValidationError:
        unreadable(place, "no JSON object")
        return None


def _file(folder: Path, name: str) -> bytes | None:
    """A trial's file, if it is there and is no link that leads elsewhere."""
    path = folder / name
    if path.is_symlink() or path.parent.is_symlink() or not path.is_file() or path.stat().st_size > MAX_FILE:
        return None
    return path.read_bytes()


def _bad_archive(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path} cannot be read: {why}",
        reason="INVALID_FILE",
        remedy="Take the archive out of the job's folder, or replace it by a whole copy. Nothing was appended.",
        details={"file": str(path)},
    )
