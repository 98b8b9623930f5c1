"""A published model is there whole, or has no index; wherever it was killed, the next attempt ends it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from uuid import uuid4

import pytest

from ledger.client.exports.indexes import INDEX, SINGLE
from ledger.client.exports.places import Folder, Place, place
from ledger.client.exports.publishing import publish
from ledger.client.recording.files import read_files
from ledger.core.errors import Broken, InvalidInput, Refused, Unavailable
from tests.client.exports.counting import MortalPlace
from tests.client.exports.models import ONE, TWO, model

CHANGES_OF_A_NEW_ONE = 7


def nothing_is_half_there(there: Place, whole: list[dict[str, str]]) -> bool:
    """No index is visible, or all that one of these models has is there, byte for byte."""
    found = {n: hashlib.sha256(b"".join(there.chunks(n))).hexdigest() for n in there.names()}
    return INDEX not in found or any(w.items() <= found.items() for w in whole)


def digests(folder: Path) -> dict[str, str]:
    return {f.path: f.sha256 or "" for f in read_files(folder).files}


class TestTheOrder:
    def test_shards_come_first_then_other_files_and_the_index_last(self, tmp_path):
        to = MortalPlace(Folder(tmp_path / "to"))
        publish(model(tmp_path / "from"), to)
        puts = to.puts()
        assert puts[:3] == sorted(n for n in puts if n.endswith(".safetensors"))
        assert puts[3:] == ["config.json", "generation_config.json", "tokenizer.json", INDEX]
        assert len(to.done) == CHANGES_OF_A_NEW_ONE

    def test_a_stale_index_is_removed_before_anything_else(self, tmp_path):
        to = MortalPlace(Folder(model(tmp_path / "to", moved=0.5)))
        publish(model(tmp_path / "from"), to, replace=True)
        assert to.done[0] == ("delete", INDEX)
        assert to.done[-1] == ("put", INDEX)

    def test_a_single_file_is_put_last_and_a_stale_one_is_removed_first(self, tmp_path):
        (tmp_path / "one").mkdir()
        (tmp_path / "one" / SINGLE).write_bytes(b"weights")
        (tmp_path / "one" / "config.json").write_text("{}")
        to = MortalPlace(Folder(tmp_path / "to"))
        publish(tmp_path / "one", to)
        publish(model(tmp_path / "from"), to, replace=True)
        assert to.puts()[:2] == ["config.json", SINGLE]
        assert to.done[2] == ("delete", SINGLE)


class TestTheDigest:
    @pytest.mark.parametrize("where", ["folder", "memory", "s3"])
    def test_it_is_that_of_the_files_as_they_are_read_back_anywhere(self, tmp_path, where, request):
        url = {"folder": str(tmp_path), "memory": "memory://published"}.get(where) or request.getfixturevalue("s3")
        to = place(f"{url}/{uuid4().hex}")
        source = model(tmp_path / "from")
        published = publish(source, to)
        assert published == read_files(source)
        assert {n: hashlib.sha256(to.read(n)).hexdigest() for n in to.names()} == digests(source)

    def test_a_file_that_reads_back_otherwise_is_told_and_no_index_is_left(self, tmp_path):
        class Careless(MortalPlace):
            def put(self, name, source):
                super().put(name, source.read_bytes() + b"!" if name == self.spoiled else source)

        for spoiled in (TWO, "config.json", INDEX):
            to = Careless(Folder(tmp_path / spoiled))
            to.spoiled = spoiled
            with pytest.raises(Broken, match=f"{spoiled} was put to") as caught:
                publish(model(tmp_path / "from"), to)
            assert caught.value.reason == "VERIFICATION_FAILED"
            assert INDEX not in to.names()


class TestBeingKilled:
    @pytest.mark.parametrize("after", range(CHANGES_OF_A_NEW_ONE))
    def test_at_a_new_place_no_index_is_there_and_the_next_attempt_ends_it(self, tmp_path, after):
        source, to = model(tmp_path / "from"), Folder(tmp_path / "to")
        with pytest.raises(Unavailable):
            publish(source, MortalPlace(to, dies_at=after))
        assert INDEX not in to.names()
        again = MortalPlace(to)
        publish(source, again)
        assert len(again.done) == CHANGES_OF_A_NEW_ONE - after
        assert digests(tmp_path / "to") == digests(source)

    def test_half_a_file_that_a_kill_left_is_no_file_and_is_swept_by_the_next_attempt(self, tmp_path):
        source, to = model(tmp_path / "from"), Folder(tmp_path / "to")
        to.put(ONE, source / ONE)
        for name in (TWO, INDEX):
            (tmp_path / "to" / f".{name}.{uuid4().hex}").write_bytes(b"half")
        assert to.names() == [ONE]
        publish(source, to)
        assert digests(tmp_path / "to") == digests(source)

    @pytest.mark.parametrize("max_shard_bytes", [700, 1_024, 10_000])
    def test_when_it_replaces_an_export_the_old_one_or_the_new_one_or_none_has_an_index(
        self, tmp_path, max_shard_bytes
    ):
        source, old = model(tmp_path / "from"), tmp_path / "old"
        model(old, moved=0.5, max_shard_bytes=max_shard_bytes)
        (old / "notes.txt").write_text("of the old one")
        whole = [digests(source), digests(old)]
        for after in range(100):
            to = Folder(tmp_path / f"to-{after}")
            publish(old, to)
            try:
                publish(source, MortalPlace(to, dies_at=after), replace=True)
            except Unavailable:
                assert nothing_is_half_there(to, whole)
                publish(source, to, replace=True)
                assert digests(Path(to.location)) == digests(source)
            else:
                assert after >= 1 + 3 + 1, "the index goes, three shards change, the index comes"
                return
        pytest.fail("it never ended")

    def test_an_order_with_the_index_first_would_be_seen(self, tmp_path):
        source, to = model(tmp_path / "from"), Folder(tmp_path / "to")
        to.put(INDEX, source / INDEX)
        assert not nothing_is_half_there(to, [digests(source)])


class TestWhatIsThereAlready:
    def test_the_same_files_stay_untouched(self, tmp_path):
        source, to = model(tmp_path / "from"), MortalPlace(Folder(tmp_path / "to"))
        publish(source, to)
        to.done.clear()
        assert publish(source, to) == read_files(source)
        assert to.done == []

    def test_other_files_are_refused_by_name_and_nothing_is_changed(self, tmp_path):
        to = MortalPlace(Folder(model(tmp_path / "to", moved=0.5)))
        before = digests(tmp_path / "to")
        with pytest.raises(Refused, match=f"holds other files already: .*{ONE}") as caught:
            publish(model(tmp_path / "from"), to)
        assert caught.value.reason == "CONDITION_FAILED"
        assert (to.done, digests(tmp_path / "to")) == ([], before)

    def test_many_other_files_are_counted(self, tmp_path):
        for number in range(9):
            Folder(tmp_path / "to").put(f"{number}.txt", b"")
        with pytest.raises(Refused, match=r"4\.txt and 4 more$"):
            publish(model(tmp_path / "from"), Folder(tmp_path / "to"))

    def test_replaced_files_that_the_new_export_does_not_have_are_gone(self, tmp_path):
        old = model(tmp_path / "to", max_shard_bytes=10)
        (old / "pytorch_model.bin.index.json").write_text("{}")
        source = model(tmp_path / "from")
        publish(source, Folder(old), replace=True)
        assert digests(old) == digests(source)

    def test_an_index_that_stays_the_same_is_not_visible_while_a_shard_is_put(self, tmp_path):
        source = model(tmp_path / "from")
        there = Folder(tmp_path / "to")
        publish(source, there)
        there.delete(TWO)
        to = MortalPlace(there)
        publish(source, to)
        assert to.done == [("delete", INDEX), ("put", TWO), ("put", INDEX)]


class TestWhatCannotBePublished:
    def refused(self, folder: Path, tmp_path: Path) -> str:
        with pytest.raises(InvalidInput) as caught:
            publish(folder, Folder(tmp_path / "to"))
        assert not (tmp_path / "to").exists()
        assert caught.value.remedy
        return caught.value.message

    def test_an_index_whose_shards_are_not_all_there_is_no_whole_model(self, tmp_path):
        source = model(tmp_path / "from")
        (source / TWO).unlink()
        assert f"its index names {TWO}, which is not there" in self.refused(source, tmp_path)

    @pytest.mark.parametrize("index", ["{", "[]", "{}", '{"weight_map": 3}', "[" * 100_000])
    def test_an_index_that_cannot_be_read_is_told(self, tmp_path, index):
        source = model(tmp_path / "from")
        (source / INDEX).write_text(index)
        assert "its index cannot be read" in self.refused(source, tmp_path)

    def test_shards_without_an_index_are_no_model(self, tmp_path):
        source = model(tmp_path / "from")
        (source / INDEX).unlink()
        assert "neither" in self.refused(source, tmp_path)

    def test_a_folder_within_it_is_told_by_name(self, tmp_path):
        source = model(tmp_path / "from")
        (source / "sharded").mkdir()
        assert "it holds the folder sharded" in self.refused(source, tmp_path)

    def test_a_link_out_of_it_is_not_published(self, tmp_path):
        source = model(tmp_path / "from")
        (tmp_path / "secret").write_text("secret")
        (source / "notes").symlink_to(tmp_path / "secret")
        assert "a link out of its folder" in self.refused(source, tmp_path)

    def test_a_folder_that_is_not_there_is_told(self, tmp_path):
        assert "cannot be published" in self.refused(tmp_path / "nowhere", tmp_path)

    def test_the_index_names_shards_in_json_that_everyone_reads(self, tmp_path):
        assert set(json.loads((model(tmp_path) / INDEX).read_bytes())["weight_map"].values()) >= {ONE, TWO}
