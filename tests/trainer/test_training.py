"""The loop from end to end: it learns, it is the same for a seed, and a run that was cut goes on as if it had not been."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from ledger.client.rollouts import path_of, read_rollouts
from ledger.client.testing import FakeLedger
from ledger.core.errors import LedgerError, NotFound, Unavailable
from services.trainer.models import LoadedModel
from services.trainer.options import Options
from services.trainer.rollouts.engines import Completion, Sampling
from services.trainer.rollouts.transformers_engine import TransformersEngine
from services.trainer.running import export_only
from services.trainer.settings import Settings
from tests.trainer.runs import settings, train, weights


def test_the_reward_rises(tmp_path):
    ran = train(
        settings(
            tmp_path,
            run={"steps": 70, "checkpoint_interval": 35, "seed": 2},
            model={"hidden_size": 64, "layers": 2},
            algorithm={
                "train_batch_size": 8,
                "n_samples_per_prompt": 16,
                "micro_train_batch_size_per_gpu": 128,
                "max_generate_length": 4,
            },
            data=[{"kind": "digits", "count": 200}],
        )
    )
    rewards = [reward for (reward,) in ran.steps("reward")]
    assert sum(rewards[:10]) / 10 < 0.2
    assert sum(rewards[-10:]) / 10 > 0.8


def test_two_runs_of_one_seed_are_equal_to_the_last_bit_and_another_seed_is_not(tmp_path):
    one, two = (train(settings(tmp_path / name)) for name in ("a", "b"))
    other = train(settings(tmp_path / "c", run={"seed": 43}))
    assert one.weights(4) == two.weights(4)
    assert all(norm > 0 for (norm,) in one.steps("grad_norm"))
    assert one.steps("step", "reward", "loss", "grad_norm") == two.steps("step", "reward", "loss", "grad_norm")
    assert one.weights(4) != other.weights(4)


def test_the_micro_batch_size_changes_no_number_beyond_rounding(tmp_path):
    for reduction in ("token_mean", "sequence_mean"):
        whole, parted = (
            train(
                settings(
                    tmp_path / f"{reduction}-{size}",
                    run={"steps": 2},
                    algorithm={"micro_train_batch_size_per_gpu": size, "loss_reduction": reduction},
                )
            )
            for size in (32, 5)
        )
        for before, after in zip(
            whole.steps("loss", "grad_norm", "entropy"), parted.steps("loss", "grad_norm", "entropy"), strict=True
        ):
            assert after == pytest.approx(before, abs=2e-6, rel=2e-5)


def test_a_run_that_goes_on_ends_with_the_weights_of_one_that_never_stopped(tmp_path):
    """With mini-batches, a warm-up that ends later, and an epoch that ends between: all of it is state."""
    changes = {"algorithm": {"policy_mini_batch_size": 2, "warmup_steps": 3}}
    whole = train(settings(tmp_path / "whole", run={"steps": 6}, **changes))
    train(settings(tmp_path / "cut", run={"steps": 2}, **changes))
    rest = train(settings(tmp_path / "cut", run={"steps": 6}, **changes))
    assert rest.outcome.from_step == 2
    assert rest.outcome.attempt == 2
    assert rest.weights(6) == whole.weights(6)
    assert rest.steps("step", "reward", "loss") == whole.steps("step", "reward", "loss")[2:]


SLOW_STEPS = """
import sys, time
from pathlib import Path
from services.trainer.options import Options
from services.trainer.running import run
from tests.trainer.runs import settings
def tell(told):
    print(told["kind"], told.get("step"), flush=True)
    if told["kind"] == "step" and told["step"] == 5:
        time.sleep(600)
run(settings(Path(sys.argv[1]), run={"steps": 6}), Options(), tell=tell)
"""


@contextmanager
def started(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A trainer in a process of its own, which stands still once its fifth step is made."""
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_STEPS, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            if line.split() == ["step", "5"]:
                break
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def test_a_run_that_was_killed_goes_on_from_its_last_save_to_the_same_weights(tmp_path):
    """While it lives, another trainer is refused its folder."""
    with started(tmp_path / "cut") as killed:
        with pytest.raises(LedgerError) as raised:
            train(settings(tmp_path / "cut"))
        assert raised.value.reason == "IN_USE"
        killed.kill()
    whole = train(settings(tmp_path / "whole", run={"steps": 6}))
    rest = train(settings(tmp_path / "cut", run={"steps": 6}))
    assert rest.outcome.from_step == 4
    assert [step for (step,) in rest.steps("step")] == [5, 6]
    assert rest.weights(6) == whole.weights(6)
    assert path_of(tmp_path / "cut", 1, 5).exists()  # of the attempt that was killed: what it made is kept apart
    assert path_of(tmp_path / "cut", 2, 5).exists()


class Breaks(TransformersEngine):
    """It ends the run in the midst of its third step: prompts are taken, and no update is made."""

    batches = 0

    def generate(self, prompts: Sequence[Sequence[int]], sampling: Sampling) -> list[list[Completion]]:
        self.batches += 1
        if self.batches == 3:
            raise Unavailable("it is gone")
        return super().generate(prompts, sampling)


def test_a_step_that_was_cut_short_is_made_again_with_the_same_prompts(tmp_path):
    def breaks(_: Settings, loaded: LoadedModel) -> Breaks:
        return Breaks(loaded.model.config, dtype=loaded.model.dtype, device=loaded.device, ends=loaded.stop_ids)

    with pytest.raises(Unavailable):
        train(settings(tmp_path / "cut"), opening=breaks)
    whole, rest = train(settings(tmp_path / "whole")), train(settings(tmp_path / "cut"))
    assert rest.outcome.from_step == 2
    assert rest.weights(4) == whole.weights(4)
    asked = [
        [rollout.group for rollout in read_rollouts(path_of(folder, attempt, 3))]
        for folder, attempt in ((tmp_path / "whole", 1), (tmp_path / "cut", 2))
    ]
    assert asked[0] == asked[1]


def test_sigterm_cancels_the_attempt_and_says_so(tmp_path):
    with started(tmp_path) as told_to_stop:
        told_to_stop.send_signal(signal.SIGTERM)
        assert told_to_stop.wait(30) != 0
    spooled = b"".join(p.read_bytes() for p in (tmp_path / "spool").glob("*.seg"))
    assert b'"ending":"cancelled","reason":"SIGTERM"' in spooled
    assert b"run.ended" not in spooled


def test_a_resume_neither_skips_nor_repeats_a_prompt(tmp_path):
    """Ten tasks, four a step: the third step begins in one epoch and ends in the next."""
    train(settings(tmp_path, run={"steps": 2}))
    train(settings(tmp_path, run={"steps": 5}))
    groups = [
        {rollout.group for rollout in read_rollouts(path_of(tmp_path, attempt, step))}
        for attempt, step in ((1, 1), (1, 2), (2, 3), (2, 4), (2, 5))
    ]
    assert [len(each) for each in groups] == [4] * 5
    assert len(set().union(*groups)) == 20  # two epochs of ten, each prompt once in each


def test_every_rollout_is_kept_with_what_joins_it_to_its_step(tmp_path):
    ran = train(settings(tmp_path))
    rollouts = list(read_rollouts(path_of(tmp_path, 1, 3)))
    assert len(rollouts) == 32
    assert {(r.run_id, r.attempt, r.step, r.weight_version) for r in rollouts} == {("tiny", 1, 3, 2)}
    assert len({r.trial_id for r in rollouts}) == 32
    assert all(r.logprobs is not None and len(r.logprobs) == len(r.completion_token_ids) for r in rollouts)
    assert sum(r.reward for r in rollouts) / 32 == pytest.approx(ran.steps("reward")[2][0])
    for group in {r.group for r in rollouts}:
        samples = [r for r in rollouts if r.group == group]
        mean = sum(r.reward for r in samples) / 8
        assert [r.advantage for r in samples] == pytest.approx([(r.reward - mean) * 8 / 7 for r in samples], abs=1e-6)
    assert all(r.trained == (r.advantage != 0) for r in rollouts)
    assert any(r.trained for r in rollouts)


@pytest.mark.parametrize(("estimator", "reward", "masked"), [("rloo", 0.0, False), ("rloo_n", None, True)])
def test_a_prompt_that_is_too_long_is_a_failure_and_no_answer(tmp_path, estimator, reward, masked):
    prompts = [{"kind": "digits", "count": 2}, {"kind": "digits", "count": 2, "prompt": "{question}" + "x" * 40}]
    with FakeLedger() as ledger:
        train(
            settings(tmp_path, data=prompts, run={"steps": 1}, algorithm={"advantage_estimator": estimator}),
            address=ledger.address,
        )
    failed = [r for r in read_rollouts(path_of(tmp_path, 1, 1)) if r.exception_type]
    assert {(r.exception_type, r.reward, r.masked, r.finish_reason) for r in failed} == {
        ("PromptTooLong", reward, masked, "error")
    }
    assert len(failed) == 16
    summary = ledger.of_type("rollouts.summarised")[0].payload
    assert summary["errors"] == [
        {"exception_type": "PromptTooLong", "treatment": "mask" if masked else "zero", "count": 16}
    ]
    metrics = ledger.of_type("steps.logged")[0].payload["steps"][0]["metrics"]
    assert metrics["generate/num_failed_trajectories"] == 16
    assert metrics["generate/num_masked_trajectories"] == (16 if masked else 0)
    counted = [r.reward for r in read_rollouts(path_of(tmp_path, 1, 1)) if r.reward is not None]
    assert metrics["reward/avg_raw_reward"] == pytest.approx(sum(counted) / len(counted))


def test_a_kl_is_measured_against_the_start_also_after_a_resume(tmp_path):
    changes = {"algorithm": {"use_kl_loss": True, "kl_loss_coef": 0.1}}
    with FakeLedger() as whole, FakeLedger() as cut:
        train(settings(tmp_path / "whole", **changes), address=whole.address)
        train(settings(tmp_path / "cut", run={"steps": 2}, **changes), address=cut.address)
        train(settings(tmp_path / "cut", **changes), address=cut.address)

    def kls(ledger: FakeLedger) -> list[float]:
        return [e.payload["steps"][0]["metrics"]["policy/policy_kl"] for e in ledger.of_type("steps.logged")]

    assert kls(cut) == kls(whole)
    assert kls(whole)[0] == pytest.approx(0.0, abs=1e-6)
    assert kls(whole)[3] > 1e-4


def test_on_policy_the_ratios_are_exactly_one(tmp_path):
    with FakeLedger() as ledger:
        train(settings(tmp_path, algorithm={"micro_train_batch_size_per_gpu": 5}), address=ledger.address)
    for event in ledger.of_type("steps.logged"):
        metrics = event.payload["steps"][0]["metrics"]
        assert metrics["policy/log_ratio_abs_mean"] == 0
        assert metrics["policy/ppo_clip_ratio"] == 0
        assert metrics["policy/rollout_train_prob_diff_mean"] < 1e-5


def test_an_evaluation_draws_alike_each_time_and_trains_nothing(tmp_path):
    data = [{"kind": "digits", "count": 10}, {"kind": "digits", "count": 6, "role": "eval", "seed": 1}]
    with FakeLedger() as ledger:
        ran = train(settings(tmp_path, data=data, run={"eval_interval": 2}), address=ledger.address)
        plain = train(settings(tmp_path / "plain"))
    evaluated = [event.payload for event in ledger.of_type("eval.logged")]
    assert [each["step"] for each in evaluated] == [0, 2, 4]
    assert [each["weight_version"] for each in evaluated] == [0, 2, 4]
    assert evaluated[0]["evaluations"][0]["tasks"] == 6
    kept = list(read_rollouts(path_of(tmp_path, 1, 4, "eval")))
    assert len(kept) == 6
    assert not any(r.consumed or r.trained or r.masked for r in kept)
    assert ran.weights(4) == plain.weights(4)


def test_a_run_that_is_complete_is_left_alone_until_more_steps_are_asked_for(tmp_path):
    train(settings(tmp_path))
    before = weights(tmp_path / "checkpoints" / "global_step_4")
    again = train(settings(tmp_path))
    assert again.outcome.attempt is None
    assert again.steps("step") == []
    assert any("nothing is left to do" in note for note in again.notes())
    more = train(settings(tmp_path, run={"steps": 6}))
    assert [step for (step,) in more.steps("step")] == [5, 6]
    assert weights(tmp_path / "checkpoints" / "global_step_4") == before


def test_a_run_can_begin_anew_or_at_an_earlier_step_and_saves_beside_what_was_saved(tmp_path):
    train(settings(tmp_path))
    anew = train(settings(tmp_path), resume="never")
    assert (anew.outcome.attempt, anew.outcome.from_step) == (2, 0)
    assert weights(tmp_path / "checkpoints" / "global_step_4.attempt_2") == anew.weights(4)
    earlier = train(settings(tmp_path), resume=2)
    assert (earlier.outcome.attempt, earlier.outcome.from_step) == (3, 2)
    assert (tmp_path / "checkpoints" / "latest.txt").read_text() == "global_step_4.attempt_3\n"
    with pytest.raises(NotFound, match="no checkpoint of step 3"):
        train(settings(tmp_path), resume=3)


def test_a_rerun_exports_a_checkpoint_at_its_own_step_and_touches_nothing_of_it(tmp_path):
    train(settings(tmp_path / "run"))
    folder = tmp_path / "run" / "checkpoints" / "global_step_2"
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()}
    with FakeLedger() as ledger:
        exported, _ = export_only(settings(tmp_path / "run"), 2, tmp_path / "out", Options(address=ledger.address))
    assert before == {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.rglob("*") if p.is_file()}
    assert exported.step == 2
    assert exported.checked.is_verified
    told = {e.type: e.payload for e in ledger.events if e.type.startswith("export.")}
    assert list(told) == ["export.started", "export.completed", "export.verified"]
    assert told["export.started"]["route"] == "rerun"
    assert told["export.started"]["checkpoint"]["step"] == 2
    completed = told["export.completed"]
    assert completed["checkpoint_digest_before"] == completed["checkpoint_digest_after"]
    # What the training left in the spool came along; the export adds no attempt, no save and no step.
    after = [e.type for e in ledger.events][[e.type for e in ledger.events].index("recording.reported") + 1 :]
    assert set(after) == {*told, "recording.reported"}


def test_an_export_has_the_weights_of_its_checkpoint_and_says_how_it_was_sampled(tmp_path):
    train(settings(tmp_path / "run", run={"steps": 6}, export={"enabled": True}))
    selected = [json.loads(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    step = next(line["step"] for line in selected if line["kind"] == "select")
    export_only(settings(tmp_path / "run", run={"steps": 6}), step, tmp_path / "again", Options())
    place = tmp_path / "run" / "exports" / f"global_step_{step}"
    one, two = (load_file(folder / "model-00001-of-00001.safetensors") for folder in (place, tmp_path / "again"))
    assert one.keys() == two.keys()
    assert all(one[name].equal(two[name]) for name in one)
    model = AutoModelForCausalLM.from_pretrained(place)
    assert model.get_input_embeddings().weight.equal(one["model.embed_tokens.weight"])
    assert (model.generation_config.top_k, model.generation_config.top_p, model.generation_config.temperature) == (
        0,
        1.0,
        1.0,
    )


def test_an_export_to_a_place_that_holds_something_else_is_refused_and_told(tmp_path):
    train(settings(tmp_path / "run"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "other.txt").write_text("mine")
    with FakeLedger() as ledger, pytest.raises(LedgerError) as raised:
        export_only(settings(tmp_path / "run"), 2, tmp_path / "out", Options(address=ledger.address))
    assert raised.value.reason == "CONDITION_FAILED"
    assert ledger.of_type("export.failed")[0].payload["stage"] == "upload"
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["other.txt"]
