"""A program: reads a checkpoint into a model that is spread over processes, and saves it as it was read.

    python -m tests.trainer.resharding FOLDER STEP NEW_STEP

The first process prints whether the parameters were spread, and whether all generators went on.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from torch.distributed.tensor import DTensor

from services.trainer import checkpoint_folders, checkpoints, models
from services.trainer.distributed import Team
from services.trainer.policies import Policy
from tests.trainer.runs import settings


def main(folder: Path, step: int, new_step: int) -> None:
    torch.set_num_threads(1)
    given = settings(folder)
    loaded = models.load(given.model)
    team = Team.join(loaded.device)
    policy = Policy(team.shard(loaded.model), given.algorithm, team)
    restored = checkpoints.load(checkpoint_folders.find_step(folder, step).path, policy, seed=1)
    state = {**restored.state, "step": new_step, "world_size": team.world_size}
    checkpoints.save(folder, policy, loaded, state, temperature=1.0)
    if team.is_first:
        spread = all(isinstance(tensor, DTensor) for tensor in policy.named.values())
        print(json.dumps({"spread": spread, "rng": restored.rng, "world_size": team.world_size}))
    team.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
