"""What a checkpoint may not be, beyond damage: another one's by name, by configuration, or by what its pickle does."""

from __future__ import annotations

import json
import pickle
import resource
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import TCPStore
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader

from ledger.client.recording.files import read_files
from ledger.core.errors import Broken, InvalidInput
from services.trainer import checkpoint_folders, checkpoints, models
from services.trainer.checkpoint_folders import write_json
from services.trainer.distributed import Team
from services.trainer.launching import HOST, environment
from services.trainer.models import LoadedModel
from services.trainer.policies import Policy
from services.trainer.stopping import Terminated
from tests.trainer.runs import Ran, settings, train


@pytest.fixture
def model(trained: Ran) -> LoadedModel:
    return models.load(trained.settings.model)


def last(folder: Path) -> Path:
    return folder / "checkpoints" / "global_step_4"


def policy_of(ran: Ran, model: LoadedModel, rank: int = 0) -> Policy:
    return Policy(model.model, ran.settings.algorithm, Team(model.device, rank))


def everything(policy: Policy) -> dict[str, torch.Tensor]:
    """Weights and moments, by name."""
    found = {name: tensor.detach().clone() for name, tensor in policy.named.items()}
    for name, tensor in policy.named.items():
        found |= {f"{name}.{kind}": value.clone() for kind, value in policy.optimizer.state[tensor].items()}
    return found


def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return one.keys() == two.keys() and all(one[name].equal(two[name]) for name in one)


def reseal(folder: Path, name: str, change: Callable[[dict[str, Any]], Any]) -> None:
    """Changes a JSON file of a checkpoint, and its manifest with it: by its bytes alone it is whole."""
    said = json.loads((folder / name).read_text())
    change(said)
    write_json(folder / name, said)
    (folder / "manifest.json").unlink()
    files = [file.model_dump() for file in read_files(folder).files]
    write_json(folder / "manifest.json", {"schema_version": 1, "files": files})


def test_a_checkpoint_under_another_steps_name_is_refused(copied: Path) -> None:
    last(copied).rename(copied / "checkpoints" / "global_step_9")
    with pytest.raises(InvalidInput, match=r"named after step 9, and its trainer_state\.json says step 4") as raised:
        train(settings(copied, run={"steps": 12}))
    assert raised.value.reason == "INVALID_FILE"
    assert "--resume" in raised.value.remedy


def test_a_checkpoint_under_another_attempts_name_is_refused(copied: Path) -> None:
    renamed = last(copied).rename(copied / "checkpoints" / "global_step_4.attempt_3")
    with pytest.raises(InvalidInput, match=r"named after attempt 3, and its trainer_state\.json says attempt 1"):
        checkpoint_folders.verify(renamed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("scheduler"), "has no scheduler"),
        (lambda state: state.update(step=True), "step in its trainer_state.json is wrong"),
        (lambda state: state.update(data=[]), "data in its trainer_state.json is wrong"),
        (lambda state: state.update(schema_version=2), "has the schema 2, and this release reads schema 1"),
    ],
    ids=["lacking", "bool", "list", "newer"],
)
def test_a_state_that_this_release_cannot_read_is_refused(
    copied: Path, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    reseal(last(copied), "trainer_state.json", change)
    with pytest.raises(InvalidInput, match=message):
        checkpoint_folders.verify(last(copied))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rope_parameters", {"rope_theta": 1e6, "rope_type": "default"}),
        ("rms_norm_eps", 1e-5),
        ("hidden_act", "relu"),
    ],
)
def test_a_model_of_the_same_shapes_that_computes_otherwise_is_refused_and_nothing_is_overwritten(
    copied: Path, trained: Ran, model: LoadedModel, key: str, value: Any
) -> None:
    reseal(last(copied), "huggingface/config.json", lambda said: said.update({key: value}))
    policy = policy_of(trained, model)
    before = everything(policy)
    with pytest.raises(InvalidInput, match=f"another model: {key} is") as raised:
        checkpoints.load(last(copied), policy, seed=1)
    assert [problem.place for problem in raised.value.problems] == [key]
    assert same(everything(policy), before)


def test_a_configuration_that_another_release_wrote_is_the_same_model(
    copied: Path, trained: Ran, model: LoadedModel
) -> None:
    def older(said: dict[str, Any]) -> None:
        said.update(transformers_version="4.0.0", architectures=["Qwen3ForCausalLM"])
        del said["max_window_layers"]  # a default

    reseal(last(copied), "huggingface/config.json", older)
    assert checkpoints.load(last(copied), policy_of(trained, model), seed=1).state["step"] == 4


class _Touch:
    """What unpickling it does is to make a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._path,)


@pytest.mark.parametrize("read", ["all", "weights"])
def test_a_pickle_that_was_put_in_place_of_torchs_own_is_never_opened(
    copied: Path, trained: Ran, model: LoadedModel, tmp_path: Path, read: str
) -> None:
    marker, metadata = tmp_path / "opened", last(copied) / "weights" / ".metadata"
    size = metadata.stat().st_size
    metadata.write_bytes(pickle.dumps(_Touch(marker)).ljust(size, b"\0"))
    policy = policy_of(trained, model)
    reads: dict[str, Callable[[], Any]] = {
        "all": lambda: checkpoints.load(last(copied), policy, seed=1),
        "weights": lambda: checkpoints.load_weights(last(copied), policy.named, policy.team),
    }
    with pytest.raises(Broken, match=r"weights/\.metadata has other bytes"):
        reads[read]()
    assert not marker.exists()
    with pytest.raises(AttributeError):  # the control: torch opens whatever lies there
        FileSystemReader(metadata.parent).read_metadata()
    assert marker.exists()


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """As on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_save_that_finds_no_room_says_so_and_leaves_the_checkpoints_that_are_there_and_nothing_else(
    copied: Path, trained: Ran, model: LoadedModel
) -> None:
    policy = policy_of(trained, model)
    state = {**checkpoint_folders.read_state(last(copied)), "step": 6}
    with (
        files_of_at_most(4096),
        pytest.raises(InvalidInput, match="weights cannot be written: File too large") as raised,
    ):
        checkpoints.save(copied, policy, model, state, temperature=1.0)
    assert raised.value.reason == "USAGE"
    latest = checkpoint_folders.find_latest(copied)
    assert latest is not None
    assert latest.step == 4
    assert checkpoint_folders.leftovers(copied) == []


def test_a_save_whose_own_last_files_cannot_be_made_gets_no_name(
    copied: Path, trained: Ran, model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tokenizer is a library's: it fails after the tensors are there."""

    def fail(folder: Path) -> None:
        raise OSError(28, "No space left on device", str(folder))

    monkeypatch.setattr(model.tokenizer, "save_pretrained", fail)
    state = {**checkpoint_folders.read_state(last(copied)), "step": 6}
    with pytest.raises(OSError, match="No space left"):
        checkpoints.save(copied, policy_of(trained, model), model, state, temperature=1.0)
    assert {one.step for one in checkpoint_folders.found(copied)} == {2, 4}
    assert checkpoint_folders.leftovers(copied) == []
    assert (copied / "checkpoints" / "latest.txt").read_text() == "global_step_4\n"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Terminated])
def test_an_interrupt_in_the_midst_of_torchs_save_is_told_as_one(
    copied: Path, trained: Ran, model: LoadedModel, kind: type[KeyboardInterrupt]
) -> None:
    """Torch catches it like a fault of the disk."""

    class Interrupts(torch.Tensor):
        def detach(self) -> torch.Tensor:
            raise CheckpointException("write", {0: (kind("SIGTERM"), traceback.StackSummary())})

    policy = policy_of(trained, model)
    policy.model.model.norm.weight = torch.nn.Parameter(torch.ones(32))
    policy.model.model.norm.weight.__class__ = Interrupts
    state = {**checkpoint_folders.read_state(last(copied)), "step": 6}
    with pytest.raises(kind, match="SIGTERM"):
        checkpoints.save(copied, policy, model, state, temperature=1.0)
    assert checkpoint_folders.leftovers(copied) == []


def test_a_process_that_was_not_there_at_the_save_draws_numbers_of_its_own(trained: Ran, model: LoadedModel) -> None:
    def drawn(rank: int, seed: int) -> tuple[bool, list[float]]:
        restored = checkpoints.load(last(trained.folder), policy_of(trained, model, rank), seed=seed)
        return restored.rng, torch.rand(4).tolist()

    known, of_first = drawn(rank=0, seed=1)
    new, of_second = drawn(rank=1, seed=1)
    assert (known, new) == (True, False)
    assert drawn(rank=0, seed=2)[1] == of_first
    assert drawn(rank=1, seed=1)[1] == of_second != of_first
    assert drawn(rank=1, seed=2)[1] != of_second


def reshard(folder: Path, step: int, new_step: int) -> dict[str, Any]:
    """Reads a step's checkpoint with two processes, and saves it as another's."""
    store = TCPStore(HOST, 0, is_master=True, wait_for_workers=False)
    program = [sys.executable, "-m", "tests.trainer.resharding", str(folder), str(step), str(new_step)]
    processes = [
        subprocess.Popen(
            program,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env=environment(rank, 2, store.port),
        )
        for rank in range(2)
    ]
    said = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    told: dict[str, Any] = json.loads(said[0].splitlines()[-1])
    return told


@pytest.mark.slow
def test_one_processs_save_goes_through_two_and_back_to_the_last_bit(
    copied: Path, trained: Ran, model: LoadedModel
) -> None:
    policy = policy_of(trained, model)
    checkpoints.load(last(copied), policy, seed=1)
    before = everything(policy)
    assert reshard(copied, 4, 6) == {"spread": True, "rng": False, "world_size": 2}
    saved = copied / "checkpoints" / "global_step_6"
    assert len(list((saved / "weights").glob("*.distcp"))) == 2
    other = policy_of(trained, models.load(trained.settings.model))
    assert not same(everything(other), before)
    restored = checkpoints.load(saved, other, seed=1)
    assert restored.rng  # one process goes on as the first of the two would
    assert restored.state["world_size"] == 2
    assert same(everything(other), before)
