"""Where credentials leak from: configurations, command lines, logs. They are replaced before they are sent, and counted.

A test bears the number of the lesson in the domain's list. The credentials are made up, in the shapes of real ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.training.trained import Trained
from tests.adapters.builders import log, mirror

WANDB = "0123456789abcdef" * 2 + "01234567"
HUB = "hf_" + "Ab3" * 11 + "x"
PROXY = "Qz7" * 12


def bytes_below(folder: Path) -> bytes:
    """Everything that lies in a folder."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def nowhere(trained: Trained, *secrets: str) -> None:
    """No secret is in an event of the run, in its card, or in its spool."""
    read = trained.doors.reader.events(streams=[f"run/{trained.id}"])
    said = b"".join(event.payload for event in read) + trained.card().encode()
    said += bytes_below(trained.folder / trained.id)
    for secret in secrets:
        assert secret.encode() not in said


def counts(redactions: list[dict[str, Any]]) -> dict[str, int]:
    return {one["shape"]: one["count"] for one in redactions}


def test_lesson_38_a_trackers_key_in_a_configuration_is_replaced_and_counted(arm: Trained) -> None:
    config = {"trainer": {"logger": "wandb", "wandb_api_key": WANDB, "lr": 8e-6}}
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.config(config)
        rec.start_attempt()
    (recorded,) = arm.payloads("config.recorded")
    assert recorded["settings"]["trainer.wandb_api_key"] == "<redacted:wandb_key>"
    assert recorded["settings"]["trainer.lr"] == 8e-6
    assert counts(recorded["redactions"]) == {"wandb_key": 1}
    nowhere(arm, WANDB)


def test_lesson_38_forty_digits_that_are_a_commit_are_left_as_they_are(arm: Trained) -> None:
    """The control: a revision is as long as a key."""
    with arm.recorder() as rec:
        arm.declare(rec)
        rec.config({"trainer": {"code_revision": WANDB}})
    (recorded,) = arm.payloads("config.recorded")
    assert recorded["settings"]["trainer.code_revision"] == WANDB
    assert recorded.get("redactions", []) == []


def fail_with_tokens(arm: Trained, endpoint: str) -> None:
    """A token on the command line, two in the configuration, and one in the error that ends it all."""
    with arm.recorder() as rec:
        arm.declare(rec, purpose=f"started by: HF_TOKEN={HUB} python train.py")
        rec.config({"generator": {"endpoint": endpoint, "env": {"HF_TOKEN": HUB}}})
        rec.start_attempt()
        raise RuntimeError(f"401 from {endpoint}")


def test_lesson_39_tokens_in_settings_command_lines_and_errors_are_counted_by_shape_for_the_whole_recording(
    arm: Trained,
) -> None:
    endpoint = f"https://proxy.example/proxy/t/{PROXY}/v1"
    with pytest.raises(RuntimeError, match="401"):
        fail_with_tokens(arm, endpoint)
    (recorded,) = arm.payloads("config.recorded")
    (ended,) = arm.payloads("attempt.ended")
    (report,) = arm.payloads("recording.reported")
    assert counts(recorded["redactions"]) == {"huggingface_token": 1, "url_path_token": 1}
    assert ended["reason"] == "401 from https://proxy.example/proxy/t/<redacted:url_path_token>/v1"
    assert counts(report["redactions"]) == {"huggingface_token": 2, "url_path_token": 2}
    nowhere(arm, HUB, PROXY)


def test_lesson_39_tokens_in_a_log_that_is_read_afterwards_are_replaced_and_counted(
    arm: Trained, tmp_path: Path
) -> None:
    """The whole configuration stands at the head of a log, as trainers print it."""
    printed = ["data:", "  train_data:", "  - /data/tasks", "trainer:", f"  hub_token: {HUB}", "  seed: 42"]
    printed += ["  epochs: 1", "  strategy: fsdp2", "generator:", "  temperature: 1.0"]
    path = log(tmp_path / "train.log", *printed, *[mirror(step) for step in range(1, 4)])
    told = arm.doors.tell("backfill", "skyrl", path, "--run", arm.id)
    assert told["account"]["redactions"] == {"huggingface_token": 1}
    (report,) = arm.payloads("recording.reported")
    assert counts(report["redactions"]) == {"huggingface_token": 1}
    nowhere(arm, HUB)


def test_lesson_39_what_was_removed_before_a_publication_is_told_by_counts_or_as_a_statement_alone(
    arm: Trained,
) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
        counted = [{"shape": "url_path_token", "count": 3}]
        rec.record("logs.published", {"repository": "org/m", "commit": "1" * 40, "redactions": counted})
        rec.record("logs.published", {"repository": "org/n", "commit": "2" * 40, "redaction_stated": True})
    first, second = arm.run().logs
    assert [(r.shape, r.count) for r in first.redactions] == [("url_path_token", 3)]
    assert (second.redaction_stated, list(second.redactions)) == (True, [])


def test_a_spool_is_readable_by_its_owner_alone(arm: Trained) -> None:
    with arm.recorder() as rec:
        arm.declare(rec)
        assert rec.spool is not None
        segments = list(rec.spool.glob("*.seg"))
        assert segments
        assert {path.stat().st_mode & 0o077 for path in segments} == {0}
