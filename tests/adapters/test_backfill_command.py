"""`ledger backfill`: what is told before, what is appended once, and what a second import adds."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ledger.client import Reader, Writer, connect
from ledger.core import strictjson
from services.adapters.backfill.sending import known_in, send
from services.adapters.backfill.skyrl import plan_skyrl
from services.server.app import in_process
from services.server.settings import Settings
from tests.adapters.builders import ME, VECTORS, checkpoint, export, log, mirror, result, trial
from tests.adapters.conftest import Own

RESTART = VECTORS / "skyrl" / "restart.log"


def test_a_dry_run_tells_what_would_be_appended_and_appends_nothing(own):
    before = own.size
    told = own("backfill", "skyrl", RESTART, "--run", "r", "--dry-run", "--json").json
    assert (told["dry_run"], told["recorded"], told["size"]) == (True, 0, before)
    assert told["new"] == {**told["events"], "recording.reported": 1}, "and the report that closes it"
    assert told["events"]["steps.logged"] == 5
    assert (told["account"]["first_step"], told["account"]["last_step"]) == (1, 4)
    assert [u["place"] for u in told["account"]["unread"]] == ["restart.log:31", "restart.log:34", "restart.log:35"]
    assert own.size == before
    assert own("backfill", "skyrl", RESTART, "--run", "r", "--json").json["new"] == told["new"]
    again = own("backfill", "skyrl", RESTART, "--run", "r", "--dry-run", "--json").json
    assert (again["new"], again["already_recorded"]) == ({}, sum(told["events"].values()))


def test_an_import_is_recorded_once_whoever_repeats_it(own):
    first = own("backfill", "skyrl", RESTART, "--run", "r", "--json").json
    again = own("backfill", "skyrl", RESTART, "--run", "r", "--actor", "somebody", "--json").json
    assert first["recorded"] == sum(first["events"].values()) + 1, "and the report that closes it"
    assert (again["recorded"], again["already_recorded"], again["size"]) == (
        0,
        sum(first["events"].values()),
        first["size"],
    )


def test_a_person_is_told_of_attempts_and_of_what_was_not_understood(own):
    told = own("backfill", "skyrl", RESTART, "--run", "r")
    assert "steps 3 to 4, 2 rows, went on from 2" in told.out
    assert "Not understood: restart.log:31: metrics within other text" in told.err
    assert "Recorded 12 events" in told.err


def test_every_event_is_numbered_and_the_report_says_up_to_where(own):
    own("backfill", "skyrl", RESTART, "--run", "r")
    *numbered, (last, said) = own.events("run/r")
    assert last["type"] == "recording.reported"
    assert [h["producer"]["seq"] for h, _ in numbered] == list(range(1, len(numbered) + 1))
    assert (said["last_seq"], said["closed"], said["malformed_lines"]) == (len(numbered), True, 3)
    assert {h["producer"]["id"] for h, _ in numbered} == {said["producer"]}


def test_an_import_that_was_interrupted_goes_on_where_it_stopped(tmp_path):
    lines = [mirror(n) for n in range(1, 8)]
    path = log(tmp_path / "a.log", *lines)
    with in_process(Settings(home=tmp_path / "home")) as address, connect(address) as connection:
        reader, writer = Reader(connection), Writer(connection)
        whole = plan_skyrl([path], run_id="r", by=ME)
        drafts = list(whole.drafts())
        for seq, draft in enumerate(drafts[:3], 1):
            draft.producer.id, draft.producer.epoch, draft.producer.seq = whole.producer, 1, seq
        writer.append(drafts[:3])
        sent = send(plan_skyrl([path], run_id="r", by=ME), reader=reader, writer=writer, by=ME, renew=lambda d: d)
        known = known_in(reader, "run/r")
    assert (sent.recorded.total(), sent.already) == (len(drafts) - 3 + 1, 3)
    assert sorted(k.seq for k in known.values() if k.producer) == list(range(1, len(drafts) + 1))


def test_logs_that_are_imported_while_they_grow_come_to_the_same_as_at_once(tmp_path):
    lines = [mirror(1), mirror(2), "x", mirror(2, x=1.0), mirror(3), mirror(4)]
    ids = {}
    for name, cuts in {"grown": (2, 4, 6), "at once": (6,)}.items():
        home = tmp_path / name.replace(" ", "")
        with in_process(Settings(home=home)) as address, connect(address) as connection:
            reader, writer = Reader(connection), Writer(connection)
            for cut in cuts:
                found = plan_skyrl([log(tmp_path / "a.log", *lines[:cut])], run_id="r", by=ME)
                send(found, reader=reader, writer=writer, by=ME, renew=lambda d: d)
            events = [strictjson.parse(e.header) for e in reader.events(streams=["run/r"], headers_only=True)]
            ids[name] = Counter(e["id"] for e in events if e["type"] != "recording.reported")
    assert ids["grown"] == ids["at once"]
    assert set(ids["grown"].values()) == {1}


def test_what_was_disregarded_is_imported_again_under_another_id(own):
    own("backfill", "skyrl", RESTART, "--run", "r")
    pos = next(h["pos"] for h, _ in own.events("run/r") if h["type"] == "steps.logged")
    assert own("event", "disregard", pos, "--reason", "A wrong file.", "--yes").code == 0
    again = own("backfill", "skyrl", RESTART, "--run", "r", "--json").json
    assert again["new"] == {"recording.reported": 1, "steps.logged": 1}


def test_a_log_of_another_kind_is_refused_and_nothing_is_appended(own, tmp_path):
    before = own.size
    path = log(tmp_path / "a.log", *["nothing of ours"] * 500)
    refused = own("backfill", "skyrl", path, "--run", "r", "--json")
    assert (refused.code, refused.error["reason"]) == (1, "NO_ROWS")
    assert own.size == before


class TestDeclaring:
    def declared(self, own: Own) -> dict[str, Any]:
        return next(payload for header, payload in own.events("run/r") if header["type"] == "run.declared")

    def test_campaign_and_sources_are_declared_when_they_are_given(self, own):
        own("backfill", "skyrl", RESTART, "--run", "r", "--campaign", "dq", "--source", "O:one")
        said = self.declared(own)
        assert (said["campaign_id"], said["rl_start"]) == ("dq", None)
        assert said["sources"] == [{"atlas_id": "O:one", "dataset_id": "O:one"}]
        assert said["basis"]["kind"] == "claimed"

    def test_a_file_declares_the_rest(self, own, tmp_path):
        path = tmp_path / "run.json"
        sources = [{"atlas_id": "O:one", "dataset_id": "org/one", "dataset_revision": "v1"}]
        path.write_text(json.dumps({"rl_start": {"name": "base"}, "sources": sources}))
        own("backfill", "skyrl", RESTART, "--run", "r", "--declare", path, "--source", "O:one", "--source", "O:two")
        said = self.declared(own)
        assert said["rl_start"] == {"name": "base"}
        assert [s["dataset_id"] for s in said["sources"]] == ["org/one", "O:two"]

    @pytest.mark.parametrize(
        "content", ["{", "[]", '{"run_id": "other"}', '{"rl_start": null, "sources": [], "no_such_field": 1}']
    )
    def test_a_file_that_is_no_declaration_of_the_run_is_refused(self, own, tmp_path, content):
        path = tmp_path / "run.json"
        path.write_text(content)
        refused = own("backfill", "skyrl", RESTART, "--run", "r", "--declare", path, "--json")
        assert (refused.code, refused.error["reason"]) == (1, "INVALID_FILE")
        assert own.events("run/r") == []

    def test_without_any_of_it_the_run_is_not_declared(self, own):
        own("backfill", "skyrl", RESTART, "--run", "r")
        assert "run.declared" not in {header["type"] for header, _ in own.events("run/r")}


def test_every_kind_of_file_has_its_command(own, tmp_path):
    trial(tmp_path / "job", "a__1234567", {"result.json": result("a__1234567", verifier_result={"rewards": {"x": 1}})})
    checkpoint(tmp_path / "ckpts", 3, ["model_world_size_1_rank_0.pt"])
    commands: list[tuple[str, Path]] = [
        ("harbor", tmp_path / "job"),
        ("wandb", VECTORS / "wandb" / "first.jsonl"),
        ("mlflow", VECTORS / "mlflow" / "0a1b2c"),
        ("checkpoints", tmp_path / "ckpts"),
    ]
    for name, path in commands:
        told = own("backfill", name, path, "--run", f"r-{name}", "--json").json
        assert told["recorded"] == sum(told["events"].values()) + 1, name
        assert own("backfill", name, path, "--run", f"r-{name}", "--json").json["recorded"] == 0, name


def test_a_jobs_evidence_is_stored_with_its_summary(own, tmp_path):
    trial(tmp_path / "job", "a__1234567", {"result.json": result("a__1234567")})
    own("backfill", "harbor", tmp_path / "job", "--run", "r")
    (said,) = [payload for header, payload in own.events("run/r") if header["type"] == "rollouts.summarised"]
    kept = tmp_path / "kept"
    assert own("artifact", "get", said["evidence"]["sha256"], "--output", kept).code == 0
    assert json.loads(kept.read_text())["trial"] == "a__1234567"


def test_a_faulty_export_is_recorded_as_failed(own, tmp_path):
    export(tmp_path / "e", total=51)
    told = own("backfill", "export", tmp_path / "e", "--export", "e", "--run", "r", "--step", 15, "--json").json
    assert told["new"] == {"export.completed": 1, "export.failed": 1, "export.started": 1}


def test_a_whole_export_is_recorded_as_verified_and_what_it_cites_is_stored(run, tmp_path):
    export(tmp_path / "e")
    told = run("backfill", "export", tmp_path / "e", "--export", "e", "--run", "r", "--step", 15, "--json").json
    assert told["new"] == {"export.completed": 1, "export.started": 1, "export.verified": 1}
    assert run("log", "fsck").code == 0


@pytest.mark.parametrize("given", ["", " r", "r ", "é", "a\nb", "x" * 501])
def test_an_id_that_no_stream_can_bear_is_a_usage_error(own, given):
    assert own("backfill", "skyrl", RESTART, "--run", given).code == 2


def test_a_name_with_a_line_feed_begins_no_line_of_its_own(own, tmp_path):
    path = log(tmp_path / "red\nRecorded 9 events.log", mirror(1), "x " + mirror(2))
    told = own("backfill", "skyrl", path, "--run", "r")
    assert told.code == 0
    assert "Not understood: red Recorded 9 events.log:2: metrics within other text" in told.err
    assert not any(line.startswith("Recorded 9") for line in told.err.splitlines())


def test_a_name_that_would_steer_the_terminal_is_shown_harmless(own, tmp_path):
    path = log(tmp_path / "\x1b[31mred.log", mirror(1), "x " + mirror(2))
    told = own("backfill", "skyrl", path, "--run", "r")
    assert told.code == 0
    assert "\x1b" not in told.out + told.err
