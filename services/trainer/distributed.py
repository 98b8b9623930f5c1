"""The processes of one run: each has a shard of the model and a share of the rows; the first one does the rest.

- One process needs no group at all, so that an engine in it may have one of its own.
- What only the first process can do (sampling, files, the ledger) is done in `share`: the others wait for what came of
  it, and if it failed they fail with it, rather than wait for ever.
- Sums over processes are the same on all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, Self, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ledger.core.errors import InvalidInput, LedgerError, Unavailable

T = TypeVar("T")
PATIENCE: Final = timedelta(hours=12)
"""How long a process waits for the first one, which samples and grades meanwhile."""


class Team:
    """This process among those of the run."""

    def __init__(self, device: torch.device, rank: int = 0, world_size: int = 1) -> None:
        self.device = device
        self.rank = rank
        self.world_size = world_size

    @classmethod
    def join(cls, device: torch.device) -> Self:
        """As the launcher's environment says: alone, or one of many.

        Raises:
            InvalidInput: reason USAGE, if what the environment says is no rank.
        """
        rank, world_size = own_rank(), _number("WORLD_SIZE", 1)
        if world_size == 1:
            return cls(device)
        if device.index is not None:
            raise InvalidInput(
                f"model.device: {device} is one device, and there are {world_size} processes",
                reason="USAGE",
                remedy=f'Write "{device.type}": each process takes the device of its own number.',
            )
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=PATIENCE)
        return cls(device, rank, world_size)

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    @property
    def is_many(self) -> bool:
        return self.world_size > 1

    def share(self, act: Callable[[], T]) -> T:
        """What the first process's act gives, on all of them; what it raises is raised on all."""
        if not self.is_many:
            return act()
        told: list[Any] = [None, None]
        failure: BaseException | None = None
        if self.is_first:
            try:
                told[0] = act()
            except Exception as error:  # noqa: BLE001  # raised below, once the others know
                failure, told[1] = error, _as_told(error)
        dist.broadcast_object_list(told, src=0, device=self.device)
        if failure is not None:
            raise failure
        if told[1] is not None:
            raise told[1]
        given: T = told[0]
        return given

    def sum(self, tensor: Tensor) -> Tensor:
        """Over all processes; the tensor is not changed."""
        if not self.is_many:
            return tensor
        total = tensor.detach().clone().to(self.device)
        dist.all_reduce(total)
        return total.to(tensor.device)

    def wait(self) -> None:
        """Until all have come so far."""
        if self.is_many:
            dist.barrier()

    def shard(self, model: Any) -> Any:
        """Spreads a model's parameters over the processes (FSDP2), layer by layer; alone it is left as it is."""
        if self.is_many:
            from torch.distributed.device_mesh import init_device_mesh  # noqa: PLC0415  # slow to import
            from torch.distributed.fsdp import fully_shard  # noqa: PLC0415

            mesh = init_device_mesh(self.device.type, (self.world_size,))
            for layer in _layers(model):
                fully_shard(layer, mesh=mesh)
            fully_shard(model, mesh=mesh)
        return model

    def gather(self, named: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Whole tensors: the model's own where it is not spread; else copies on the CPU, on the first process alone."""
        if not self.is_many:
            return {name: tensor.detach() for name, tensor in named.items()}
        found: dict[str, Tensor] = {}
        for name, tensor in named.items():
            whole = full(tensor.detach())
            if self.is_first:
                found[name] = whole.cpu()
        return found

    def close(self) -> None:
        if self.is_many and dist.is_initialized():
            dist.destroy_process_group()


def full(tensor: Tensor) -> Tensor:
    """The whole of a tensor that may be spread over processes."""
    whole: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return whole


def own_rank() -> int:
    """This process's number in the run, as the launcher's environment says.

    Raises:
        InvalidInput: reason USAGE, if that is no number.
    """
    return _number("RANK", 0)


def local_rank() -> int:
    """This process's number on its machine, as the launcher's environment says.

    Raises:
        InvalidInput: reason USAGE, if that is no number.
    """
    return _number("LOCAL_RANK", 0)


def _layers(model: Any) -> Iterable[Any]:
    """The blocks of which there are many alike: the longest list of modules."""
    lists = [module for module in model.modules() if isinstance(module, torch.nn.ModuleList)]
    return max(lists, key=len, default=[])


def _as_told(error: Exception) -> LedgerError:
    if isinstance(error, LedgerError):
        return LedgerError(
            error.message,
            reason=error.reason,
            remedy=error.remedy,
            details=error.details,
            problems=error.problems,
        )
    return Unavailable(f"the first process failed: {type(error).__name__}: {error}", remedy="See what it says.")


def _number(name: str, default: int) -> int:
    text = os.environ.get(name, str(default))
    if not text.isascii() or not text.isdigit():
        raise InvalidInput(
            f"{name} is {text!r} in the environment", reason="USAGE", remedy="Start processes by `--processes`."
        )
    return int(text)
