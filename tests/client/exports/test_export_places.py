"""A folder and an object store behave alike, and neither lets a name lead elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path
from uuid import uuid4

import fsspec
import pytest
from fsspec.spec import AbstractFileSystem

from ledger.client.exports.places import Folder, Place, place
from ledger.core.errors import InvalidInput, LedgerError, NotFound, Unavailable


@pytest.fixture(params=["folder", "memory", "s3"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        return place(tmp_path / "to" / "here")
    url = "memory://exports" if request.param == "memory" else request.getfixturevalue("s3")
    return place(f"{url}/{uuid4().hex}/here")


class TestAnyPlace:
    def test_one_that_is_not_there_yet_is_empty(self, anywhere):
        assert anywhere.names() == []

    def test_what_was_put_is_listed_in_order_and_read_back(self, anywhere, tmp_path):
        (tmp_path / "source").write_bytes(b"from a file")
        anywhere.put("b.bin", tmp_path / "source")
        anywhere.put("a.bin", b"from memory")
        assert anywhere.names() == ["a.bin", "b.bin"]
        assert (anywhere.size("b.bin"), b"".join(anywhere.chunks("b.bin"))) == (11, b"from a file")
        assert anywhere.read("a.bin") == b"from memory"

    def test_a_range_ends_where_the_file_ends(self, anywhere):
        anywhere.put("a", b"0123456789")
        assert [anywhere.read("a", *r) for r in ((2, 5), (8, 99), (8, None), (10, 12), (50, 60), (4, 4))] == [
            b"234",
            b"89",
            b"89",
            b"",
            b"",
            b"",
        ]

    def test_a_file_that_is_put_again_is_replaced(self, anywhere):
        anywhere.put("a", b"longer before")
        assert anywhere.size("a") == 13
        anywhere.put("a", b"now")
        assert (anywhere.size("a"), anywhere.read("a", 0, 99), anywhere.names()) == (3, b"now", ["a"])

    def test_an_empty_file_is_a_file(self, anywhere):
        anywhere.put("empty", b"")
        assert (anywhere.size("empty"), anywhere.read("empty"), list(anywhere.chunks("empty"))) == (0, b"", [])
        assert anywhere.read("empty", 0, 8) == b""

    def test_a_file_that_is_deleted_is_gone_and_may_be_deleted_again(self, anywhere):
        anywhere.put("a", b"1")
        anywhere.delete("a")
        anywhere.delete("a")
        assert anywhere.names() == []
        with pytest.raises(NotFound):
            anywhere.read("a")

    def test_a_file_that_is_not_there_is_told_with_its_place(self, anywhere):
        for ask in (anywhere.size, anywhere.read, lambda name: list(anywhere.chunks(name))):
            with pytest.raises(NotFound) as caught:
                ask("nowhere.bin")
            assert "nowhere.bin" in caught.value.message
            assert caught.value.remedy

    @pytest.mark.parametrize(
        "name", ["../out", "a/b", "/etc/passwd", "..", ".", "", "a\\b", "nul\0", "x" * 256, "\udcff"]
    )
    def test_a_name_that_leads_elsewhere_is_refused_by_every_call(self, anywhere, name):
        calls = (
            anywhere.size,
            anywhere.read,
            lambda n: list(anywhere.chunks(n)),
            lambda n: anywhere.put(n, b"1"),
            anywhere.delete,
        )
        for call in calls:
            with pytest.raises(InvalidInput, match="is no name of a file"):
                call(name)

    def test_files_below_a_folder_are_not_listed(self, anywhere, tmp_path):
        anywhere.put("a", b"1")
        if isinstance(anywhere, Folder):
            (Path(anywhere.location) / "below").mkdir()
            (Path(anywhere.location) / "below" / "b").write_bytes(b"2")
        else:
            place(f"{anywhere.location}/below").put("b", b"2")
        assert anywhere.names() == ["a"]


class TestAFolder:
    def test_a_link_out_of_it_is_listed_and_not_followed(self, tmp_path):
        (tmp_path / "secret").write_text("secret")
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "config.json").symlink_to(tmp_path / "secret")
        folder = Folder(tmp_path / "in")
        assert folder.names() == ["config.json"]
        for ask in (folder.size, folder.read, lambda name: list(folder.chunks(name))):
            with pytest.raises(InvalidInput, match="a link out of its folder"):
                ask("config.json")

    def test_a_link_within_it_is_read(self, tmp_path):
        (tmp_path / "a").write_text("1")
        (tmp_path / "b").symlink_to("a")
        assert Folder(tmp_path).read("b") == b"1"

    def test_a_snapshot_in_a_cache_of_a_hub_is_read_through_its_links_to_the_blobs_of_that_model_alone(self, tmp_path):
        snapshot = tmp_path / "models--a--b" / "snapshots" / "c0ffee"
        snapshot.mkdir(parents=True)
        for model, name in (("models--a--b", "config.json"), ("models--other", "elsewhere.json")):
            (tmp_path / model / "blobs").mkdir(parents=True)
            (tmp_path / model / "blobs" / "d1ge57").write_text(model)
            (snapshot / name).symlink_to(f"../../../{model}/blobs/d1ge57")
        assert Folder(snapshot).read("config.json") == b"models--a--b"
        with pytest.raises(InvalidInput, match="a link out of its folder"):
            Folder(snapshot).read("elsewhere.json")

    def test_links_in_a_circle_are_told(self, tmp_path):
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(InvalidInput):
            Folder(tmp_path).read("a")

    def test_what_is_put_where_a_link_stands_replaces_the_link_and_not_its_target(self, tmp_path):
        (tmp_path / "target").write_text("kept")
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "a").symlink_to(tmp_path / "target")
        Folder(tmp_path / "in").put("a", b"new")
        assert ((tmp_path / "target").read_text(), (tmp_path / "in" / "a").read_text()) == ("kept", "new")

    def test_a_source_that_cannot_be_read_leaves_nothing_behind(self, tmp_path):
        with pytest.raises(NotFound):
            Folder(tmp_path / "to").put("a", tmp_path / "nowhere")
        assert list((tmp_path / "to").iterdir()) == []

    def test_a_file_in_the_place_of_the_folder_is_told(self, tmp_path):
        (tmp_path / "a").write_text("1")
        with pytest.raises(InvalidInput, match="cannot be read"):
            Folder(tmp_path / "a").names()
        with pytest.raises(InvalidInput, match="cannot be written"):
            Folder(tmp_path / "a").put("b", b"1")
        with pytest.raises(InvalidInput, match="cannot be written"):
            Folder(tmp_path / "a").delete("b")

    def test_a_url_of_a_file_is_a_folder(self, tmp_path):
        place(f"file://{tmp_path}").put("a", b"1")
        assert (tmp_path / "a").read_bytes() == b"1"


class TestAStore:
    def test_a_bucket_that_is_not_there_is_told(self, s3):
        nowhere = place("s3://no-such-bucket/model")
        with pytest.raises(NotFound, match="no bucket no-such-bucket"):
            nowhere.names()
        with pytest.raises(NotFound, match="no-such-bucket"):
            nowhere.put("a", b"1")

    def test_without_credentials_the_remedy_is_to_set_them(self, s3, monkeypatch):
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        with pytest.raises(LedgerError, match="needs credentials") as caught:
            place(f"{s3}/model").names()
        assert caught.value.reason == "NOT_PERMITTED"
        assert "AWS_ACCESS_KEY_ID" in caught.value.remedy

    def test_a_store_that_does_not_answer_is_unavailable_and_no_secret_is_told(self, s3, monkeypatch):
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        with pytest.raises(Unavailable) as caught:
            place(f"{s3}/model").put("a", b"1")
        assert "a-secret-of-somebody" not in str(caught.value.to_dict())

    @pytest.mark.parametrize(
        ("error", "reason"),
        [
            (PermissionError("Access Denied"), "NOT_PERMITTED"),
            (TimeoutError("too slow"), "UNAVAILABLE"),
            (RuntimeError("refused hf_abcdefghijklmnopqrstuvwxyz0123"), "UNAVAILABLE"),
            (FileNotFoundError("gone"), "NOT_FOUND"),
        ],
    )
    def test_whatever_its_package_raises_is_one_of_our_errors_with_the_place_and_without_secrets(self, error, reason):
        class Faulty(AbstractFileSystem):
            protocol = "faulty"

            def cat_file(self, path, start=None, end=None, **kwargs):
                raise error

            def info(self, path, **kwargs):
                return {"name": path, "size": 9, "type": "file"}

        fsspec.register_implementation("faulty", Faulty, clobber=True)
        there = place("faulty://bucket/model")
        for ask in (there.read, lambda name: there.read(name, 2, 4), lambda name: list(there.chunks(name))):
            with pytest.raises(LedgerError) as caught:
                ask("config.json")
            assert (caught.value.reason, bool(caught.value.remedy)) == (reason, True)
            assert "faulty://bucket/model/config.json" in caught.value.message
            assert "hf_abcdef" not in caught.value.message

    @pytest.mark.parametrize("url", ["s3://key:secret@bucket/a", "https://host/a?X-Amz-Signature=secret"])
    def test_a_url_that_holds_a_secret_is_refused_without_telling_it(self, url):
        with pytest.raises(InvalidInput, match="holds credentials or a query") as caught:
            place(url)
        assert "secret" not in caught.value.message

    def test_a_kind_of_store_that_there_is_not_is_a_fault_of_usage(self):
        with pytest.raises(InvalidInput, match="cannot be opened") as caught:
            place("nosuch://a/b")
        assert caught.value.reason == "USAGE"

    @pytest.mark.parametrize(
        ("url", "module", "words"),
        [
            ("s3://b/a", "s3fs", "atlas-ledger[objects]"),
            ("gs://b/a", "gcsfs", "pip install gcsfs"),
            ("s3://b/a", "fsspec.core", "atlas-ledger[objects]"),
        ],
    )
    def test_a_store_whose_package_is_missing_says_which(self, monkeypatch, url, module, words):
        place("memory://first")
        monkeypatch.setitem(sys.modules, module, None)
        # What was opened before is remembered there. The module by its name: the package has a value of the same name.
        monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, url.partition(":")[0], raising=False)
        with pytest.raises(LedgerError) as caught:
            place(url)
        assert caught.value.reason == "EXTRA_MISSING"
        assert words in caught.value.remedy
