"""Opens the set of tasks that settings name."""

from __future__ import annotations

from services.trainer.settings import Data
from services.trainer.tasks import builtin, gym
from services.trainer.tasks.task_sets import TaskSet


def open_task_set(data: Data) -> TaskSet:
    """The tasks and what grades them.

    Raises:
        InvalidInput: reason INVALID_FILE, with the setting that is wrong, or why such tasks are not trained on.
        LedgerError: reason EXTRA_MISSING, if the package that makes them is not there.
    """
    makers = {"digits": builtin.digits, "sums": builtin.sums, "reasoning-gym": gym.generated}
    return makers[data.kind](data)
