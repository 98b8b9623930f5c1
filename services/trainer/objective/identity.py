"""What the objective is: its settings with the values in force, the geometry of batch and processes, and its code.

A name such as `token_mean` identifies nothing: trainers have given one name to different formulas, and let one formula
depend on the micro-batch size. Two runs had the same objective if the digests are equal. They differ, too, where only
something that should change no number differs, such as the micro-batch size: whether it did is then open to question,
and not hidden.

Settings of the optimizer (the learning rate and such) are no part of the objective, and are recorded beside it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Final

from ledger.core import strictjson
from ledger.core.ids import sha256_hex
from ledger.events.runs import Algorithm as RecordedAlgorithm
from services.trainer.objective.objective import ENTROPY_COEFFICIENT, KL_COEFFICIENT, MIN_GROUP_SIZE
from services.trainer.settings import Algorithm, Settings

OPTIMIZER: Final = frozenset({"learning_rate", "warmup_steps", "weight_decay", "max_grad_norm"})
"""Settings of the algorithm that change how a loss is followed, and not the loss."""


def effective(algorithm: Algorithm) -> dict[str, Any]:
    """The settings of the algorithm by their names, defaults resolved; null where one has no effect."""
    values = algorithm.model_dump(mode="json")
    values["policy_mini_batch_size"] = algorithm.mini_batch
    values["errors"] = algorithm.error_treatment
    values["max_seq_len"] = algorithm.max_seq_len
    if algorithm.advantage_estimator == "rloo_n" and algorithm.rloo_n_min_group_size is None:
        values["rloo_n_min_group_size"] = MIN_GROUP_SIZE
    if algorithm.use_kl_loss or algorithm.use_kl_in_reward:
        values["kl_loss_coef"] = KL_COEFFICIENT if algorithm.kl_loss_coef is None else algorithm.kl_loss_coef
    else:
        values["kl_estimator_type"] = None
    if algorithm.use_entropy_loss and algorithm.entropy_loss_coef is None:
        values["entropy_loss_coef"] = ENTROPY_COEFFICIENT
    return values


def identity(algorithm: Algorithm, world_size: int) -> dict[str, Any]:
    """All that makes the objective what it is, as plain JSON."""
    settings = {name: value for name, value in effective(algorithm).items() if name not in OPTIMIZER}
    return {"settings": settings, "world_size": world_size, "code": code_digest()}


def identity_digest(algorithm: Algorithm, world_size: int) -> str:
    """SHA-256 over the identity as JSON with sorted keys."""
    return sha256_hex(strictjson.dumps(identity(algorithm, world_size)))


def code_digest() -> str:
    """SHA-256 over this package's files as they lie there: over each file's own, by its name."""
    folder = Path(__file__).parent
    return sha256_hex(
        strictjson.dumps({path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.py")})
    )


def algorithm_fields(settings: Settings, world_size: int) -> dict[str, Any]:
    """The `algorithm` of `run.declared`: what it has no field for stands under `other`."""
    algorithm = settings.algorithm
    values = effective(algorithm) | {"seed": settings.run.seed}
    named = RecordedAlgorithm.model_fields.keys()
    other = {name: value for name, value in values.items() if name not in named}
    other |= {
        "world_size": world_size,
        "objective_code": code_digest(),
        "objective": identity_digest(algorithm, world_size),
    }
    return {name: value for name, value in values.items() if name in named} | {"other": other}
