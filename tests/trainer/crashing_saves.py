"""A program: saves a checkpoint again and again, and dies before each operation on the disk in turn.

    python -m tests.trainer.crashing_saves FOLDER

Each save is made by a forked child, which ends at once, with nothing caught and nothing cleaned up, when it is about to
open a file for writing, or to make, rename or remove one. Its number is the n-th such operation. What lies there then
is printed: the operation, and whether a checkpoint has its name.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import torch

from services.trainer import checkpoint_folders, checkpoints, models
from services.trainer.data_orders import DataOrder
from services.trainer.distributed import Team
from services.trainer.policies import Policy
from services.trainer.tasks.opening import open_task_set
from tests.trainer.runs import settings

DIED = 77
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    given = settings(folder)
    loaded = models.load(given.model)
    policy = Policy(loaded.model, given.algorithm, Team(loaded.device))
    data = DataOrder([open_task_set(given.data[0])], 1).state()
    state: dict[str, Any] = {"run_id": "tiny", "attempt": 1, "step": 2, "weight_version": 2, "config_digest": "0" * 64}
    state |= {"world_size": 1, "algorithm": {}, "data": data, "scheduler": {}}
    operation = 0
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        child = os.fork()
        if not child:
            die_before(operation)
            checkpoints.save(folder, policy, loaded, state, temperature=1.0)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found = checkpoint_folders.found(folder)
        for checkpoint in found:
            checkpoint_folders.verify(checkpoint.path)
            checkpoints.load(checkpoint.path, policy, seed=1)
        told = {"operation": operation, "code": code, "whole": len(found)}
        print(json.dumps({**told, "left": len(checkpoint_folders.leftovers(folder))}), flush=True)
        if code != DIED:
            return
        operation += 1


def die_before(operation: int) -> None:
    """Counts operations on the disk from now on."""
    seen = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        opens = event == "open" and isinstance(arguments[2], int) and bool(arguments[2] & WRITING)
        if opens or event in {"os.rename", "os.mkdir", "os.remove"}:
            if seen == operation:
                os._exit(DIED)
            seen += 1

    sys.addaudithook(count)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
