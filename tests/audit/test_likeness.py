"""Which arms are alike, and in what they are not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.audit import likeness
from ledger.audit.likeness import OF_ITS_OWN, REQUIRED, SETTING, SOURCES, Compared, Values

SETTINGS: dict[str, Any] = {
    "advantage_estimator": "rloo_n", "loss_reduction": "token_mean", "train_batch_size": 64,
    "policy_mini_batch_size": 64, "micro_train_batch_size_per_gpu": 1, "n_samples_per_prompt": 8,
    "max_input_length": 24576, "max_generate_length": 8192, "seed": 1,
}  # fmt: skip


def declared(source: str = "A:one", revision: str | None = "data-1", **fields: Any) -> dict[str, Any]:
    taken = {"atlas_id": source, "dataset_id": "d", "dataset_revision": revision, "verifier_revision": "verifier-1"}
    known = {
        "rl_start": {"name": "base", "repository": "org/base", "commit": "c1"},
        "sources": [taken],
        "code": [{"role": "trainer", "name": "trainer", "commit": "abc"}],
        "algorithm": SETTINGS,
        "planned_steps": 80,
    }
    return {**known, **fields}


def values(**fields: Any) -> Values:
    return {v.name: v.value for v in likeness.values_of({"declared": declared(**fields)}).values()}


def differences(one: dict[str, Any], other: dict[str, Any], compared: Compared) -> tuple[str, ...]:
    """In what two arms differ, or are unknown."""
    arms = {"one": values(**one), "two": values(**other)}
    names = likeness.must_be_alike(list(arms.values()), compared)
    found = likeness.groups(arms, names)
    return found[-1].differs_in if len(found) == 2 else found[0].unknown


OTHER = Compared("other")


def test_everything_that_is_required_is_known_of_a_well_declared_run() -> None:
    assert set(REQUIRED) <= values().keys()


def test_runs_that_differ_in_nothing_or_only_in_their_seed_are_alike() -> None:
    assert differences({}, {}, OTHER) == ()
    assert differences({}, {"algorithm": {**SETTINGS, "seed": 2}}, OTHER) == ()


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"rl_start": {"name": "base", "repository": "org/base", "commit": "c2"}}, "base"),
        ({"revision": "data-2"}, "dataset_revision"),
        ({"algorithm": {**SETTINGS, "train_batch_size": 128}}, "train_batch_size"),
        ({"algorithm": {**SETTINGS, "max_generate_length": 16384}}, "max_generate_length"),
        ({"code": [{"role": "trainer", "name": "trainer", "commit": "def"}]}, "trainer_commit"),
        ({"code": [{"role": "trainer", "name": "trainer", "commit": "abc", "dirty": True}]}, "trainer_commit"),
        ({"planned_steps": 40}, "budget"),
        ({"time_budget_seconds": 60}, "budget"),
        ({"rl_start": {"name": "base"}}, "base"),
        ({"rl_start": None}, "base"),
        ({"agent_harness": "opencode"}, "agent_harness"),
    ],
)
def test_arms_that_differ_in_one_thing_are_unlike_and_it_is_named(fields: dict[str, Any], name: str) -> None:
    assert differences({}, fields, OTHER) == (name,)


def test_a_name_without_a_commit_identifies_no_base() -> None:
    assert "base" not in values(rl_start={"name": "base", "repository": "org/base"})
    assert values(rl_start={"name": "base", "digest": "d"})["base"] == "base@d"


def test_what_is_unknown_of_both_arms_is_not_alike() -> None:
    assert differences({"revision": None}, {"revision": None}, OTHER) == ("dataset_revision",)


def test_the_setting_that_a_campaign_compares_need_not_be_alike() -> None:
    changed = {"algorithm": {**SETTINGS, "loss_reduction": "sequence_mean"}}
    assert differences({}, changed, OTHER) == ("loss_reduction",)
    assert differences({}, changed, Compared(SETTING, "trainer.algorithm.loss_reduction")) == ()


def test_a_setting_is_one_number_however_it_was_written() -> None:
    config = {"declared": declared(), "objective": {"identity": [part("train_batch_size", "64", "config")]}}
    assert likeness.values_of(config)["train_batch_size"].value == values()["train_batch_size"]
    assert likeness.as_text(64.0) == likeness.as_text(64) == "64"
    assert likeness.as_text(True) == "true"


def part(name: str, value: str, origin: str = "declared") -> dict[str, str]:
    return {"name": name, "value": value, "origin": origin}


def test_a_setting_of_the_configuration_counts_as_a_declared_one_does() -> None:
    of_config = {"objective": {"identity": [part("loss_reduction", "token_mean", "config")]}}
    found = likeness.values_of(of_config)["loss_reduction"]
    assert (found.value, found.origin) == ("token_mean", "config")


def test_revisions_of_sources_that_differ_must_be_known_and_need_not_be_equal() -> None:
    arms = {"one": values(source="A:one"), "two": values(source="A:two", revision="data-9")}
    taken = {"one": frozenset({"A:one"}), "two": frozenset({"A:two"})}
    compared = likeness.unshared(arms, taken)
    assert {arm: v["dataset_revision"] for arm, v in compared.items()} == {"one": OF_ITS_OWN, "two": OF_ITS_OWN}
    names = likeness.must_be_alike(list(compared.values()), Compared(SOURCES))
    assert [group.arms for group in likeness.groups(compared, names)] == [("one", "two")]
    unknown = likeness.unshared({"one": values(source="A:one", revision=None)}, {"one": frozenset({"A:one"})})
    assert "dataset_revision" not in unknown["one"]


def test_two_arms_on_one_source_are_compared_by_its_revisions_though_sources_differ_elsewhere() -> None:
    arms = {"one": values(), "again": values(revision="data-2"), "two": values(source="A:two")}
    taken = {"one": frozenset({"A:one"}), "again": frozenset({"A:one"}), "two": frozenset({"A:two"})}
    compared = likeness.unshared(arms, taken)
    assert compared["one"]["dataset_revision"] != compared["again"]["dataset_revision"]
    assert compared["two"]["dataset_revision"] == OF_ITS_OWN


arms_drawn = st.dictionaries(
    st.sampled_from("abcdef"), st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"])), min_size=1
)


@given(arms_drawn)
def test_groups_are_of_all_arms_once_and_arms_are_together_just_if_they_say_the_same(arms: dict[str, Values]) -> None:
    names = ["x", "y"]
    found = likeness.groups(arms, names)
    assert sorted(arm for group in found for arm in group.arms) == sorted(arms)
    for group in found:
        same = [arm for arm in arms if [arms[arm].get(n) for n in names] == [arms[group.arms[0]].get(n) for n in names]]
        assert list(group.arms) == same
        assert group.unknown == tuple(n for n in names if n not in arms[group.arms[0]])
    together = likeness.all_together(arms, names)
    assert set(together.unknown) == {name for group in found for name in group.unknown}
    known = {name: {values[name] for values in arms.values() if name in values} for name in names}
    assert set(together.differs_in) == {name for name in names if len(known[name]) > 1}
