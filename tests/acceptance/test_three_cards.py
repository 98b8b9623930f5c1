"""Three public cards, rebuilt from the demonstration: every figure that they give is found again, with who says so.

What a card says beyond its figures is kept as a claim, and what follows from the figures is computed: that the EMA was
higher one step before the step that a page calls optimal. What no card gives is unknown, and is never shown as 0.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from services.cli.demo_plan import E2EGIT, PYMETHODS, TACO
from tests.acceptance.doors import ledger

SFT: Final = "laion/GLM-4_7-swesmith-sandboxes-with_tests-oracle_verified_120s-maxeps-131k-fixthink"
CODER: Final = "Qwen/Qwen3-Coder-30B-A3B-Instruct"
Told = dict[str, Any]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that holds the demonstration."""
    made = tmp_path_factory.mktemp("cards") / "home"
    assert ledger("demo", "--once", "--quiet", "--home", made).code == 0
    return made


@pytest.fixture(scope="module")
def told(home: Path) -> dict[str, Told]:
    """Each of the three runs as JSON."""
    return {run: ledger("run", "show", run, "--json", "--home", home).json for run in (TACO, E2EGIT, PYMETHODS)}


@pytest.fixture(scope="module")
def cards(home: Path) -> dict[str, str]:
    """The derived card of each."""
    return {run: ledger("card", run, "--home", home).out for run in (TACO, E2EGIT, PYMETHODS)}


def algorithm(name: str) -> Callable[[Told], Any]:
    return lambda t: t["run"]["declared"]["algorithm"][name]


def spread(name: str) -> Callable[[Told], Any]:
    return lambda t: t["run"]["declared"]["parallelism"][name]


def summary(name: str) -> Callable[[Told], Any]:
    return lambda t: t["run"]["summary"][name]


def selection(name: str) -> Callable[[Told], Any]:
    return lambda t: t["run"]["selections"][0][name]


def claim(topic: str, name: str = "number") -> Callable[[Told], Any]:
    """A claim on the run, or on what was exported of it."""

    def pick(t: Told) -> Any:
        claims = [*t["run"]["claims"], *(c for e in t["exports"] for c in e["claims"])]
        (found,) = [c["claim"][name] for c in claims if c["claim"]["topic"] == topic]
        return found

    return pick


def number_of(kind: str, name: str) -> Callable[[Told], Any]:
    """A number that an anomaly shows."""

    def pick(t: Told) -> Any:
        (anomaly,) = [a for a in t["run"]["anomalies"] if a["kind"] == kind]
        return {n["name"]: n["value"] for n in anomaly["numbers"]}[name]

    return pick


def code(role: str) -> Callable[[Told], Any]:
    return lambda t: {c["role"]: c["name"] for c in t["run"]["declared"]["code"]}[role]


def hosted(field: str) -> Callable[[Told], Any]:
    return lambda t: {o["field"]: o["value"] for o in t["exports"][0]["hosting"][0]["observations"]}[field]


TACO_SAYS: Final = {
    "SkyRL": (code("trainer"), "SkyRL"),
    "base": (lambda t: t["run"]["declared"]["rl_start"]["repository"], CODER),
    "executed by OpenCode": (lambda t: t["run"]["declared"]["agent_harness"], "OpenCode"),
    "a sweep over sources": (lambda t: t["campaign"]["declared"]["compares"], "sources"),
    "estimator": (algorithm("advantage_estimator"), "rloo_n"),
    "backend": (spread("strategy"), "megatron"),
    "tensor parallel": (spread("tensor"), 4),
    "pipeline parallel": (spread("pipeline"), 2),
    "expert parallel": (spread("expert"), 4),
    "devices": (spread("devices"), 32),
    "device": (spread("device_type"), "H100"),
    "no KL loss": (algorithm("use_kl_loss"), False),
    "no entropy loss": (algorithm("use_entropy_loss"), False),
    "one update a batch": (claim("metric.policy/policy_update_steps"), 1.0),
    "clip ratio": (claim("metric.policy/ppo_clip_ratio"), 0.0),
    "it failed": (summary("status"), "failed"),
    "at step 38": (summary("last_step"), 38),
    "an entropy runaway": (summary("anomalies"), ["entropy_runaway"]),
    "entropy about 30 times that of step 1": (number_of("entropy_runaway", "entropy_ratio"), 30.0),
    "reward at the end": (number_of("entropy_runaway", "reward"), 0.0),
    "step chosen": (selection("step"), 15),
    "by trailing EMA": (lambda t: selection("rule")(t)["id"], "trailing-ema"),
    "a Megatron checkpoint": (lambda t: t["run"]["checkpoints"][0]["format"], "megatron_torch_dist"),
    "route of the export": (lambda t: t["exports"][0]["route"], "rerun"),
    "the trainer's own path": (lambda t: "bridge.save_hf_weights" in t["exports"][0]["started"]["route_note"], True),
    "verification without numbers": (lambda t: t["exports"][0]["numbers"], None),
    "trace dataset": (
        lambda t: t["run"]["traces"][0]["repository"],
        "laion/terminal_bench_2_tasktrove_dq_taco_step15_30b_a3b_20260729_222705",
    ),
    "last episode of each trial": (lambda t: t["run"]["traces"][0]["episodes"], "last"),
    "tokens redacted": (lambda t: t["run"]["logs"][0]["redaction_stated"], True),
    "no benchmark": (claim("benchmark", "absent"), True),
}
E2EGIT_SAYS: Final = {
    "model": (
        lambda t: t["exports"][0]["models"][0]["repository"],
        "laion/a3-rl-DCAgent_exp_rpt_e2egit-large_global_step_15",
    ),
    "RL start": (lambda t: t["run"]["declared"]["rl_start"]["repository"], SFT),
    "root architecture": (lambda t: t["run"]["declared"]["root_architecture"]["repository"], "Qwen/Qwen3-8B"),
    "dataset": (lambda t: t["run"]["declared"]["sources"][0]["dataset_id"], "DCAgent/exp_rpt_e2egit-large"),
    "estimator": (algorithm("advantage_estimator"), "rloo_n"),
    "eps_clip_low": (algorithm("eps_clip_low"), 0.2),
    "eps_clip_high": (algorithm("eps_clip_high"), 0.05),
    "kl": (algorithm("kl_loss_coef"), 0.0),
    "learning rate": (algorithm("learning_rate"), 8e-6),
    "train batch": (algorithm("train_batch_size"), 64),
    "strategy": (spread("strategy"), "fsdp2"),
    "nodes": (spread("nodes"), 14),
    "devices a node": (spread("devices_per_node"), 4),
    "devices": (spread("devices"), 14 * 4),
    "engines": (spread("rollout_engines"), 48),
    "EMA": (selection("recorded_ema"), 0.8639),
    "reward": (selection("recorded_reward"), 0.8418),
    "metric": (lambda t: selection("rule")(t)["metric"], "reward/avg_raw_reward"),
    "step chosen": (selection("step"), 15),
    "steps": (summary("last_step"), 80),
    "cancelled": (summary("status"), "cancelled"),
    "collapse beyond": (summary("anomaly_onset"), 65),
    "a claim of 80 steps": (claim("steps.trained"), 80.0),
    "sandboxes": (lambda t: t["run"]["declared"]["sandbox_provider"], "Daytona"),
    "trace dataset": (
        lambda t: t["run"]["traces"][0]["repository"],
        "open-athena/a3-rl-DCAgent_exp_rpt_e2egit-large",
    ),
    "log files": (
        lambda t: {file["path"].removeprefix("training_logs/") for file in t["run"]["logs"][0]["files"]},
        {"metrics.csv", "vllm_metrics.csv", "trial_stats.csv", "report.md", "reward_plot.png", "trainer_log.jsonl"},
    ),
    "licence": (lambda t: t["exports"][0]["models"][0]["license"], "apache-2.0"),
    "host": (lambda t: t["exports"][0]["hosting"][0]["host"], "Featherless"),
    "task": (hosted("task"), "text generation"),
    "price of input": (hosted("price_input"), "$0.468"),
    "price of output": (hosted("price_output"), "$1.82"),
    "concurrent unit cost": (hosted("concurrent_unit_cost"), "1"),
    "size": (hosted("model_size"), "8B"),
    "quantisation": (hosted("quant"), "FP8"),
    "context": (hosted("context_size"), "32k"),
    "tool calling": (hosted("tool_calling"), "supported"),
    "published": (hosted("published"), "2026-05-28"),
    "licence at the host": (hosted("license"), "apache-2.0"),
    "architecture": (hosted("architecture"), "Transformer"),
    "open weights": (hosted("open_weights"), "yes"),
    "exclusive": (hosted("exclusive"), "yes"),
    "cold": (hosted("state"), "cold"),
    "finetunes": (hosted("finetunes"), "1"),
    "no benchmark": (claim("benchmark", "absent"), True),
}
PYMETHODS_SAYS: Final = {
    "model": (
        lambda t: t["exports"][0]["models"][0]["repository"],
        "laion/ablation-pymethods2test-seqmean-arm0-tis-15-8B",
    ),
    "RL start": (lambda t: t["run"]["declared"]["rl_start"]["repository"], SFT),
    "root architecture": (lambda t: t["run"]["declared"]["root_architecture"]["repository"], "Qwen/Qwen3-8B"),
    "loss reduction": (algorithm("loss_reduction"), "sequence_mean"),
    "truncated importance sampling": (algorithm("use_tis"), True),
    "estimator": (algorithm("advantage_estimator"), "rloo_n"),
    "strategy": (spread("strategy"), "fsdp2"),
    "arm": (summary("arm"), "arm0"),
    "an ablation over one setting": (lambda t: t["campaign"]["declared"]["compares"], "setting"),
    "step chosen": (selection("step"), 15),
    "metric": (lambda t: selection("rule")(t)["metric"], "reward/avg_raw_reward"),
    "trailing-5 EMA": (lambda t: selection("rule")(t)["alpha"], pytest.approx(2 / (5 + 1))),
    "sandboxes": (lambda t: t["run"]["declared"]["sandbox_provider"], "Daytona"),
    "trial runner": (code("trial_runner"), "Harbor"),
    "size at the host": (hosted("model_size"), "8B"),
    "trace dataset": (
        lambda t: t["run"]["traces"][0]["repository"],
        "penfever/ablation-pymethods2test-seqmean-arm0-tis",
    ),
    "a wrong reading of RLOO, kept as a claim": (claim("algorithm.name", "text"), "online optimization"),
    "no benchmark": (claim("benchmark", "absent"), True),
}


def every_figure() -> list[Any]:
    return [
        pytest.param(run, pick, expected, id=f"{run}: {figure}")
        for run, figures in ((TACO, TACO_SAYS), (E2EGIT, E2EGIT_SAYS), (PYMETHODS, PYMETHODS_SAYS))
        for figure, (pick, expected) in figures.items()
    ]


@pytest.mark.parametrize(("run", "pick", "expected"), every_figure())
def test_a_figure_of_the_card_is_found_in_what_is_told_of_the_run(
    told: dict[str, Told], run: str, pick: Callable[[Told], Any], expected: Any
) -> None:
    assert pick(told[run]) == expected


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (TACO, "An entropy runaway, claimed, seen at step 38, with `entropy_ratio` 30 and `reward` 0"),
        (TACO, "strategy `megatron`, tensor 4, pipeline 2, expert 4, devices 32 and device type `H100`"),
        (TACO, "`use_kl_loss` `false` and `use_entropy_loss` `false`"),
        (TACO, "was made by the trainer's own export path in a job of its own, without an update"),
        (TACO, "was verified is only claimed"),
        (TACO, "That secrets were removed from the logs is stated, without counts"),
        (TACO, "No benchmark result is recorded"),
        (TACO, "a claim made elsewhere, not a result"),
        (E2EGIT, "names EMA 0.8639 and reward 0.8418"),
        (E2EGIT, "Step 15 is the best among eligible steps only"),
        (E2EGIT, "the EMA was 0.8750 one step before, at step 14, and so falling at the step chosen"),
        (E2EGIT, "That the choice is called “optimal” is a claim made elsewhere, not a result"),
        (E2EGIT, "A reward collapse, claimed, onset at step 65"),
        (E2EGIT, "nodes 14, devices per node 4, devices 56 and rollout engines 48"),
        (E2EGIT, "`eps_clip_low` `0.2`, `eps_clip_high` `0.05`, `kl_loss_coef` `0` and `learning_rate` `8e-6`"),
        (E2EGIT, "The context size “32k” of `Featherless` stands beside an RL start whose name says 131k"),
        (E2EGIT, "the quant “FP8”"),
        (PYMETHODS, "`loss_reduction` `sequence_mean` and `use_tis` `true`"),
        (PYMETHODS, "Its arms compare one setting, `trainer.algorithm.loss_reduction`"),
        (PYMETHODS, "is REINFORCE leave-one-out"),
        (PYMETHODS, "on how many steps truncated importance sampling was applied"),
    ],
)
def test_the_derived_card_says_it_in_a_sentence_that_names_its_events(
    cards: dict[str, str], run: str, words: str
) -> None:
    line = next((line for line in cards[run].splitlines() if words in line), None)
    assert line is not None
    assert "[[e" in line


def test_an_ema_of_8639_and_a_reward_of_8418_imply_8750_one_step_before(told: dict[str, Told]) -> None:
    chosen = told[E2EGIT]["run"]["selections"][0]
    assert chosen["implied_previous_ema"] == pytest.approx((0.8639 - 0.8418 / 3) * 3 / 2)
    assert f"{chosen['implied_previous_ema']:.4f}" == "0.8750"
    assert (chosen["best"], chosen["wording"]) == ("among_eligible_steps", "optimal")


def test_the_command_says_at_the_first_glance_why_that_checkpoint_was_chosen(home: Path) -> None:
    glance = ledger("run", "show", E2EGIT, "--home", home).out.partition("\n\n")[0]
    assert "best among eligible saves only: the EMA was higher at step 14 (0.8750)" in glance
    assert "“optimal”, which is a claim" in glance
    assert "cancelled at step 80" in glance


@pytest.mark.parametrize("run", [TACO, E2EGIT, PYMETHODS])
def test_what_no_page_gives_is_unknown_and_no_series_is_made_up(told: dict[str, Told], run: str) -> None:
    found = told[run]["run"]
    assert (found["reward"]["steps"], found["reward"]["last"], found["summary"]["last_ema"]) == (0, None, None)
    assert found["summary"]["basis"] == "claimed"
    assert found["selections"][0]["recomputed"] == "no_series"
    assert found["completeness"]["verdict"] == "unknown"
    assert all(source["dataset_revision"] is None for source in found["declared"]["sources"])
    assert not any(checkpoint["ema"] for checkpoint in found["checkpoints"])


def test_no_figure_is_shown_where_the_page_of_the_ablation_gives_none(told: dict[str, Told]) -> None:
    chosen = told[PYMETHODS]["run"]["selections"][0]
    assert (chosen["recorded_ema"], chosen["recorded_reward"]) == (None, None)
    assert told[PYMETHODS]["run"]["summary"]["last_step"] is None
    assert not told[PYMETHODS]["run"]["anomalies"]


def test_the_sources_of_the_arms_name_the_runs_as_evidence_and_stay_unreviewed(home: Path) -> None:
    source = "Task Trove:laion__exp_rpt_taco-v2"
    shown = ledger("source", "show", source, "--home", home).out
    assert TACO in shown.partition("Runs that consumed it")[2]
    assert ledger("source", "show", source, "--json", "--home", home).json["quality"] == "unreviewed"


def test_recording_the_demonstration_again_changes_nothing(home: Path, told: dict[str, Told]) -> None:
    again = ledger("demo", "--once", "--home", home)
    assert "0 events recorded by this run" in again.err
    for command in ("run list", f"run show {TACO}", f"card {E2EGIT}"):
        assert f"{command} --home" in again.err
    size = told[TACO]["coordinates"]["size"]
    assert ledger("run", "show", TACO, "--json", "--home", home).json["coordinates"]["size"] == size
