"""Tasks of reasoning-gym that are not trained on; here without the package, which is never asked."""

from __future__ import annotations

import importlib.util

import pytest

from ledger.core.errors import InvalidInput, LedgerError
from services.trainer.settings import Data
from services.trainer.tasks.opening import open_task_set
from services.trainer.tasks.unsound import NEVER, REASONS, UNSOUND


@pytest.mark.parametrize("name", sorted(UNSOUND))
def test_a_task_that_nobody_can_rely_on_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        open_task_set(Data(kind="reasoning-gym", name=name))
    assert caught.value.problems[0].message == REASONS[UNSOUND[name]]
    assert name in caught.value.message


@pytest.mark.parametrize("name", sorted(n for n, why in UNSOUND.items() if why in NEVER))
def test_a_task_whose_fault_is_not_its_verifier_is_refused_under_every_verifier(name: str) -> None:
    with pytest.raises(InvalidInput, match=name):
        open_task_set(Data(kind="reasoning-gym", name=name, verifier="last-number"))


def test_every_reason_is_used() -> None:
    assert set(UNSOUND.values()) == set(REASONS)


@pytest.mark.skipif(importlib.util.find_spec("reasoning_gym") is not None, reason="the package is installed here")
def test_without_the_package_the_extra_is_named() -> None:
    with pytest.raises(LedgerError) as caught:
        open_task_set(Data(kind="reasoning-gym", name="chain_sum"))
    assert (caught.value.reason, caught.value.details["extra"]) == ("EXTRA_MISSING", "tasks")
