"""training_logs/: tables that lose nothing, a report, plots, and a manifest; whole or not at all."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import statistics
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes

from ledger.client.logs import plots, training_logs
from ledger.client.logs.reading import RunReading
from ledger.client.logs.report import MAX_ROWS, report
from ledger.client.logs.statistics import Statistics
from ledger.client.logs.summary import summarise
from ledger.client.logs.tables import TRIALS
from ledger.client.logs.training_logs import write_logs
from ledger.core.errors import InvalidInput, LedgerError, Refused
from ledger.wire import provenance_pb2, runs_pb2
from tests.client import made_up_run as made

nan, inf = math.nan, math.inf


def step(attempt: int, number: int, *, abandoned: bool = False, ema: float | None = None, **metrics: float) -> Any:
    named = {key.replace("__", "/"): value for key, value in metrics.items()}
    row = runs_pb2.StepRow(attempt=attempt, step=number, pos=100 * attempt + number, abandoned=abandoned, metrics=named)
    if ema is not None:
        row.ema = ema
    return row


STEPS = [
    step(1, 1, ema=0.25, reward__avg_raw_reward=0.25, policy__policy_entropy=0.5, timing__step=10.0, timing__eval=1.0),
    step(1, 2, ema=0.3, reward__avg_raw_reward=0.4, policy__policy_entropy=nan, timing__step=20.0),
    step(1, 3, abandoned=True, reward__avg_raw_reward=0.9, policy__policy_entropy=inf),
    step(2, 3, ema=0.3, reward__avg_raw_reward=nan, policy__policy_entropy=-inf, custom=7.0),
]
ENGINES = {
    "run_id": made.RUN,
    "attempt": 1,
    "scraped": False,
    "samples": [
        {
            "engine": "e-0",
            "sampled_at": "2026-07-27T08:20:01Z",
            "step": 1,
            "metrics": {"vllm/running": 3, "engine": "NaN"},
        },
        {
            "engine": "e-1",
            "sampled_at": "2026-07-27T08:20:01Z",
            "phase": "eval",
            "metrics": {"vllm/running": "-Infinity"},
        },
    ],
}
ROLLOUTS = {
    "run_id": made.RUN,
    "trials": [
        {"trial_name": "t-1", "task_name": "NaN", "reward": 1.0, "episodes": 6, "seconds": 12.5, "input_tokens": 40},
        {"trial_name": "=cmd()", "task_name": "t", "reward": "NaN", "exception_type": "@SUM(A1)"},
    ],
}


class Runs:
    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def steps(self, run_id, at, **_: Any):
        assert (run_id, at.size) == (made.RUN, made.SIZE)
        # More pages than one, and an empty one among them.
        for page in (self.rows[:1], [], self.rows[1:]):
            yield runs_pb2.StepsResponse(rows=page)


class Reader:
    def __init__(self, events: list[Any]) -> None:
        self._events = events

    def events(self, *, to_size, streams, types):
        assert (to_size, streams) == (made.SIZE, [f"run/{made.RUN}"])
        return (event for event in self._events if f'"type":"{types[0]}"'.encode() in event.header)


def reading(rows: list[Any] = STEPS, *, events: list[Any] | None = None, disregarded: Any = ()) -> RunReading:
    held = (
        events
        if events is not None
        else [
            made.event(101, "steps.logged", {"run_id": made.RUN, "log_file": "trainer.out"}),
            made.event(50, "engine.sampled", ENGINES),
            made.event(51, "rollouts.summarised", ROLLOUTS),
        ]
    )
    runs: Any = Runs(rows)
    reader: Any = Reader(held)
    return RunReading(runs, reader, made.dossier(), disregarded)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "training_logs"


def test_every_step_of_every_attempt_has_a_row_and_nothing_is_merged(folder):
    write_logs(reading(), folder)
    rows = table(folder / "metrics.csv")
    assert [(r["attempt"], r["global_step"], r["abandoned"]) for r in rows] == [
        ("1", "1", "false"),
        ("1", "2", "false"),
        ("1", "3", "true"),
        ("2", "3", "false"),
    ]
    assert [r["log_file"] for r in rows] == ["trainer.out", "", "", ""]


def test_what_is_not_finite_stays_what_it_is_and_what_is_absent_stays_empty(folder):
    write_logs(reading(), folder)
    rows = table(folder / "metrics.csv")
    assert [r["policy/policy_entropy"] for r in rows] == ["0.5", "NaN", "Infinity", "-Infinity"]
    assert [r["custom"] for r in rows] == ["", "", "", "7.0"]


@given(
    st.lists(
        st.dictionaries(st.text(min_size=1, max_size=8).filter(lambda s: "\x00" not in s), st.floats(), max_size=4),
        min_size=1,
        max_size=5,
    )
)
def test_any_metrics_come_back_from_the_table_as_they_were(tmp_path_factory, metrics):
    folder = tmp_path_factory.mktemp("logs") / "out"
    rows = [runs_pb2.StepRow(attempt=1, step=n, metrics=held) for n, held in enumerate(metrics)]
    write_logs(reading(rows, events=[]), folder, plots=False)
    keys = sorted({key for held in metrics for key in held})
    with (folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
        heading, *lines = csv.reader(file)
    assert len(heading) == len(set(heading))
    first = len(heading) - len(keys)
    for held, line in zip(metrics, lines, strict=True):
        for key, cell in zip(keys, line[first:], strict=True):
            if key not in held:
                assert cell == ""
            elif math.isnan(held[key]):
                assert cell == "NaN"
            else:
                assert float(cell) == held[key]


def test_a_heading_or_a_text_that_could_be_a_formula_is_made_safe(folder):
    run = reading([runs_pb2.StepRow(attempt=1, step=1, metrics={"=HYPERLINK(1)": 1.0, "attempt": 2.0})])
    write_logs(run, folder, plots=False)
    heading = (folder / "metrics.csv").read_text(encoding="utf-8").splitlines()[0]
    assert "'=HYPERLINK(1)" in heading.split(",")
    assert heading.split(",").count("attempt") == 1
    assert "metrics/attempt" in heading.split(",")
    trials = table(folder / "trial_stats.csv")
    assert trials[1]["trial_name"] == "'=cmd()"
    assert trials[1]["exception_type"] == "'@SUM(A1)"


def test_a_look_at_an_engine_is_a_row_and_no_totals_are_made_up(folder):
    write_logs(reading(), folder)
    rows = table(folder / "vllm_metrics.csv")
    assert [(r["datetime_str"], r["engine"], r["scraped"], r["phase"]) for r in rows] == [
        ("2026-07-27T08:20:01Z", "e-0", "false", ""),
        ("2026-07-27T08:20:01Z", "e-1", "false", "eval"),
    ]
    assert [r["vllm/running"] for r in rows] == ["3.0", "-Infinity"]
    assert [r["metrics/engine"] for r in rows] == ["NaN", ""]
    assert "show fewer engines than there are" in (folder / "report.md").read_text()


def test_trials_have_the_twelve_columns_and_a_task_called_nan_is_no_number(folder):
    write_logs(reading(), folder)
    rows = table(folder / "trial_stats.csv")
    assert list(rows[0]) == [column for column, _ in TRIALS]
    assert len(TRIALS) == 12
    assert (rows[0]["task_name"], rows[0]["n_episodes"], rows[0]["trial_duration"]) == ("NaN", "6", "12.5")
    assert (rows[1]["reward"], rows[1]["n_episodes"]) == ("NaN", "")


def test_what_was_disregarded_or_redacted_counts_for_nothing(folder):
    gone = made.event(52, "rollouts.summarised", ROLLOUTS)
    gone.ClearField("payload")
    events = [made.event(51, "rollouts.summarised", ROLLOUTS), gone]
    write_logs(reading(events=events, disregarded={(51, "0199-0051")}), folder, plots=False)
    assert not (folder / "trial_stats.csv").exists()


def test_a_run_that_logged_nothing_says_so_and_has_no_empty_tables(folder):
    written = write_logs(reading([], events=[]), folder)
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "report.md"]
    assert set(written.absent) == {
        "metrics.csv", "vllm_metrics.csv", "trial_stats.csv", "reward_plot.png", "entropy_plot.png",
    }  # fmt: skip
    assert "No metric of any step was ever recorded" in (folder / "report.md").read_text()


def test_the_manifest_names_every_file_with_its_hash_and_where_it_was_read(folder):
    write_logs(reading(), folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["coordinates"]["size"] == made.SIZE
    assert "final" not in manifest["coordinates"]
    assert manifest["run"] == made.RUN
    there = sorted(path.name for path in folder.iterdir() if path.name != "manifest.json")
    assert sorted(file["path"] for file in manifest["files"]) == there
    for file in manifest["files"]:
        content = (folder / file["path"]).read_bytes()
        assert (file["sha256"], file["size"]) == (hashlib.sha256(content).hexdigest(), len(content))
    assert {f["path"]: f["rows"] for f in manifest["files"] if f["rows"]} == {
        "metrics.csv": 4, "vllm_metrics.csv": 2, "trial_stats.csv": 2,
    }  # fmt: skip


def test_equal_coordinates_give_equal_bytes(tmp_path):
    for name in ("one", "two"):
        write_logs(reading(), tmp_path / name)
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two
    assert len(one) == 7


def _png_size(path: Path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content.endswith(b"IEND\xaeB`\x82")
    return struct.unpack(">II", content[16:24])


def test_plots_are_png_files_of_the_size_they_say_also_with_values_that_are_not_finite(folder):
    write_logs(reading(), folder)
    size = (int(plots.WIDTH * plots.DPI), int(plots.HEIGHT * plots.DPI))
    assert _png_size(folder / "reward_plot.png") == size
    assert _png_size(folder / "entropy_plot.png") == size


def test_a_curve_of_nothing_finite_is_drawn_and_a_curve_of_nothing_is_not(folder):
    write_logs(reading([step(1, 1, reward__avg_raw_reward=nan)], events=[]), folder)
    assert _png_size(folder / "reward_plot.png")[0] > 0
    assert not (folder / "entropy_plot.png").exists()


def test_enormous_values_and_steps_are_no_reason_to_write_no_logs(folder):
    rewards = [1e308, -1e308, 0.5, 5e-324]
    rows = [step(1, n, reward__avg_raw_reward=reward) for n, reward in enumerate(rewards, 1)]
    write_logs(reading([*rows, step(1, 2**53 - 1, reward__avg_raw_reward=0.25)], events=[]), folder)
    assert _png_size(folder / "reward_plot.png")[0] > 0
    assert table(folder / "metrics.csv")[0]["reward/avg_raw_reward"] == "1e+308"


def test_a_name_that_looks_like_a_formula_is_drawn_as_text(folder):
    run = reading([step(1, 1, reward__avg_raw_reward=1.0)], events=[])
    run.dossier.run.summary.id = made.RUN
    summary = summarise(run)
    path = folder.parent / "p.png"
    assert plots.plot_reward(path, r"$\frac{1$ \x{", summary, plots.Marks((), (), ()))


def test_a_step_that_was_logged_twice_with_a_value_and_without_is_drawn(folder):
    rows = [step(1, 1, reward__avg_raw_reward=0.5), step(1, 1, custom=1.0), step(1, 1, reward__avg_raw_reward=nan)]
    write_logs(reading(rows, events=[]), folder)
    assert (folder / "reward_plot.png").is_file()


def test_the_marks_are_those_of_the_run():
    marks = plots.Marks.of(made.dossier().run)
    assert (marks.saved, marks.selected, marks.onsets) == ((15,), (15,), (31,))


def test_without_plots_none_are_drawn_and_the_drawing_program_is_not_needed(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    written = write_logs(reading(), folder, plots=False)
    assert written.absent == {"reward_plot.png": "left out, as asked", "entropy_plot.png": "left out, as asked"}


def test_a_missing_extra_is_named_before_anything_is_read(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(LedgerError) as caught:
        training_logs.write_training_logs(None, made.RUN, folder, disregarded=())
    assert caught.value.reason == "EXTRA_MISSING"
    assert "pip install 'atlas-ledger[plots]'" in caught.value.remedy


def test_a_folder_that_holds_logs_is_replaced_only_when_asked(folder):
    write_logs(reading(), folder)
    with pytest.raises(Refused, match="holds training logs already"):
        write_logs(reading(), folder)
    write_logs(reading([], events=[]), folder, force=True)
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "report.md"]
    assert list(folder.parent.iterdir()) == [folder]


def test_a_folder_that_holds_something_else_is_never_replaced(folder):
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(Refused, match="holds something else"):
        write_logs(reading(), folder, force=True)
    assert (folder / "thesis.tex").read_text() == "years of work"


def test_a_file_or_a_link_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    for name in ("file", "link"):
        with pytest.raises(InvalidInput, match="is no folder"):
            write_logs(reading(), tmp_path / name)


def test_an_empty_folder_is_filled(folder):
    folder.mkdir()
    write_logs(reading(), folder, plots=False)
    assert (folder / "manifest.json").is_file()


def test_the_folder_that_one_stands_in_is_filled(folder, monkeypatch):
    folder.mkdir()
    monkeypatch.chdir(folder)
    written = write_logs(reading(), Path(), plots=False)
    assert written.folder == folder
    assert (folder / "manifest.json").is_file()


def test_what_fails_half_way_leaves_nothing_behind(folder):
    class Broken(Runs):
        def steps(self, run_id, at, **_: Any):
            yield runs_pb2.StepsResponse(rows=STEPS[:1])
            raise LedgerError("the server went away")

    run = reading()
    broken: Any = Broken([])
    with pytest.raises(LedgerError, match="went away"):
        write_logs(RunReading(broken, run.reader, run.dossier, ()), folder)
    assert list(folder.parent.iterdir()) == []


def test_the_report_leaves_abandoned_steps_out_of_its_statistics_and_says_so():
    run = reading()
    text = report(run, summarise(run))
    assert "1 row of steps that a later attempt made again" in text
    line = next(line for line in text.splitlines() if line.startswith("| reward/avg"))
    # 0.25 and 0.4 are finite; the NaN of step 3 is counted, the abandoned 0.9 is not.
    assert line.split(" | ")[1:] == ["0.325", f"{statistics.stdev([0.25, 0.4]):.6g}", "0.25", "0.4", "2", "1 |"]


def test_the_report_tells_what_its_readers_look_for():
    run = reading()
    text = report(run, summarise(run))
    for title in ("Overview", "Training Progression", "Best Checkpoint", "Timing Analysis", "vLLM Analysis"):
        assert f"\n## {title}\n" in text
    assert "| timing/step | 15 | 30 | 100.0% |" in text
    assert "- Step 15 was selected for export by the rule `trailing-ema`" in text
    assert "2 trials, 1 of them ended with an exception." in text


def test_recorded_text_in_the_report_is_inert():
    run = reading([step(1, 1, **{"a|b\n## h <script>": 1.0})], events=[])
    text = report(run, summarise(run))
    assert "<script>" not in text
    assert "\n## h" not in text
    assert "a&#124;b &#35;&#35; h &#60;script&#62;" in text


def test_the_progression_of_a_long_run_is_told_in_part_with_both_ends():
    run = reading([step(1, n, reward__avg_raw_reward=n / 1000) for n in range(1, 1001)], events=[])
    told = report(run, summarise(run)).split("## Training Progression")[1].split("## ")[0]
    rows = [line for line in told.splitlines() if line.startswith("| 1 |")]
    assert len(rows) == MAX_ROWS
    assert rows[0].startswith("| 1 | 1 |")
    assert rows[-1].startswith("| 1 | 1,000 |")


@given(st.lists(st.floats(min_value=-1e6, max_value=1e6), min_size=2, max_size=30), st.integers(0, 3))
def test_statistics_are_those_of_the_finite_values(values, lost):
    taken = Statistics()
    for value in [*values, *[nan] * lost]:
        taken.take(value)
    assert (taken.count, taken.not_finite) == (len(values), lost)
    assert (taken.lowest, taken.highest) == (min(values), max(values))
    assert math.isclose(taken.mean, statistics.fmean(values), rel_tol=1e-9, abs_tol=1e-6)
    assert taken.spread is not None
    assert math.isclose(taken.spread, statistics.stdev(values), rel_tol=1e-6, abs_tol=1e-3)


def test_what_another_run_says_in_the_runs_stream_is_not_in_its_logs(folder):
    others = [
        made.event(101, "steps.logged", {"run_id": "another", "log_file": "another.out"}),
        made.event(50, "engine.sampled", ENGINES | {"run_id": "another"}),
        made.event(51, "rollouts.summarised", ROLLOUTS | {"run_id": "another"}),
    ]
    run = reading(events=others)
    assert (run.log_files(), list(run.samples()), list(run.trials())) == ({}, [], [])
    written = write_logs(run, folder, plots=False)
    assert {"vllm_metrics.csv", "trial_stats.csv"} <= set(written.absent)


TRL = [
    step(1, 1, reward=0.25, entropy=0.5, grad_norm=1.5, policy__policy_entropy=9.0),
    step(1, 2, reward=0.75, entropy=0.4, grad_norm=2.5, policy__policy_entropy=9.0),
]


def of_trl() -> RunReading:
    """A run whose declaration names the keys that TRL logs under."""
    run = reading(TRL, events=[])
    run.dossier.run.reward.metric = "reward"
    run.dossier.run.declared.series.MergeFrom(
        provenance_pb2.SeriesKeys(reward="reward", entropy="entropy", grad_norm="grad_norm")
    )
    return run


def test_a_runs_own_keys_are_told_where_it_declares_them():
    run = of_trl()
    summary = summarise(run)
    assert [(p.reward, p.entropy, p.grad_norm) for p in summary.points] == [(0.25, 0.5, 1.5), (0.75, 0.4, 2.5)]
    told = report(run, summary).split("## Training Progression")[1]
    assert "| Reward | EMA | Pass | Entropy | GradNorm |" in told
    assert "| 1 | 2 | no | 0.75 | - | - | 0.4 | 2.5 |" in told


def test_a_runs_own_keys_are_drawn_under_their_names(folder, monkeypatch):
    drawn, real = [], Axes.plot

    def plot(axes, steps, values, **look):
        drawn.append((look["label"], list(steps), list(values)))
        return real(axes, steps, values, **look)

    monkeypatch.setattr(Axes, "plot", plot)
    summary = summarise(of_trl())
    marks = plots.Marks((1,), (), ())
    folder.mkdir()
    assert plots.plot_reward(folder / "reward.png", made.RUN, summary, marks)
    assert plots.plot_entropy(folder / "entropy.png", made.RUN, summary, marks)
    assert drawn == [("reward", [1, 2], [0.25, 0.75]), ("entropy", [1, 2], [0.5, 0.4])]


def test_a_run_that_names_no_keys_is_read_by_those_of_skyrl():
    run = reading()
    run.dossier.run.reward.ClearField("metric")
    run.dossier.run.declared.ClearField("series")
    points = summarise(run).points
    assert (points[0].reward, points[0].entropy, points[0].grad_norm) == (0.25, 0.5, None)
