"""The checks of an export: each fault is found by its check, with the tensor and the file, and nothing is read for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from ledger.client.exports.checks import REQUIRED, check_export
from ledger.client.exports.headers import read_shard
from ledger.client.exports.indexes import INDEX, SINGLE
from ledger.client.exports.places import Folder, place
from ledger.client.exports.publishing import publish
from ledger.client.recording.files import read_files
from ledger.core.errors import InvalidInput, Unavailable
from tests.client.exports.counting import CountingPlace
from tests.client.exports.judging import ALL, check_of, first_failed, outcomes
from tests.client.exports.models import (
    K0,
    ONE,
    Q0,
    THREE,
    TWO,
    base,
    cut,
    edit_header,
    edit_index,
    flip,
    header,
    lengthen,
    link_away,
    model,
)


class TestAWholeExport:
    def test_all_nine_pass_with_a_base_and_recorded_files(self, tmp_path):
        folder = model(tmp_path / "e")
        checked = check_export(Folder(folder), base=base(tmp_path / "b"), files=read_files(folder).files)
        assert outcomes(checked) == dict.fromkeys(ALL, "passed")
        assert (checked.is_verified, checked.why_not) == (True, "")

    def test_what_needs_what_is_not_here_is_not_checked_and_says_why(self, tmp_path):
        checked = check_export(Folder(model(tmp_path)))
        left = {c.name: c.detail for c in checked.checks if c.outcome == "not_checked"}
        assert left == {
            "base_tensors": "the base model is not here; weights tied, lm_head.weight left out",
            "file_digests": "no recorded files to compare with",
            "differs_from_base": "the base model is not here",
        }
        assert checked.is_verified

    def test_only_the_headers_the_index_and_the_configurations_are_read(self, tmp_path):
        folder = model(tmp_path, {"a": (60, 1_000), "b": (70, 1_000)}, max_shard_bytes=130_000)
        place = CountingPlace(Folder(folder))
        check_export(place)
        data = {name: read_shard(folder / name).data_begin for name in place.names() if name.endswith(".safetensors")}
        assert len(data) == 2
        assert all(end <= data[name] for name, _, end in place.ranges if name in data)
        others = sum((folder / n).stat().st_size for n in (INDEX, "config.json", "generation_config.json"))
        assert sum(place.read_bytes.values()) == sum(data.values()) + others < 260_000 / 100

    def test_with_a_base_no_more_is_read_than_samples_and_the_first_difference(self, tmp_path):
        shapes = {f"layer.{i}": (50, 500) for i in range(4)}
        place = CountingPlace(Folder(model(tmp_path / "e", shapes, max_shard_bytes=50_000)))
        checked = check_export(place, base=base(tmp_path / "b", shapes=shapes, max_shard_bytes=50_000))
        assert outcomes(checked)["differs_from_base"] == "passed"
        first, samples, small_files = 50_000, 4 * 2_048, 3_000
        assert sum(place.read_bytes.values()) < first + samples + small_files < 4 * 50_000

    def test_the_numbers_and_what_follows_from_them_are_shown(self, tmp_path):
        checked = check_export(Folder(model(tmp_path)))
        assert (len(checked.shards), checked.tensor_count, checked.parameter_count) == (3, 5, 512 + 3 * 256 + 16)
        assert (checked.dtypes, checked.size_label, checked.tied_weights) == (["BF16"], "1K", True)
        assert check_of(checked, "parameter_count").detail == "1,296 parameters: 1K"
        assert checked.numbers is not None
        assert checked.numbers.tensor_bytes == checked.numbers.index_total_size == 2 * 1_296

    def test_how_it_generates_is_shown_by_the_keys_that_move_scores(self, tmp_path):
        folder = model(tmp_path)
        generation = check_export(Folder(folder)).generation
        assert generation is not None
        assert generation.sampling == {"do_sample": True, "temperature": 0.6, "top_k": 20}
        assert generation.sha256 in {f.sha256 for f in read_files(folder).files}

    def test_without_configurations_nothing_is_claimed_of_them(self, tmp_path):
        folder = model(tmp_path)
        (folder / "generation_config.json").unlink()
        (folder / "config.json").write_text("{")
        checked = check_export(Folder(folder))
        assert (checked.generation, checked.tied_weights) == (None, None)


class TestInAnObjectStore:
    @pytest.mark.parametrize("scheme", ["memory", "s3"])
    def test_an_export_is_checked_where_it_lies_beside_a_base_that_lies_there(self, tmp_path, request, scheme):
        url = "memory://checked" if scheme == "memory" else request.getfixturevalue("s3")
        there, begun = place(f"{url}/{uuid4().hex}/e"), place(f"{url}/{uuid4().hex}/b")
        files = publish(model(tmp_path / "e"), there)
        publish(model(tmp_path / "b", moved=0.0), begun)
        assert outcomes(check_export(there, base=begun, files=files.files)) == dict.fromkeys(ALL, "passed")
        there.put(TWO, there.read(TWO)[:-1])
        found = [(c.name, c.file) for c in check_export(there, base=begun, files=files.files).failed]
        assert found == [("not_truncated", TWO), ("file_digests", TWO)]


class TestOneFileWithoutAnIndex:
    def test_it_is_checked_as_far_as_it_goes_and_not_called_verified(self, tmp_path):
        (tmp_path / SINGLE).write_bytes(
            (model(tmp_path / "e", max_shard_bytes=10**6) / ONE.replace("3", "1")).read_bytes()
        )
        checked = check_export(Folder(tmp_path), base=base(tmp_path / "b"))
        assert outcomes(checked) == {
            **dict.fromkeys(ALL[:4], "not_checked"),
            "not_truncated": "passed",
            "base_tensors": "passed",
            "parameter_count": "passed",
            "file_digests": "not_checked",
            "differs_from_base": "passed",
        }
        assert (checked.is_verified, checked.numbers, checked.failed) == (False, None, [])
        assert "one file without an index" in checked.why_not

    def test_one_that_is_cut_off_fails(self, tmp_path):
        (tmp_path / SINGLE).write_bytes((model(tmp_path / "e") / ONE).read_bytes()[:-1])
        assert first_failed(tmp_path) == ("not_truncated", None, SINGLE)


def drop(folder: Path, name: str) -> None:
    (folder / name).unlink()


BAD: dict[str, tuple[Callable[[Path], object], str, str | None, str | None]] = {
    "ghost key": (lambda f: edit_index(f, lambda i: i["weight_map"].update(mtp=TWO)), "weight_map_complete", "mtp", TWO),
    "unlisted tensor": (
        lambda f: edit_index(f, lambda i: i["weight_map"].pop(Q0)), "weight_map_complete", Q0, TWO,
    ),
    "tensor in another file than the index says": (
        lambda f: edit_index(f, lambda i: i["weight_map"].update({Q0: THREE})), "weight_map_complete", Q0, THREE,
    ),
    "truncated shard": (lambda f: cut(f / TWO, 1), "not_truncated", None, TWO),
    "shard cut off in its header": (lambda f: cut(f / TWO, (f / TWO).stat().st_size - 20), "weight_map_complete", K0, TWO),
    "empty shard": (lambda f: (f / TWO).write_bytes(b""), "weight_map_complete", K0, TWO),
    "extra long shard": (lambda f: lengthen(f / TWO), "not_truncated", None, TWO),
    "wrong total_size": (lambda f: edit_index(f, lambda i: i["metadata"].update(total_size=1)), "total_size", None, INDEX),
    "no total_size": (lambda f: edit_index(f, lambda i: i.pop("metadata")), "total_size", None, INDEX),
    "missing shard": (lambda f: drop(f, TWO), "shards_present", None, TWO),
    "shard of an earlier export": (
        lambda f: (f / "model-00004-of-00004.safetensors").write_bytes((f / ONE).read_bytes()),
        "shards_present", None, "model-00004-of-00004.safetensors",
    ),
    "missing index": (lambda f: drop(f, INDEX), "index_parses", None, INDEX),
    "index that names ../x": (
        lambda f: edit_index(f, lambda i: i["weight_map"].update({Q0: "../x"})), "index_parses", None, INDEX,
    ),
    "index of no tensor": (lambda f: edit_index(f, lambda i: i["weight_map"].clear()), "index_parses", None, INDEX),
    "index with a name twice": (
        lambda f: (f / INDEX).write_text(json.dumps({"weight_map": {"a": ONE, "b": ONE}}).replace('"b"', '"a"')),
        "index_parses", None, INDEX,
    ),
    "index that is a link out of the folder": (lambda f: link_away(f, INDEX), "index_parses", None, INDEX),
    "shard that is a link out of the folder": (lambda f: link_away(f, TWO), "weight_map_complete", K0, TWO),
    "header that lies of a shape": (
        lambda f: edit_header(f / TWO, lambda h: h[Q0].update(shape=[16, 17])), "weight_map_complete", K0, TWO,
    ),
    "header that lies of where its data is": (
        lambda f: edit_header(f / TWO, lambda h: h[Q0].update(data_offsets=[8, 520])), "weight_map_complete", K0, TWO,
    ),
    "header with a name twice": (
        lambda f: header(f / TWO, b'{"a": 1, "a": 2}'), "weight_map_complete", K0, TWO,
    ),
    "header of a huge length": (lambda f: header(f / TWO, {}, length=2**62), "weight_map_complete", K0, TWO),
    "header that claims more bytes than a file has": (
        lambda f: header(f / TWO, {n: {"dtype": "U8", "shape": [2**52], "data_offsets": [2**52 * i, 2**52 * (i + 1)]}
                                   for i, n in enumerate((K0,))}),
        "weight_map_complete", Q0, TWO,
    ),
}  # fmt: skip


class TestABadExport:
    @pytest.mark.parametrize("fault", BAD)
    def test_its_fault_is_found_by_its_check_with_the_tensor_and_the_file(self, tmp_path, fault):
        spoil, name, tensor, file = BAD[fault]
        folder = model(tmp_path / "e")
        spoil(folder)
        assert first_failed(folder) == (name, tensor, file)

    @pytest.mark.parametrize("fault", BAD)
    def test_its_fault_is_also_one_of_its_recorded_files(self, tmp_path, fault):
        folder = model(tmp_path / "e")
        files = read_files(folder).files
        BAD[fault][0](folder)
        assert "file_digests" in [c.name for c in check_export(Folder(folder), files=files).failed]

    def test_a_shard_that_cannot_be_read_leaves_its_tensors_uncompared_and_is_named(self, tmp_path):
        folder = model(tmp_path / "e")
        header(folder / TWO, b"[]")
        checked = check_export(Folder(folder), base=base(tmp_path / "b"))
        assert check_of(checked, "not_truncated").file == TWO
        assert check_of(checked, "base_tensors").outcome == "not_checked"

    def test_a_place_with_no_weights_is_no_export(self, tmp_path):
        (tmp_path / "config.json").write_text("{}")
        with pytest.raises(InvalidInput, match="holds no safetensors files"):
            check_export(Folder(tmp_path))

    def test_a_place_that_goes_away_says_nothing_of_the_export(self, tmp_path):
        class Gone(CountingPlace):
            def read(self, name, begin=0, end=None):
                raise Unavailable("the place is gone")

        with pytest.raises(Unavailable):
            check_export(Gone(Folder(model(tmp_path))))


class TestTheRecordedFiles:
    def test_a_byte_that_changed_is_found_in_its_file(self, tmp_path):
        folder = model(tmp_path)
        files = read_files(folder).files
        flip(folder / TWO)
        assert first_failed(folder, files=files) == ("file_digests", None, TWO)

    def test_a_missing_and_an_extra_file_are_named(self, tmp_path):
        folder = model(tmp_path)
        files = read_files(folder).files
        (folder / "tokenizer.json").rename(folder / "notes.txt")
        assert first_failed(folder, files=files) == ("file_digests", None, "tokenizer.json")
        (folder / "tokenizer.json").write_text("{}")
        assert first_failed(folder, files=files) == ("file_digests", None, "notes.txt")

    def test_a_file_of_which_only_the_size_was_recorded_is_compared_by_it(self, tmp_path):
        folder = model(tmp_path)
        files = [f.model_copy(update={"sha256": None}) for f in read_files(folder).files]
        assert check_export(Folder(folder), files=files).is_verified
        (folder / "tokenizer.json").write_text("{ }")
        assert first_failed(folder, files=files) == ("file_digests", None, "tokenizer.json")

    def test_each_file_is_read_whole_only_with_them(self, tmp_path):
        folder = model(tmp_path)
        place = CountingPlace(Folder(folder))
        check_export(place, files=read_files(folder).files)
        assert all(place.read_bytes[p.name] >= p.stat().st_size for p in folder.iterdir())


def test_the_required_checks_are_those_of_the_rules():
    from ledger.rules.training_1.verifying import REQUIRED as OF_THE_RULES  # noqa: PLC0415  # the name is the same

    assert set(REQUIRED) == OF_THE_RULES
    assert set(ALL) > set(REQUIRED)


@pytest.mark.parametrize(
    ("parameters", "label"),
    [
        (7, "7"),
        (181_000, "181K"),
        (134_515_008, "135M"),
        (1_543_714_304, "1.5B"),
        (8_190_735_360, "8B"),
        (30_532_122_624, "30B"),
    ],
)
def test_the_size_is_named_as_models_are(tmp_path, parameters, label):
    folder = tmp_path
    header(folder / SINGLE, {"a": {"dtype": "U8", "shape": [parameters], "data_offsets": [0, parameters]}})
    assert check_export(Folder(folder)).size_label == label


def test_a_mixture_is_named_by_what_one_token_passes_through_too(tmp_path):
    shapes = {"dense": 2_000_000_000, **{f"layers.0.mlp.experts.{i}.w": 500_000_000 for i in range(8)}}
    at, said = 0, {}
    for name, size in shapes.items():
        said[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    header(tmp_path / SINGLE, said)
    (tmp_path / "config.json").write_text(json.dumps({"num_experts": 8, "num_experts_per_tok": 2}))
    assert check_export(Folder(tmp_path)).size_label == "6B-A3B"
