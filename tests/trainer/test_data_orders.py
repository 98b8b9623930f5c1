"""Which prompts come when: each once an epoch, in an order that a resume goes on with."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.errors import InvalidInput
from services.trainer.data_orders import DataOrder, recorded
from services.trainer.settings import Data
from services.trainer.tasks.opening import open_task_set

SETS = [open_task_set(Data(kind="digits", count=7)), open_task_set(Data(kind="digits", count=4))]


def groups(order: DataOrder, count: int) -> list[str]:
    return [prompt.group for prompt in order.take(count)]


@given(sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6), cut=st.integers(0, 5), seed=st.integers(0, 99))
def test_a_restored_order_goes_on_as_the_first_one_would_have(sizes, cut, seed):
    whole, first, second = (DataOrder(SETS, seed) for _ in range(3))
    expected = [groups(whole, size) for size in sizes]
    before = [groups(first, size) for size in sizes[:cut]]
    second.restore(json.loads(json.dumps(first.state())))
    after = [groups(second, size) for size in sizes[cut:]]
    assert before + after == expected
    if after:
        assert second.state() == whole.state()


@given(seed=st.integers(0, 99), count=st.integers(1, 40))
def test_an_epoch_has_each_prompt_once_and_the_next_has_another_order(seed, count):
    taken = groups(DataOrder(SETS, seed), 22)
    assert len(set(taken[:11])) == len({g.partition("/")[2] for g in taken[:11]}) == 11
    assert len({g.partition("/")[2] for g in taken[11:]}) == 11
    assert groups(DataOrder(SETS, seed), count) == (taken * 2)[:count] if count <= 22 else True


def test_another_seed_and_another_epoch_have_another_order():
    orders = {tuple(g.partition("/")[2] for g in groups(DataOrder(SETS, seed), 11)) for seed in range(5)}
    assert len(orders) == 5
    two = groups(DataOrder(SETS, 0), 22)
    assert [g.partition("/")[2] for g in two[:11]] != [g.partition("/")[2] for g in two[11:]]


def test_tasks_of_one_name_in_two_sets_are_two_prompts():
    twice = DataOrder([SETS[0], SETS[0]], 0)
    assert len(set(groups(twice, 14))) == 14


def test_where_the_tasks_changed_the_rest_of_the_epoch_is_what_was_not_consumed():
    small, large = ([open_task_set(Data(kind="digits", count=count))] for count in (4, 6))
    order = DataOrder(small, 0)
    before = groups(order, 3)
    other = DataOrder(large, 0)
    other.restore(order.state())
    rest = groups(other, 3)
    assert not set(before) & set(rest)
    assert len({*before, *rest}) == 6
    assert other.epoch == 0


def test_an_event_has_a_digest_in_place_of_the_names():
    order = DataOrder(SETS, 0)
    order.take(3)
    told = recorded(order.state())
    assert "consumed" not in told
    assert told["prompts_consumed"] == 3
    assert len(told["consumed_digest"]) == 64


def test_without_a_task_there_is_no_order():
    with pytest.raises(InvalidInput, match="no tasks"):
        DataOrder([], 0)
