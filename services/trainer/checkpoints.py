"""Saving all that training goes on from, and reading it back: weights, optimizer, data state, random generators.

Tensors lie in two saves of torch.distributed.checkpoint, which may be read by another number of processes than wrote
them; everything else is JSON. What a checkpoint is on disk, and when it is whole, stands in `checkpoint_folders`.

- Torch keeps what is where in a pickle. It is opened only once its digest was found to be that of the save.
- Names, types and shapes of all tensors and the model's configuration are compared before anything is overwritten.
"""

from __future__ import annotations

import base64
import json
import random
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load as dcp_load
from torch.distributed.checkpoint.state_dict_saver import save as dcp_save

from ledger.core.errors import InvalidInput, Problem
from services.trainer import checkpoint_folders
from services.trainer.checkpoint_folders import STATE, bad, read_state, write_json
from services.trainer.distributed import Team
from services.trainer.models import LoadedModel, save_huggingface
from services.trainer.policies import Policy
from services.trainer.sampling import seed_of_step

if TYPE_CHECKING:
    from transformers import PretrainedConfig

WEIGHTS: Final = "weights"
OPTIMIZER: Final = "optimizer"
HUGGINGFACE: Final = "huggingface"
_OF_NO_MODEL: Final = frozenset({"_name_or_path", "transformers_version", "architectures"})
"""Keys of config.json that say nothing of what a model computes."""


@dataclass(frozen=True)
class Restored:
    """What was read back."""

    state: dict[str, Any]
    """Of `trainer_state.json`."""
    digest: str
    """Of the files as they were read."""
    rng: bool
    """The generators of all processes go on where they stood; else some were seeded anew, since they are new."""


def save(folder: Path, policy: Policy, loaded: LoadedModel, state: Mapping[str, Any], *, temperature: float) -> Path:
    """Saves a checkpoint of a run's folder, on all processes together; gives where it lies.

    A crash at any moment leaves it whole, or a folder that nobody loads. What a failure left is removed: it may be what
    fills the disk.

    Raises:
        InvalidInput: reason USAGE, if the files cannot be written.
    """
    partial = policy.team.share(lambda: checkpoint_folders.begin(folder, int(state["step"])))
    try:
        return _save_to(partial, folder, policy, loaded, state, temperature=temperature)
    except BaseException:
        if policy.team.is_first:
            shutil.rmtree(partial, ignore_errors=True)
        raise


def _save_to(  # as `save`, which has begun
    partial: Path, folder: Path, policy: Policy, loaded: LoadedModel, state: Mapping[str, Any], *, temperature: float
) -> Path:
    team = policy.team
    _save(policy.named, partial / WEIGHTS, team)
    _save(policy.optimizer_state, partial / OPTIMIZER, team)
    write_json(partial / "rng" / f"rank_{team.rank}.json", _generators(team))
    team.wait()

    def seal() -> Path:
        save_huggingface(
            loaded.model.config,
            loaded.tokenizer,
            partial / HUGGINGFACE,
            stop_ids=loaded.stop_ids,
            temperature=temperature,
        )
        write_json(partial / STATE, {"schema_version": checkpoint_folders.SCHEMA, **state})
        return checkpoint_folders.finish(partial, folder, int(state["step"]), int(state["attempt"]))

    return team.share(seal)


def load(path: Path, policy: Policy, *, seed: int, expected: str | None = None) -> Restored:
    """Reads a checkpoint back into a policy, on all processes together. `expected` is the digest that was recorded.

    Raises:
        InvalidInput: reason INVALID_FILE, if it is not whole, or of another model than the policy's.
        Broken: its files have other bytes than were saved, or recorded.
    """
    team, parts = policy.team, {WEIGHTS: policy.named, OPTIMIZER: policy.optimizer_state}

    def check() -> tuple[dict[str, Any], str]:
        digest = checkpoint_folders.verify(path, expected=expected)
        for part, tensors in parts.items():
            _check_fits(path, part, tensors)
        check_config(path, policy.model.config)
        return read_state(path), digest

    state, digest = team.share(check)
    for part, tensors in parts.items():
        _load(path, part, tensors, team)
    known = _restore_generators(path, team, seed, int(state["step"]))
    new = team.sum(torch.tensor([0 if known else 1], dtype=torch.int64))
    return Restored(state, digest, rng=not int(new))


def load_weights(path: Path, named: Mapping[str, Tensor], team: Team, *, expected: str | None = None) -> str:
    """Reads the weights alone back into a model's own; gives the digest of the checkpoint's files.

    Raises:
        InvalidInput: reason INVALID_FILE, if the checkpoint is not whole, or of another model.
        Broken: its files have other bytes than were saved, or recorded.
    """
    digest = team.share(lambda: checkpoint_folders.verify(path, expected=expected))
    load_verified_weights(path, named, team)
    return digest


def load_verified_weights(path: Path, named: Mapping[str, Tensor], team: Team) -> None:
    """The same, where its files were hashed just now: they may be large.

    Raises:
        InvalidInput: reason INVALID_FILE, if the checkpoint is of another model.
    """
    team.share(lambda: _check_fits(path, WEIGHTS, named))
    _load(path, WEIGHTS, named, team)


def check_config(path: Path, config: PretrainedConfig) -> None:
    """Refuses a checkpoint of a model that computes otherwise: its tensors may have the same names and shapes.

    Raises:
        InvalidInput: reason INVALID_FILE, with each key that differs.
    """
    try:
        saved = _settled(type(config).from_dict(json.loads((path / HUGGINGFACE / "config.json").read_bytes())))
    except (OSError, ValueError, TypeError) as error:
        raise bad(path, f"its config.json cannot be read: {type(error).__name__}") from error
    ours = _settled(config)
    problems = [
        Problem(key, f"is {saved.get(key)!r} in the checkpoint, and {ours.get(key)!r} in the settings' model")
        for key in sorted(saved.keys() | ours.keys())
        if saved.get(key) != ours.get(key)
    ]
    if problems:
        raise bad(path, f"it is of another model: {problems[0].place} {problems[0].message}", problems)


def seed_generators(team: Team, seed: int, step: int) -> None:
    """Sets this process's generators by the run's seed, the rank and the step."""
    own = seed_of_step(seed, f"rank-{team.rank}", step)
    torch.manual_seed(own)
    random.seed(own)


def _settled(config: PretrainedConfig) -> dict[str, Any]:
    """With all defaults, as a file that another release wrote has them too; without what names that release."""
    said = json.loads(config.to_json_string(use_diff=False))
    return {key: value for key, value in said.items() if key not in _OF_NO_MODEL}


def _save(tensors: Mapping[str, Tensor], path: Path, team: Team) -> None:
    try:
        with _alone_on_purpose():
            dcp_save({name: t.detach() for name, t in tensors.items()}, checkpoint_id=path, no_dist=not team.is_many)
    except (CheckpointException, OSError, RuntimeError) as error:  # the first is no Exception
        _raise_interrupt(error)
        raise InvalidInput(
            f"{path} cannot be written: {_why(error)}",
            reason="USAGE",
            remedy="See that there is room, and go on from the last checkpoint that is whole.",
            details={"folder": str(path)},
        ) from error


def _raise_interrupt(error: BaseException) -> None:
    """Torch wraps an interrupt like a fault of the disk."""
    for failure, _ in error.failures.values() if isinstance(error, CheckpointException) else ():
        if isinstance(failure, KeyboardInterrupt):
            raise failure


def _why(error: BaseException) -> str:
    """What the disk said, which torch wraps in words of its own; of several processes, what the first to fail says."""
    if isinstance(error, CheckpointException):
        error = next((failure[0] for failure in error.failures.values()), error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return f"{type(error).__name__}: {error}"


def _load(path: Path, part: str, tensors: Mapping[str, Tensor], team: Team) -> None:
    """Into the tensors themselves."""
    into = {name: t.detach() for name, t in tensors.items()}
    try:
        with _alone_on_purpose():
            dcp_load(into, checkpoint_id=path / part, no_dist=not team.is_many)
    except (CheckpointException, OSError, RuntimeError, ValueError) as error:
        _raise_interrupt(error)
        raise bad(path, f"{part} cannot be read: {type(error).__name__}") from error


@contextmanager
def _alone_on_purpose() -> Iterator[None]:
    """Torch warns where there is no group of processes; one process needs none."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled", category=UserWarning)
        yield


def _check_fits(path: Path, part: str, tensors: Mapping[str, Tensor]) -> None:
    """Refuses a save of another model before anything is overwritten."""
    try:
        saved = FileSystemReader(path / part).read_metadata().state_dict_metadata
    except Exception as error:  # whatever unpickling a damaged file raises
        raise bad(path, f"{part}/{checkpoint_folders.DCP_METADATA} cannot be read: {type(error).__name__}") from error
    problems = [Problem(name, "is not in the checkpoint") for name in sorted(tensors.keys() - saved.keys())]
    problems += [Problem(name, "is not in the settings' model") for name in sorted(saved.keys() - tensors.keys())]
    for name in sorted(saved.keys() & tensors.keys()):
        there, here = _shown_saved(saved[name]), _shown(tensors[name].shape, tensors[name].dtype)
        if there != here:
            problems.append(Problem(name, f"is {there} in the checkpoint, and {here} in the settings' model"))
    if problems:
        raise bad(path, f"it is of another model: {problems[0].place} {problems[0].message}", problems)


def _shown_saved(said: Any) -> str:
    if not isinstance(said, TensorStorageMetadata):
        return "no tensor"
    return _shown(said.size, said.properties.dtype)


def _shown(shape: Any, dtype: torch.dtype) -> str:
    return f"{str(dtype).removeprefix('torch.')} {list(shape)}"


def _generators(team: Team) -> dict[str, Any]:
    version, numbers, gauss = random.getstate()
    told = {
        "torch": _packed(torch.get_rng_state()),
        "python": base64.b64encode(json.dumps([version, numbers, gauss]).encode()).decode(),
    }
    if team.device.type == "cuda":
        told["cuda"] = _packed(torch.cuda.get_rng_state(team.device))
    return {"schema_version": checkpoint_folders.SCHEMA, "rank": team.rank, **told}


def _restore_generators(path: Path, team: Team, seed: int, step: int) -> bool:
    file = path / "rng" / f"rank_{team.rank}.json"
    if not file.exists():
        seed_generators(team, seed, step)
        return False
    told = json.loads(file.read_bytes())
    torch.set_rng_state(_unpacked(told["torch"]))
    version, numbers, gauss = json.loads(base64.b64decode(told["python"]))
    random.setstate((version, tuple(numbers), gauss))
    if team.device.type == "cuda" and "cuda" in told:
        torch.cuda.set_rng_state(_unpacked(told["cuda"]), team.device)
    return True


def _packed(state: Tensor) -> str:
    return base64.b64encode(state.numpy().tobytes()).decode()


def _unpacked(text: str) -> Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
