"""Training logs: what is read of them, what is told of the rest, and which attempt a step belongs to."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from ledger.core.errors import InvalidInput
from services.adapters.backfill.clocks import zone
from services.adapters.backfill.documents import MAX_LINE
from services.adapters.backfill.skyrl import LONG, LogOptions, plan_skyrl
from tests.adapters.builders import ME, VECTORS, events, ids, log, mirror

RESTART = VECTORS / "skyrl" / "restart.log"
LEGACY = VECTORS / "skyrl" / "legacy.log"


def plan(*paths: Path, **options):
    return plan_skyrl(paths, run_id="r", by=ME, options=LogOptions(**options))


def steps(found) -> list[tuple[int, int, float]]:
    return [
        (s["attempt"], s["steps"][0]["step"], s["steps"][0]["metrics"]["reward/avg_raw_reward"])
        for s in events(found, "steps.logged")
    ]


class TestARestartedLog:
    def test_a_redone_step_is_kept_under_each_attempt_that_made_it(self):
        assert steps(plan(RESTART)) == [(1, 1, 0.41), (1, 2, 0.47), (1, 3, 0.52), (2, 3, 0.50), (2, 4, 0.55)]

    def test_values_that_are_not_finite_are_kept_by_name(self):
        grad_norms = [s["steps"][0]["metrics"]["policy/raw_grad_norm"] for s in events(plan(RESTART), "steps.logged")]
        assert grad_norms == [0.5, "NaN", 0.5, 0.5, "-Infinity"]

    def test_what_looks_like_a_row_and_is_none_is_counted_with_its_place(self):
        account = plan(RESTART).account
        assert account.malformed == 3
        assert [(u.place.rpartition(":")[2], u.what.split(",")[0]) for u in account.unread] == [
            ("31", "metrics within other text"),
            ("34", "the trainer could not write the metrics of this step"),
            ("35", "the line is cut off"),
        ]

    def test_a_row_that_comes_again_word_for_word_is_a_copy(self):
        assert plan(RESTART).account.duplicates == 1

    def test_the_start_of_the_second_attempt_is_where_the_log_says_it_went_on(self):
        started = events(plan(RESTART), "attempt.started")
        assert [(s["attempt"], s.get("resumed_from")) for s in started] == [(1, None), (2, {"step": 2})]
        assert {s["basis"]["kind"] for s in started} == {"imported"}

    def test_an_evaluation_belongs_to_the_attempt_that_made_it(self):
        said = events(plan(RESTART), "eval.logged")
        assert [(e["attempt"], e["step"], e["evaluations"][0]["data_source"]) for e in said] == [
            (1, 2, "held-out/set"),
            (2, 2, "held-out/set"),
        ]
        assert said[0]["evaluations"][0]["metrics"]["eval/held-out/set/pass_at_4"] == 0.7

    def test_groups_are_counted_as_the_estimator_printed_them(self):
        (said,) = events(plan(RESTART), "groups.disposed")
        assert (said["step"], [(c["disposition"], c["groups"], c.get("samples")) for c in said["counts"]]) == (
            1,
            [("masked", 0, None), ("filtered", 1, None), ("filtered", 2, 16)],
        )

    def test_the_printed_configuration_is_recorded_by_path(self):
        (said,) = events(plan(RESTART), "config.recorded")
        assert said["settings"]["trainer.algorithm.advantage_estimator"] == "rloo_n"
        assert said["settings"]["trainer.policy.optimizer_config.lr"] == 8e-06
        assert said["settings"]["trainer.max_steps"] is None
        assert said["settings"]["trainer.run_name"] == "taco: arm 3"
        assert said["settings"]["data.train_data"] == ["/data/tasks/exp_rpt_taco-v2"]
        assert said["moment"] == "start"

    def test_every_event_names_the_file_by_its_digest(self):
        found = plan(RESTART)
        digest = found.account.documents[0].sha256
        assert {e["basis"]["document"]["sha256"] for e in events(found) if e["type"] != "groups.disposed"} == {digest}


class TestTimes:
    def test_without_a_zone_no_time_is_known(self):
        found = plan(RESTART)
        assert all("logged_at" not in s["steps"][0] for s in events(found, "steps.logged"))
        assert not any(d.HasField("occurred_at_us") for d in found.drafts())

    def test_with_a_zone_a_line_that_has_a_time_is_dated(self):
        said = events(plan(RESTART, zone=zone("+02:00")), "steps.logged")
        assert [s["steps"][0].get("logged_at") for s in said][:2] == ["2026-07-27T06:10:00.500000Z", None]

    @pytest.mark.parametrize("options", [{}, {"year": 2026}, {"zone": zone("UTC")}], ids=str)
    def test_lines_of_engines_are_left_out_and_counted_unless_year_and_zone_are_known(self, options):
        found = plan(RESTART, **options)
        assert events(found, "engine.sampled") == []
        assert sum(found.account.left_out.values()) == 2

    def test_with_both_they_are_recorded_as_read_from_lines(self):
        said = events(plan(RESTART, zone=zone("UTC"), year=2026), "engine.sampled")
        assert [s["scraped"] for s in said] == [False, False]
        assert said[0]["samples"][0]["sampled_at"] == "2026-07-27T08:01:10.000000Z"
        assert said[0]["samples"][0]["metrics"]["vllm/generation_throughput"] == 1533.0
        assert "10.0.0" not in json.dumps(said), "addresses of nodes stay out"

    def test_a_year_that_turns_within_the_log_is_seen(self, tmp_path):
        line = "INFO {} 00:00:05 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s, Running: 2 reqs"
        path = log(tmp_path / "a.log", line.format("12-31"), line.format("01-01"), mirror(1))
        said = events(plan(path, zone=zone("UTC"), year=2026), "engine.sampled")
        assert [s["samples"][0]["sampled_at"][:10] for s in said] == ["2026-12-31", "2027-01-01"]

    def test_another_zone_or_year_makes_no_other_steps(self):
        plain, dated = plan(RESTART), plan(RESTART, zone=zone("UTC"), year=2026)
        assert set(ids(plain)) < set(ids(dated))


class TestPrintedBlocks:
    def test_numbers_are_recorded_as_they_were_printed_and_the_loss_is_said(self):
        found = plan(LEGACY)
        said = events(found, "steps.logged")
        assert steps(found) == [(1, 1, 0.41), (1, 2, 0.4444)]
        assert said[0]["steps"][0]["metrics"]["policy/policy_lr"] == 0.0
        assert said[0]["steps"][0]["metrics"]["policy/raw_grad_norm"] == "NaN"
        assert "four decimals" in said[0]["basis"]["note"]
        assert any("four decimals" in note for note in found.account.notes)

    def test_a_block_without_an_end_is_counted(self):
        account = plan(LEGACY).account
        assert [u.what for u in account.unread] == ["a printed block of metrics that has no end"]

    @pytest.mark.parametrize("first", ["printed", "mirrored"])
    def test_a_step_that_is_printed_and_mirrored_is_one_step_with_all_its_digits(self, tmp_path, first):
        printed = "{'reward/avg_raw_reward': '0.0123', 'trainer/global_step': 1}"
        mirrored = mirror(1, **{"reward/avg_raw_reward": 0.012345678})
        both = [printed, mirrored] if first == "printed" else [mirrored, printed]
        found = plan(log(tmp_path / "a.log", *both, mirror(2)))
        assert steps(found) == [(1, 1, 0.012345678), (1, 2, 0.02)]
        assert found.account.duplicates == 1


class TestAttempts:
    def test_a_step_that_goes_back_begins_an_attempt_whose_start_is_inferred(self, tmp_path):
        found = plan(log(tmp_path / "a.log", *map(mirror, (1, 2, 3)), mirror(2, x=1.0)))
        second = events(found, "attempt.started")[1]
        assert (second["attempt"], second["resumed_from"]) == (2, {"step": 1})
        assert second["basis"]["kind"] == "inferred"

    def test_a_step_that_follows_needs_no_new_attempt(self, tmp_path):
        found = plan(log(tmp_path / "a.log", mirror(1), mirror(2), mirror(5)))
        assert [a["attempt"] for a in found.account.attempts] == [1]
        assert found.account.attempts[0]["missing"] == [[3, 4]]
        assert any("lacks the steps 3 to 4" in note for note in found.account.notes)

    def test_a_resume_without_a_redone_step_is_an_attempt_of_its_own(self, tmp_path):
        found = plan(log(tmp_path / "a.log", mirror(1), "Resumed training from global_step_1", mirror(2)))
        assert [(a["attempt"], a["resumed_from"]) for a in found.account.attempts] == [(1, None), (2, 1)]

    def test_a_resume_that_no_step_bears_out_is_somebody_elses_text(self, tmp_path):
        found = plan(log(tmp_path / "a.log", mirror(1), "Resumed training from global_step_7", mirror(2)))
        assert [a["attempt"] for a in found.account.attempts] == [1]

    def test_a_log_that_begins_later_says_nothing_of_its_start(self, tmp_path):
        found = plan(log(tmp_path / "a.log", mirror(41), mirror(42)))
        assert events(found, "attempt.started") == []
        assert any("begin with step 41" in note for note in found.account.notes)

    def test_the_first_attempts_number_can_be_given(self, tmp_path):
        found = plan(log(tmp_path / "a.log", mirror(3), mirror(4)), first_attempt=2)
        assert [s["attempt"] for s in events(found, "steps.logged")] == [2, 2]
        assert events(found, "attempt.started")[0]["resumed_from"] == {"step": 2}


def test_two_counters_that_differ_are_told_and_the_label_is_taken(tmp_path):
    found = plan(log(tmp_path / "a.log", mirror(5, **{"trainer/global_step": 0})))
    assert events(found, "steps.logged")[0]["steps"][0]["step"] == 5
    assert any("its trainer/global_step is 0.0" in note for note in found.account.notes)


class TestSeveralFiles:
    def files(self, folder: Path, *, dated: bool) -> tuple[Path, Path]:
        """An early and a late log, whose names are in the other order."""
        at = "2026-07-2{} 08:00:00.000 | INFO | a.b:c:1 - text" if dated else "text"
        early = log(folder / "z.log", at.format(7), mirror(1), mirror(2), mirror(3))
        late = log(folder / "a.log", at.format(8), mirror(3, x=1.0), mirror(4))
        os.utime(early, (2e9, 2e9))
        os.utime(late, (1e9, 1e9))
        return early, late

    def test_they_are_ordered_by_the_times_that_they_say(self, tmp_path):
        early, late = self.files(tmp_path, dated=True)
        found = plan(late, early)
        assert [d.name for d in found.account.documents] == ["z.log", "a.log"]
        assert "first time" in (found.account.order or "")
        assert [(a, s) for a, s, _ in steps(found)] == [(1, 1), (1, 2), (1, 3), (2, 3), (2, 4)]

    def test_without_times_the_files_own_times_order_them_and_that_is_said(self, tmp_path):
        found = plan(*self.files(tmp_path, dated=False))
        assert [d.name for d in found.account.documents] == ["a.log", "z.log"]
        assert "changed" in (found.account.order or "")
        assert any("a copy may have another time" in note for note in found.account.notes)

    def test_the_order_can_be_given(self, tmp_path):
        early, late = self.files(tmp_path, dated=False)
        found = plan(early, late, order="given")
        assert [(a, s) for a, s, _ in steps(found)] == [(1, 1), (1, 2), (1, 3), (2, 3), (2, 4)]

    def test_each_step_names_the_file_that_holds_it(self, tmp_path):
        found = plan(*self.files(tmp_path, dated=True))
        assert [s["log_file"] for s in events(found, "steps.logged")] == ["z.log"] * 3 + ["a.log"] * 2

    def test_a_copy_of_a_file_is_read_once(self, tmp_path):
        copy = shutil.copy(RESTART, tmp_path / "copy.log")
        found = plan(RESTART, Path(copy))
        assert ids(found) == ids(plan(RESTART))

    def test_a_log_that_overlaps_the_other_adds_only_what_is_new(self, tmp_path):
        one = log(tmp_path / "1.log", mirror(1), mirror(2))
        two = log(tmp_path / "2.log", mirror(1), mirror(2), mirror(3))
        found = plan(one, two, order="given")
        assert [(a, s) for a, s, _ in steps(found)] == [(1, 1), (1, 2), (1, 3)]
        assert found.account.duplicates == 2


class TestPackedAndDamaged:
    def test_a_gzipped_log_makes_the_same_events(self, tmp_path):
        packed = tmp_path / "restart.log.gz"
        packed.write_bytes(gzip.compress(RESTART.read_bytes()))
        assert ids(plan(packed)) == ids(plan(RESTART))

    def test_a_gzipped_log_that_is_cut_off_is_refused_with_what_to_do(self, tmp_path):
        packed = tmp_path / "cut.log.gz"
        packed.write_bytes(gzip.compress(os.urandom(5000))[:-900])
        with pytest.raises(InvalidInput, match="damaged") as caught:
            plan(packed)
        assert "gzip -dc" in caught.value.remedy

    def test_what_follows_in_a_line_without_end_is_no_line_of_its_own(self, tmp_path):
        path = tmp_path / "a.log"
        path.write_bytes(b"x" * MAX_LINE + mirror(7).encode() + b"\n" + mirror(1).encode() + b"\n" + b"y\n" + b"x {")
        found = plan(path)
        assert [s for _, s, _ in steps(found)] == [1]

    def test_a_folder_is_no_log(self, tmp_path):
        with pytest.raises(InvalidInput, match="is no file"):
            plan(tmp_path)


class TestNoRows:
    def test_a_long_log_without_a_single_step_is_refused(self, tmp_path):
        path = log(tmp_path / "a.log", *["a line of something else"] * LONG)
        with pytest.raises(InvalidInput) as caught:
            plan(path)
        assert caught.value.reason == "NO_ROWS"
        assert caught.value.door.exit == 1

    def test_a_changed_prefix_is_refused_with_the_places_of_its_rows(self, tmp_path):
        path = log(tmp_path / "a.log", *[f"<<new>> {mirror(n)}" for n in range(LONG)])
        with pytest.raises(InvalidInput) as caught:
            plan(path)
        assert caught.value.problems[0].place == "a.log:1"
        assert caught.value.problems[0].message == "metrics within other text"

    def test_a_short_log_may_have_died_before_its_first_step(self, tmp_path):
        found = plan(log(tmp_path / "a.log", "Traceback", "Killed"))
        assert len(found.book) == 0
        assert any("no step" in note for note in found.account.notes)

    def test_fewer_steps_than_expected_are_told(self, tmp_path):
        found = plan(log(tmp_path / "a.log", mirror(1)), expected_steps=80)
        assert "Fewer steps than expected: the last is 1, not 80." in found.account.notes


class TestJsonLogs:
    def test_lines_within_json_and_metrics_as_json_are_both_read(self, tmp_path):
        path = log(
            tmp_path / "trainer_log.jsonl",
            json.dumps({"message": mirror(1), "timestamp": "2026-07-27T08:00:00+02:00"}),
            '{"trainer/global_step": 2, "reward/avg_raw_reward": NaN, "time": "2026-07-27T08:10:00Z"}',
            json.dumps({"step": 3, "kind": "train", "metrics": {"reward/avg_raw_reward": 0.3}}),
            json.dumps({"unrelated": True}),
            '{"trainer/global_step": 4, "reward',
        )
        found = plan(path)
        assert steps(found) == [(1, 1, 0.01), (1, 2, "NaN"), (1, 3, 0.3)]
        assert [s["steps"][0].get("logged_at", "")[:16] for s in events(found, "steps.logged")] == [
            "2026-07-27T06:00",
            "2026-07-27T08:10",
            "",
        ]
        assert found.account.malformed == 1


def test_secrets_in_a_printed_configuration_are_replaced_and_counted(tmp_path):
    secret = "hf_" + "a1B2" * 8
    lines = ["trainer:", f"  token: {secret}", "  a: 1", "  b: 2", "  c: 3", "  d: 4", "end"]
    found = plan(log(tmp_path / "a.log", *lines, mirror(1)))
    (said,) = events(found, "config.recorded")
    assert secret not in json.dumps(said)
    assert said["settings"]["trainer.token"] == "<redacted:huggingface_token>"
    assert said["redactions"] == [{"shape": "huggingface_token", "count": 1}]
    assert found.report(3).redactions[0].count == 1
