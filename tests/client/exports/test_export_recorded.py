"""What the ledger is told of an export is what its rules take, and what they refuse is not offered as verified."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.client import Recorder
from ledger.client.exports.checks import Checked, check_export
from ledger.client.exports.indexes import INDEX, SINGLE
from ledger.client.exports.places import Folder
from ledger.client.exports.recorded import export_completed, export_failed, export_verified, verdict
from ledger.client.recording.files import Files, digest_of, read_files
from ledger.client.testing import FakeLedger
from ledger.core.errors import InvalidInput
from ledger.events.checkpoints import FileDigest
from tests.client.exports.models import base, edit_header, edit_index, header, model
from tests.rules.training_1_stories import Story

STARTED = {"checkpoint": {"run_id": "arm-0", "step": 15}, "route": "offline"}


def completed(checked: Checked, files: Files, **fields: Any) -> Story:
    story = Story()
    story.stream = "export/e"
    story.add("export.started", STARTED)
    story.add("export.completed", export_completed("e", checked, files, location=checked.location, **fields))
    return story


class TestAGoodExport:
    def test_its_verification_stands_before_the_rules(self, tmp_path):
        folder = model(tmp_path / "e")
        files = read_files(folder)
        checked = check_export(Folder(folder), base=base(tmp_path / "b"), files=files.files)
        type_, said = verdict("e", checked, files, base={"name": "a/b", "commit": None})
        assert type_ == "export.verified"
        assert completed(checked, files).against(type_, said) == []

    def test_it_is_said_of_the_files_and_the_place_that_were_read(self, tmp_path):
        files = read_files(model(tmp_path))
        checked = check_export(Folder(tmp_path))
        said = export_verified("e", checked, files, verified_at="2026-01-01T00:00:00.000000Z")
        assert (said["digest"], said["place"], len(said["files"])) == (files.digest, str(tmp_path), 7)
        assert {c["name"]: c["outcome"] for c in said["checks"]}["file_digests"] == "not_checked"
        assert said["verified_at"] == "2026-01-01T00:00:00.000000Z"

    def test_what_was_completed_has_the_numbers_of_the_headers(self, tmp_path):
        said = export_completed("e", check_export(Folder(model(tmp_path))), read_files(tmp_path))
        assert (said["shard_count"], said["total_size"], said["tensor_count"], said["parameter_count"]) == (
            3,
            2_592,
            5,
            1_296,
        )
        assert (said["dtypes"], said["tied_weights"]) == (["BF16"], True)
        assert "location" not in said

    def test_a_checkpoint_that_changed_meanwhile_is_refused_by_the_rules(self, tmp_path):
        files, checked = read_files(model(tmp_path)), check_export(Folder(tmp_path))
        story = completed(checked, files, checkpoint_digest_before="a" * 64, checkpoint_digest_after="b" * 64)
        assert "exporting changed the checkpoint" in story.against(*verdict("e", checked, files))[0].message

    def test_other_files_than_were_completed_are_refused_by_the_rules(self, tmp_path):
        files, checked = read_files(model(tmp_path)), check_export(Folder(tmp_path))
        story = completed(checked, files)
        (tmp_path / "config.json").write_text("{}")
        found = story.against(*verdict("e", checked, read_files(tmp_path)))
        assert "/digest" in [p.place for p in found]

    def test_a_recorder_takes_all_of_it(self, tmp_path):
        files, checked = read_files(model(tmp_path / "e")), check_export(Folder(tmp_path / "e"))
        with FakeLedger() as ledger, Recorder(ledger.address, run="r", spool=tmp_path / "s", strict=True) as rec:
            rec.record("export.started", {"export_id": "e", **STARTED})
            rec.record("export.completed", export_completed("e", checked, files))
            rec.record(*verdict("e", checked, files))
            rec.record("export.failed", export_failed("e", stage="upload", reason="the place is gone"))
            rec.flush()
            found = [e.type for e in ledger.events if e.stream == "export/e"]
        assert found == ["export.started", "export.completed", "export.verified", "export.failed"]

    def test_more_files_than_an_event_holds_are_told_by_their_digest(self, tmp_path):
        checked = check_export(Folder(model(tmp_path)))
        many = tuple(FileDigest(path=f"{n:05}", sha256="a" * 64, size=1) for n in range(4_001))
        said = export_completed("e", checked, Files(many, digest_of(many)))
        assert (said["files"], said["digest"]) == ([], digest_of(many))


class TestABadExport:
    def test_its_failed_checks_are_told_instead(self, tmp_path):
        folder = model(tmp_path / "e")
        edit_index(folder, lambda i: i["weight_map"].update(ghost="model-00001-of-00003.safetensors"))
        checked = check_export(Folder(folder), base=base(tmp_path / "b"))
        type_, said = verdict("e", checked, read_files(folder))
        assert (type_, said["stage"], [c["name"] for c in said["failed_checks"]]) == (
            "export.failed",
            "verify",
            ["weight_map_complete"],
        )
        assert said["reason"].endswith("tensor ghost, file model-00001-of-00003.safetensors")
        Story("export/e").add(type_, said)

    def test_it_cannot_be_called_verified(self, tmp_path):
        edit_index(model(tmp_path), lambda i: i["metadata"].update(total_size=1))
        with pytest.raises(InvalidInput, match="total_size: the index says 1 bytes"):
            export_verified("e", check_export(Folder(tmp_path)))

    def test_neither_can_one_file_without_an_index(self, tmp_path):
        header(tmp_path / SINGLE, {"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}, data=b"1")
        checked = check_export(Folder(tmp_path))
        assert checked.failed == []
        with pytest.raises(InvalidInput, match="one file without an index"):
            verdict("e", checked)

    @pytest.mark.parametrize("name", ["half\ud800", "n\0ul", "x" * 600, ""])
    def test_a_name_that_no_event_can_hold_is_told_as_far_as_one_can(self, tmp_path, name):
        folder = model(tmp_path / "e")
        edit_index(folder, lambda i: i["weight_map"].update({name: "model-00001-of-00003.safetensors"}))
        Story("export/e").add(*verdict("e", check_export(Folder(folder))))
        other = model(tmp_path / "f")
        edit_header(
            other / "model-00002-of-00003.safetensors",
            lambda h: h.update({name: {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}}),
        )
        Story("export/e").add(*verdict("e", check_export(Folder(other), base=base(tmp_path / "b"))))

    def test_counts_beyond_what_an_event_holds_are_left_out(self, tmp_path):
        for number in (1, 2):
            said = {f"t{number}": {"dtype": "U8", "shape": [2**53 - 1], "data_offsets": [0, 2**53 - 1]}}
            header(tmp_path / f"model-0000{number}-of-00002.safetensors", said)
        (tmp_path / INDEX).write_text("{}")
        checked = check_export(Folder(tmp_path))
        Story("export/e").add("export.completed", export_completed("e", checked, read_files(tmp_path)))
        Story("export/e").add(*verdict("e", checked))
        assert checked.numbers is None
