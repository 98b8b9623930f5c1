"""An export beside the model that training began with, and names that were exchanged."""

from __future__ import annotations

import struct

import pytest

from ledger.client.exports import samples
from ledger.client.exports.checks import check_export
from ledger.client.exports.headers import read_shard
from ledger.client.exports.indexes import INDEX, SINGLE
from ledger.client.exports.places import Folder
from ledger.client.exports.weights import read_weights
from ledger.client.recording.files import read_files
from ledger.core.errors import InvalidInput
from tests.client.exports.judging import check_of, first_failed, outcomes
from tests.client.exports.models import (
    EMBEDDINGS,
    K0,
    NORM,
    ONE,
    Q0,
    SHAPES,
    THREE,
    TWO,
    base,
    exchange,
    flip,
    header,
    model,
)

HEADS = {**SHAPES, "lm_head.weight": SHAPES[EMBEDDINGS]}


class TestBesideTheBase:
    def test_another_shape_is_told_with_both(self, tmp_path):
        folder = model(tmp_path / "e", {**SHAPES, Q0: (16, 8)})
        found = check_export(Folder(folder), base=base(tmp_path / "b")).failed
        assert [(c.name, c.tensor, c.file) for c in found] == [("base_tensors", Q0, TWO)]
        assert "this one is [16, 8], and there [16, 16]" in (found[0].detail or "")

    def test_a_tensor_too_few_and_one_too_many_are_named(self, tmp_path):
        few = {n: s for n, s in SHAPES.items() if n != NORM}
        assert first_failed(model(tmp_path / "e", few), base=base(tmp_path / "b")) == ("base_tensors", NORM, INDEX)
        name, tensor, file = first_failed(model(tmp_path / "m", {**SHAPES, "mtp": (2,)}), base=base(tmp_path / "b2"))
        assert (name, tensor, file) == ("base_tensors", "mtp", THREE)

    def test_a_tensor_that_one_file_lacks_is_told_with_that_file(self, tmp_path):
        few = {n: s for n, s in SHAPES.items() if n != NORM}
        (whole,) = model(tmp_path / "e", few, max_shard_bytes=10**6).glob("*.safetensors")
        (tmp_path / "one").mkdir()
        whole.rename(tmp_path / "one" / SINGLE)
        assert first_failed(tmp_path / "one", base=base(tmp_path / "b")) == ("base_tensors", NORM, SINGLE)

    def test_another_type_than_the_bases_is_a_fault_unless_it_is_expected(self, tmp_path):
        folder, there = model(tmp_path / "e", dtype="F32", max_shard_bytes=2_048), base(tmp_path / "b")
        assert first_failed(folder, base=there) == ("base_tensors", EMBEDDINGS, ONE)
        checked = check_export(Folder(folder), base=there, dtypes=["F32"])
        assert outcomes(checked)["base_tensors"] == "passed"
        assert outcomes(checked)["differs_from_base"] == "not_checked"

    def test_a_type_that_is_not_expected_is_a_fault_without_a_base_too(self, tmp_path):
        folder = model(tmp_path)
        assert first_failed(folder, dtypes=["F32", "F16"]) == ("base_tensors", EMBEDDINGS, ONE)
        assert outcomes(check_export(Folder(folder), dtypes=["BF16"]))["base_tensors"] == "not_checked"

    def test_one_that_is_equal_everywhere_was_not_trained(self, tmp_path):
        folder = model(tmp_path / "e", moved=0.0)
        checked = check_export(Folder(folder), base=base(tmp_path / "b"))
        assert [c.name for c in checked.failed] == ["differs_from_base"]
        assert "all 5 tensors are equal to the base's" in (checked.failed[0].detail or "")

    def test_one_byte_of_difference_is_enough(self, tmp_path):
        folder = model(tmp_path / "e", moved=0.0)
        flip(folder / THREE)
        checked = check_export(Folder(folder), base=base(tmp_path / "b"))
        assert outcomes(checked)["differs_from_base"] == "passed"
        assert check_of(checked, "differs_from_base").detail == f"{NORM} differs, after 4 tensors that did not"

    def test_shards_that_are_dealt_otherwise_are_told_and_are_no_fault(self, tmp_path):
        same = check_export(Folder(model(tmp_path / "e")), base=base(tmp_path / "b"))
        assert "in 3 files of the base's names" in (check_of(same, "base_tensors").detail or "")
        other = check_export(Folder(model(tmp_path / "f", max_shard_bytes=10**6)), base=base(tmp_path / "c"))
        assert "in 1 file, the base in 3 of other names" in (check_of(other, "base_tensors").detail or "")
        assert outcomes(other)["base_tensors"] == "passed"

    def test_a_base_that_cannot_be_read_is_raised(self, tmp_path):
        there = base(tmp_path / "b")
        header(tmp_path / "b" / ONE, b"[]")
        with pytest.raises(InvalidInput, match="the base cannot be compared with"):
            check_export(Folder(model(tmp_path / "e")), base=there)
        with pytest.raises(InvalidInput, match="holds no safetensors files"):
            check_export(Folder(tmp_path / "e"), base=Folder(tmp_path / "nowhere"))


class TestTiedWeights:
    def test_an_output_layer_that_is_left_out_is_no_missing_tensor(self, tmp_path):
        checked = check_export(Folder(model(tmp_path / "e")), base=base(tmp_path / "b", shapes=HEADS))
        assert outcomes(checked)["base_tensors"] == "passed"
        assert "weights tied, lm_head.weight left out" in (check_of(checked, "base_tensors").detail or "")

    @pytest.mark.parametrize("config", [{}, {"tie_word_embeddings": False}])
    def test_unless_the_configuration_does_not_say_that_they_are_tied(self, tmp_path, config):
        folder = model(tmp_path / "e", config=config)
        there = base(tmp_path / "b", shapes=HEADS, config=config)
        found = first_failed(folder, base=there)
        assert found == ("base_tensors", "lm_head.weight", INDEX)
        assert "does not say that the weights are tied" in check_export(Folder(folder), base=there).why_not

    def test_a_base_that_is_not_tied_has_an_output_layer_that_must_be_here(self, tmp_path):
        there = base(tmp_path / "b", shapes=HEADS, config={"tie_word_embeddings": False})
        assert first_failed(model(tmp_path / "e"), base=there)[1] == "lm_head.weight"

    def test_an_output_layer_that_is_there_must_equal_the_embeddings(self, tmp_path):
        folder = model(tmp_path, HEADS, max_shard_bytes=10**6)
        (name,) = (p.name for p in folder.glob("*.safetensors"))
        assert first_failed(folder) == ("base_tensors", "lm_head.weight", name)
        held = {t.name: t for t in read_shard(folder / name).tensors}
        head, embeddings = held["lm_head.weight"], held[EMBEDDINGS]
        data, at = bytearray((folder / name).read_bytes()), read_shard(folder / name).data_begin
        data[at + head.begin : at + head.end] = data[at + embeddings.begin : at + embeddings.end]
        (folder / name).write_bytes(data)
        checked = check_export(Folder(folder))
        assert "equal to the embeddings" in (check_of(checked, "base_tensors").detail or "")
        assert checked.is_verified

    def test_what_a_model_of_several_parts_says_of_its_text_counts(self, tmp_path):
        folder = model(tmp_path, config={"text_config": {"tie_word_embeddings": True}})
        assert check_export(Folder(folder)).tied_weights is True


class TestExchangedNames:
    def test_of_different_shapes_are_told_by_the_shape(self, tmp_path):
        folder = model(tmp_path / "e")
        exchange(folder, EMBEDDINGS, Q0)
        assert first_failed(folder, base=base(tmp_path / "b")) == ("base_tensors", Q0, ONE)

    @pytest.mark.parametrize("other", [K0, "model.layers.1.q_proj.weight"])
    def test_of_one_shape_are_told_by_samples_that_name_both(self, tmp_path, other):
        folder = model(tmp_path / "e")
        exchange(folder, Q0, other)
        found = check_export(Folder(folder), base=base(tmp_path / "b")).failed
        assert [c.name for c in found] == ["base_tensors"]
        assert {found[0].tensor, *(n for n in (Q0, other) if n in (found[0].detail or ""))} == {Q0, other}
        assert "comparison of samples" in (found[0].detail or "")

    def test_of_one_shape_without_a_base_are_told_by_recorded_digests_alone(self, tmp_path):
        folder = model(tmp_path / "e")
        files = read_files(folder).files
        exchange(folder, Q0, K0)
        assert check_export(Folder(folder)).failed == []
        assert [c.name for c in check_export(Folder(folder), files=files).failed] == ["file_digests"]

    def test_in_a_circle_are_told_too(self, tmp_path):
        folder = model(tmp_path / "e")
        exchange(folder, Q0, K0)
        exchange(folder, K0, "model.layers.1.q_proj.weight")
        detail = check_export(Folder(folder), base=base(tmp_path / "b")).failed[0].detail
        assert (detail or "").startswith("3 tensors with another's name")

    @pytest.mark.parametrize("moved", [0.001, 0.2, 3.0])
    def test_are_not_seen_where_training_went_however_far(self, tmp_path, moved):
        folder = model(tmp_path / "e", moved=moved, dtype="F32")
        checked = check_export(Folder(folder), base=base(tmp_path / "b", dtype="F32"))
        assert checked.failed == []
        assert "names compared by samples of 3 tensors" in (check_of(checked, "base_tensors").detail or "")

    @pytest.mark.parametrize(
        ("limit", "words"),
        [({"most_tensors": 2}, "3 tensors are too many"), ({"most_pairs": 2}, "too many tensors moved")],
    )
    def test_are_not_looked_for_among_too_many_tensors_and_that_is_said(self, tmp_path, limit, words):
        places = [Folder(model(tmp_path / "e", moved=0.5)), base(tmp_path / "b")]
        weights = [read_weights(place, place.names()) for place in places]
        assert samples.compare(*weights, SHAPES).told.startswith("names compared by samples of 3 tensors")
        compared = samples.compare(*weights, SHAPES, **limit)
        assert compared.exchanged == ()
        assert words in compared.told

    def test_are_not_looked_for_where_no_two_tensors_have_a_shape_in_common(self, tmp_path):
        shapes = {EMBEDDINGS: (32, 16), NORM: (16,)}
        checked = check_export(Folder(model(tmp_path / "e", shapes)), base=base(tmp_path / "b", shapes=shapes))
        assert "no two tensors have a shape in common" in (check_of(checked, "base_tensors").detail or "")

    def test_numbers_that_are_none_are_left_out_of_the_comparison(self, tmp_path):
        folder = model(tmp_path / "e")
        shard = read_shard(folder / TWO)
        at = shard.data_begin + next(t.begin for t in shard.tensors if t.name == Q0)
        data = bytearray((folder / TWO).read_bytes())
        data[at : at + 2] = b"\xc0\x7f"
        (folder / TWO).write_bytes(data)
        checked = check_export(Folder(folder), base=base(tmp_path / "b"))
        assert "names compared by samples of 2 tensors" in (check_of(checked, "base_tensors").detail or "")


@pytest.mark.parametrize(("dtype", "form"), [("F16", "e"), ("F32", "f"), ("F64", "d")])
def test_elements_are_read_as_the_numbers_that_they_are(dtype, form):
    assert samples.numbers(dtype, struct.pack(f"<3{form}", 1.5, -2.0, 0.25)) == (1.5, -2.0, 0.25)
    assert samples.numbers("BF16", b"\xc0\x3f\x00\xc0\x80\x3e") == (1.5, -2.0, 0.25)
    assert samples.numbers("I32", bytes(4)) is None
