"""`ledger card` and `ledger logs`: from recorded events to files, through the doors."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.client import Writer, actor, connect
from ledger.client.drafts import Draft, draft
from ledger.events import REGISTRY
from services.server.app import in_process
from services.server.settings import Settings
from tests.cli.conftest import Run, run_command

RUN = "green-arm-0"
STREAM = f"run/{RUN}"
_REWARDS = (0.3, 0.5, 0.7, 0.6, 0.1)
_CLAIMED = {"kind": "claimed", "url": "https://pages.example/green"}


def told(type_: str, stream: str = STREAM, **payload: Any) -> Draft:
    model = REGISTRY.latest(type_).model
    return draft(type_, stream, model.model_validate(payload), by=actor("trainer-0"))


def steps(attempt: int, numbers: range) -> Draft:
    logged = [
        {
            "step": n,
            "metrics": {
                "reward/avg_raw_reward": _REWARDS[n - 1],
                "policy/policy_entropy": "NaN" if n == 5 else 0.4 * n,
                "timing/step": 10.0,
            },
        }
        for n in numbers
    ]
    return told("steps.logged", run_id=RUN, attempt=attempt, steps=logged)


def story() -> Iterator[Draft]:
    yield told(
        "campaign.declared",
        "campaign/green",
        campaign_id="green",
        purpose="The sweep measures dataset quality, not model quality.",
        compares="sources",
    )
    yield told(
        "run.declared",
        run_id=RUN,
        campaign_id="green",
        arm="arm-0",
        rl_start={"name": "example/base-131k", "repository": "example/base-131k", "commit": "4015b57a"},
        root_architecture={"name": "example/root"},
        sources=[{"atlas_id": "O:one", "dataset_id": "o/one", "dataset_revision": "d1", "task_count": 40}],
        planned_steps=8,
    )
    yield told("attempt.started", run_id=RUN, attempt=1)
    yield told("config.recorded", run_id=RUN, attempt=1, moment="start", digest="a" * 64)
    yield steps(1, range(1, 6))
    yield told("checkpoint.committed", run_id=RUN, attempt=1, step=4, digest="b" * 64)
    yield told(
        "engine.sampled",
        run_id=RUN,
        attempt=1,
        samples=[{"engine": "e-0", "sampled_at": "2026-07-27T08:20:01Z", "metrics": {"vllm/running": 3}}],
    )
    yield told(
        "rollouts.summarised",
        run_id=RUN,
        attempt=1,
        step=1,
        started=9,
        finished=8,
        trials=[{"trial_name": "t-1", "task_name": "=SUM(A1)", "reward": 1.0}],
    )
    yield told("run.ended", run_id=RUN, ending="failed", reason="entropy runaway", last_step=5)
    yield told("traces.published", run_id=RUN, repository="example/green-traces", commit="c0ffee", episodes="last")
    yield told(
        "claim.recorded",
        subject={"kind": "run", "id": RUN},
        topic="benchmark",
        statement="no benchmark numbers are claimed here",
        absent=True,
        basis=_CLAIMED,
    )
    yield told(
        "export.started",
        "export/green-4",
        export_id="green-4",
        checkpoint={"run_id": RUN, "step": 4, "digest": "b" * 64},
        route="rerun",
    )
    yield told(
        "hosting.observed",
        "export/green-4",
        export_id="green-4",
        host="hosting.example",
        observed_at="2026-08-02T07:00:00Z",
        observations=[{"field": "context_size", "value": "32k"}],
    )


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A ledger that holds the story: only to be read from."""
    with in_process(Settings(home=tmp_path_factory.mktemp("green"))) as found:
        with connect(found) as connection:
            writer = Writer(connection)
            for event in story():
                writer.append([event])
        yield found


@pytest.fixture
def green(run: Run, address: str) -> Run:
    return lambda *arguments: run_command(*arguments, "--address", address)


def test_a_card_is_printed_and_its_marks_lead_to_events_that_can_be_shown(green):
    got = green("card", RUN)
    assert got.code == 0, got.err
    marks = set(re.findall(r"\[\[e(\d+)\]\]", got.out))
    ids = dict(re.findall(r'<a id="e(\d+)"></a>.*`ledger event show ([^`]+)`', got.out))
    assert marks == set(ids)
    for pos, id_ in list(ids.items())[:3]:
        assert green("event", "show", id_, "--json").json["pos"] == int(pos)


def test_the_card_tells_the_story_and_what_nobody_recorded(green):
    text = green("card", RUN).out
    for sentence in (
        "The sweep measures dataset quality, not model quality.",
        "Reinforcement learning started from `example/base-131k`",
        "The run failed, for the reason “entropy runaway”",
        "no benchmark numbers are claimed here",
        "https://huggingface.co/datasets/example/green-traces",
        "“32k” of `hosting.example` stands beside an RL start whose name says 131k",
    ):
        assert sentence in text
    missing = text.split("## Not recorded")[1]
    assert "the choice of a checkpoint" in missing
    assert "the verifier revision of `o/one`" in missing


def test_a_card_at_its_own_size_is_the_same_bytes_again(green):
    first = green("card", RUN).raw
    again = re.search(rb"`ledger (card [^`]+)` makes it again", first)
    assert again is not None
    assert green(*again[1].decode().split()).raw == first


def test_a_card_of_an_earlier_moment_knows_no_later_event(green):
    size = green("event", "show", _id_of(green, "attempt.started"), "--json").json["pos"]
    text = green("card", RUN, "--at", size).out
    assert "entropy runaway" not in text
    assert "No end of the run is recorded" in text


def _id_of(green: Run, type_: str) -> str:
    lines = green("log", "tail", "-n", 50, "--type", type_, "--json").out
    return str(json.loads(lines)[0]["header"]["id"])


def test_a_card_is_written_whole_to_a_file(green, tmp_path):
    file = tmp_path / "README.md"
    got = green("card", RUN, "--to", file)
    assert (got.code, got.out) == (0, "")
    assert file.read_bytes() == green("card", RUN).raw
    assert list(tmp_path.glob(".README*")) == []


def test_a_card_as_json_is_one_object(green):
    got = green("card", RUN, "--json").json
    assert got["run"] == RUN
    assert got["card"].encode() == green("card", RUN).raw


@pytest.mark.parametrize("arguments", [("card", "nobody"), ("card", RUN, "--export", "none")], ids=["run", "export"])
def test_what_was_never_recorded_is_not_found(green, arguments):
    got = green(*arguments, "--json")
    assert got.code == 4
    assert got.error["reason"] == "NOT_FOUND"


def test_logs_are_a_folder_of_tables_report_plots_and_a_manifest(green, tmp_path):
    folder = tmp_path / "training_logs"
    got = green("logs", RUN, "--to", folder, "--json").json
    assert sorted(path.name for path in folder.iterdir()) == [
        "entropy_plot.png",
        "manifest.json",
        "metrics.csv",
        "report.md",
        "reward_plot.png",
        "trial_stats.csv",
        "vllm_metrics.csv",
    ]
    for file in got["files"]:
        assert hashlib.sha256((folder / file["path"]).read_bytes()).hexdigest() == file["sha256"]
    rows = (folder / "metrics.csv").read_text().splitlines()
    assert len(rows) == 1 + len(_REWARDS)
    assert ",NaN," in rows[-1]
    assert "'=SUM(A1)" in (folder / "trial_stats.csv").read_text()


def test_logs_that_are_there_are_replaced_only_with_force(green, tmp_path):
    folder = tmp_path / "training_logs"
    assert green("logs", RUN, "--to", folder, "--no-plots").code == 0
    refused = green("logs", RUN, "--to", folder, "--json")
    assert (refused.code, refused.error["reason"]) == (5, "IN_USE")
    assert green("logs", RUN, "--to", folder, "--force").code == 0
    assert (folder / "reward_plot.png").is_file()


def test_logs_before_the_first_step_have_no_tables_and_say_why(green, tmp_path):
    size = green("event", "show", _id_of(green, "steps.logged"), "--json").json["pos"]
    got = green("logs", RUN, "--to", tmp_path / "early", "--at", size)
    assert got.code == 0
    assert "No metrics.csv: no metric of any step was recorded." in got.err
    assert not (tmp_path / "early" / "metrics.csv").exists()


@pytest.fixture
def listed(run: Run, tmp_path: Path) -> Iterator[tuple[Run, Callable[[], None]]]:
    """A ledger of this test's own that lists the run's source, and what tells it the story."""
    with in_process(Settings(home=tmp_path / "own")) as found, connect(found) as connection:
        writer = Writer(connection)

        def tell() -> None:
            for event in story():
                writer.append([event])

        def on_it(*arguments: object) -> Any:
            return run(*arguments, "--address", found)

        inventory = tmp_path / "one.jsonl"
        row = {"id": "O:one", "origin": "O", "dataset_revision": "d1", "verifier_revision": "v1"}
        inventory.write_text(json.dumps(row) + "\n")
        assert on_it("catalogue", "import", inventory).code == 0
        yield on_it, tell


def test_what_was_disregarded_is_in_no_table(listed, tmp_path):
    on_it, tell = listed
    tell()
    pos = on_it("event", "show", _id_of(on_it, "rollouts.summarised"), "--json").json["pos"]
    assert on_it("event", "disregard", pos, "--reason", "a test", "--yes").code == 0
    assert on_it("logs", RUN, "--to", tmp_path / "out", "--no-plots").code == 0
    assert not (tmp_path / "out" / "trial_stats.csv").exists()
    assert (tmp_path / "out" / "metrics.csv").exists()


def test_a_defect_that_was_confirmed_after_the_run_began_is_told_of_now_and_not_of_then(listed, tmp_path):
    on_it, tell = listed
    tell()
    before = on_it("card", RUN).out
    assert re.search(r"\| now \| \d+ \| [^|]+ \| none \|", before)
    case = tmp_path / "case.json"
    case.write_text('{"answer": "1/2"}')
    said = ["--kind", "verifier", "--summary", "rejects 1/2", "--expected", "reward 1", "--observed", "reward 0"]
    more = ["--native-input", case, "--reproduction", "run it", "--issue-missing"]
    assert on_it("defect", "confirm", "O:one", "d1", *said, *more).code == 0
    after = on_it("card", RUN).out
    assert re.search(r"\| when the run was declared \| \d+ \| [^|]+ \| none \|", after)
    assert re.search(r"\| now \| \d+ \| [^|]+ \| `d1` \(verifier\): “rejects 1/2”, issue missing \|", after)
    assert "with 1 open defect (derived)" in after.split("## What it is")[0]
    assert "What is shown of `O:one` turned 1 time after the run was declared" in after
    size = re.search(r"--at (\d+)` makes it again", before)
    assert size is not None
    assert on_it("card", RUN, "--at", size[1]).out == before
