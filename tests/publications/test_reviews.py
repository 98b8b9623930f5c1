"""What a review run must hold, and the publication that it makes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger.client import actor
from ledger.client.drafts import Publication
from ledger.client.reviews import MAX_CITED, ReviewRun, plan_review, read_review
from ledger.core.errors import InvalidInput
from ledger.core.ids import ids_digest, sha256_hex
from ledger.events import REGISTRY
from tests.publications.review_builder import (
    EXECUTED,
    INSPECTED,
    SUPPLEMENTAL_MODEL,
    SVAMP,
    SVAMP_DATASET,
    SVAMP_REPOSITORY,
    build_review,
    edit_review,
    issue,
    resolved_issue,
    source_subject_id,
    write,
)
from tests.support.privileges import readable_by_all, without_privileges

VECTORS = Path(__file__).parent.parent / "vectors" / "reviews" / "bad"
VERIFIER = "df8a448d1da5555074424daa064ed61103c141a6"


def plan(run: ReviewRun, **more: Any) -> Publication:
    arguments = {"verifier_revision": VERIFIER, "verifier_revision_basis": "catalogue", **more}
    return plan_review(run, by=actor("curator-1", "human"), **arguments)


def closing(publication: Publication) -> dict[str, Any]:
    assert publication.closing is not None
    return json.loads(publication.closing.payload)


class TestRefusals:
    @pytest.mark.parametrize("name", sorted(p.stem for p in VECTORS.iterdir()))
    def test_a_bad_run_is_refused_with_every_fault_and_its_place(self, name: str, tmp_path: Path) -> None:
        vector = json.loads((VECTORS / f"{name}.json").read_text())
        run = spoilt(tmp_path, vector)
        document = run / "quality-reviews.json"

        with pytest.raises(InvalidInput) as refused:
            read_review(run, atlas_id=vector.get("atlas_id", SVAMP))

        places = {str(document) if at is None else f"{document}#{at}" for at in vector["refused_at"]}
        assert places == {p.place for p in refused.value.problems}
        assert any(vector["says"] in p.message for p in refused.value.problems)
        assert refused.value.reason == "INVALID_FILE"
        assert refused.value.remedy

    def test_an_unspoilt_run_is_taken(self, tmp_path: Path) -> None:
        """The vectors are all made from this one, so each is refused for what it spoils."""
        assert read_review(spoilt(tmp_path, {"patch": []}), atlas_id=SVAMP).source_id == SVAMP

    def test_a_directory_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="1 problem") as refused:
            read_review(tmp_path / "absent")
        assert "there is no file" in refused.value.problems[0].message
        assert "folder" in refused.value.remedy

    def test_a_review_too_large_for_an_event_is_refused_with_its_place(self, tmp_path: Path) -> None:
        long = {f"segment-{i}": "x" * 100_000 for i in range(11)}
        run = read_review(
            edit_review(build_review(tmp_path, tasks=1), lambda d: d["reviews"][2]["attributes"].update(long))
        )

        with pytest.raises(InvalidInput) as refused:
            plan(run)

        assert refused.value.reason == "TOO_LARGE"
        assert [p.place for p in refused.value.problems] == [f"{run.path}#/reviews/2"]


class TestUnreadableFiles:
    @pytest.mark.parametrize(("name", "place"), [("coalescer/parsed.json", "/snapshot_path"), ("run.json", "#")])
    def test_a_file_that_is_there_and_cannot_be_read_is_one_problem_among_the_others(
        self, name: str, place: str
    ) -> None:
        with readable_by_all() as folder:
            built = edit_review(build_review(folder / "run", tasks=1), lambda d: d.update(schema_version="9"))
            (built / name).chmod(0)

            with without_privileges(), pytest.raises(InvalidInput) as caught:
                read_review(built)

        problems = caught.value.problems
        unread = [p.place for p in problems if f"{name} cannot be read: Permission denied" in p.message]
        assert [p for p in unread if p.endswith(place)]
        assert [p for p in problems if p.place.endswith("#/schema_version")]


class TestTheBuilder:
    def test_the_source_s_subject_id_is_the_atlas_one(self) -> None:
        assert source_subject_id(SVAMP_REPOSITORY, SVAMP_DATASET, SVAMP) == "source:43257c94dc5b8438e16e"

    @pytest.mark.parametrize("tasks", [1, 3])
    def test_n_tasks_give_5n_and_1_reviews(self, tmp_path: Path, tasks: int) -> None:
        assert len(read_review(build_review(tmp_path, tasks=tasks)).collection.reviews) == 5 * tasks + 1

    def test_equal_arguments_give_equal_bytes(self, tmp_path: Path) -> None:
        one, other = (build_review(tmp_path / name, tags=[("license", "mit")]) for name in ("one", "other"))

        assert read_review(one).review == read_review(other).review
        assert read_review(build_review(tmp_path / "third", summary="Otherwise.")).review != read_review(one).review

    def test_every_option_gives_a_sound_run(self, tmp_path: Path) -> None:
        built = build_review(
            tmp_path,
            tasks=2,
            verdict="reject",
            judge_verdicts=("reject", "reject", "keep"),
            judge_findings=[issue("critical")],
            findings=[issue("high")],
            verification=("verified", "error"),
            supplemental=True,
            resolved_verifier_issues=[resolved_issue("https://example.org/1", "d1", "v1")],
            review_pool_role="verifier_defect",
            inspected_commit=INSPECTED,
            everybody={"id": SUPPLEMENTAL_MODEL, "kind": "model"},
        )

        assert len(plan(read_review(built)).parts) == 11


class TestPublications:
    def test_each_review_and_each_tag_is_a_part_and_the_publication_closes_them(self, tmp_path: Path) -> None:
        publication = plan(read_review(build_review(tmp_path, tasks=1, tags=[("license", "mit")])))

        assert [d.type for d in publication.drafts] == [
            "observation.recorded",
            *["judgment.recorded"] * 3,
            *["synthesis.recorded"] * 2,
            "tag.assigned",
            "review.published",
        ]
        assert {d.stream for d in publication.drafts} == {f"source/{SVAMP}"}
        ids = [d.id for d in publication.parts]
        assert closing(publication)["parts"] == {"count": 7, "digest": ids_digest(ids), "ids": ids}

    def test_inspections_and_reviews_of_unknown_method_are_observations_and_people_judge(self, tmp_path: Path) -> None:
        def change(document: dict[str, Any]) -> None:
            for i, method in ((1, "static_inspection"), (2, "unknown"), (3, "human_judgment")):
                document["reviews"][i]["method"] = method

        publication = plan(read_review(edit_review(build_review(tmp_path, tasks=1), change)))

        assert [(d.type, json.loads(d.payload)["method"]) for d in publication.parts[1:4]] == [
            ("observation.recorded", "static_inspection"),
            ("observation.recorded", "unknown"),
            ("judgment.recorded", "human_judgment"),
        ]

    def test_the_publication_is_named_after_the_document_s_bytes(self, tmp_path: Path) -> None:
        directory = build_review(tmp_path)
        digest = sha256_hex((directory / "quality-reviews.json").read_bytes())

        publication = plan(read_review(directory))

        assert closing(publication)["review"] == digest
        assert closing(publication)["document"]["sha256"] == digest
        assert closing(publication)["collection"] == f"review-{digest[:24]}"
        assert all(f"collection:review-{digest[:24]}" in d.tags for d in publication.drafts)

    def test_the_document_and_all_cited_evidence_are_uploaded_once_each(self, tmp_path: Path) -> None:
        directory = build_review(tmp_path, tasks=2)
        write(directory / "quality-review.schema.json", {"type": "object"})
        write(directory / "artifact-manifest.json", [])
        files = [p for p in directory.rglob("*") if p.is_file()]

        publication = plan(read_review(directory))

        assert sorted(u.sha256 for u in publication.uploads) == sorted({sha256_hex(p.read_bytes()) for p in files})
        assert {a["name"] for a in closing(publication)["artifacts"]} == {
            p.relative_to(directory).as_posix() for p in files if p.name != "quality-reviews.json"
        }

    def test_evidence_beyond_one_payload_is_cited_by_the_parts_alone(self, tmp_path: Path) -> None:
        def change(document: dict[str, Any]) -> None:
            one = document["reviews"][0]["evidence"][0]
            for i in range(MAX_CITED):
                copied = tmp_path / f"more/{i}.jsonl"
                copied.parent.mkdir(exist_ok=True)
                copied.write_bytes((tmp_path / one["snapshot_path"]).read_bytes())
                document["reviews"][i % 5]["evidence"].append({**one, "snapshot_path": f"more/{i}.jsonl"})

        publication = plan(read_review(edit_review(build_review(tmp_path, tasks=1), change)))

        assert [a["name"] for a in closing(publication)["artifacts"]] == ["run.json"]

    def test_evidence_is_cited_by_its_path_under_the_run_and_never_by_where_it_lay(self, tmp_path: Path) -> None:
        publication = plan(read_review(build_review(tmp_path, tasks=1)))

        [evidence] = json.loads(publication.parts[0].payload)["evidence"]
        assert evidence["artifact"]["name"] == "tasks/0000/execution-000/verifier-trace.jsonl"
        assert not any(b"file://" in d.payload for d in publication.drafts)

    def test_evidence_without_a_snapshot_names_no_artifact(self, tmp_path: Path) -> None:
        def change(document: dict[str, Any]) -> None:
            bare = {"url": "https://example.org/audit", "snapshot_path": None, "sha256": None, "retrieved_at": None}
            document["reviews"][0]["evidence"].append({**bare, "locator": None, "artifact_revision": None})

        publication = plan(read_review(edit_review(build_review(tmp_path, tasks=1), change)))

        assert json.loads(publication.parts[0].payload)["evidence"][1]["artifact"] is None

    def test_a_native_result_is_read_by_name_and_the_attributes_are_kept_whole(self, tmp_path: Path) -> None:
        publication = plan(read_review(build_review(tmp_path, tasks=1, score=0.5)))
        run, judge = (json.loads(d.payload) for d in publication.parts[:2])

        assert run["verification"] == {"status": "verified", "score": 0.5, "passed": False}
        assert run["attributes"]["verification"]["diagnostics"] == {}
        assert run["attributes"]["route"] == "skyrl_gym"
        assert "verification" not in judge

    def test_each_part_s_actor_is_who_said_it(self, tmp_path: Path) -> None:
        publication = plan(read_review(build_review(tmp_path, tasks=1, tags=[("license", "mit")])))

        assert [d.actor.id for d in publication.drafts] == [
            "native-verifier",
            *["model:sample/judge"] * 5,
            "review-tooling",
            "curator-1",
        ]

    def test_the_commit_that_ran_stands_apart_from_the_one_that_was_looked_at(self, tmp_path: Path) -> None:
        said = closing(plan(read_review(build_review(tmp_path, inspected_commit=INSPECTED))))

        assert (said["executed_commit"], said["reference_commit"]) == (EXECUTED, INSPECTED)

    def test_the_reference_commit_may_be_named_by_one_review_alone_but_not_by_two_that_differ(
        self, tmp_path: Path
    ) -> None:
        def inspected(*commits: str) -> Callable[[dict[str, Any]], None]:
            def change(document: dict[str, Any]) -> None:
                for review, commit in zip(document["reviews"], commits, strict=False):
                    review["attributes"]["inspected_marinskyrl_commit"] = commit

            return change

        one = edit_review(build_review(tmp_path / "one", tasks=1), inspected(INSPECTED))
        two = edit_review(build_review(tmp_path / "two", tasks=1), inspected(INSPECTED, EXECUTED))

        assert closing(plan(read_review(one)))["reference_commit"] == INSPECTED
        assert closing(plan(read_review(two)))["reference_commit"] is None

    def test_a_supplemental_role_and_resolved_issues_reach_the_events(self, tmp_path: Path) -> None:
        resolved = resolved_issue("https://example.org/1", SVAMP_DATASET, VERIFIER)
        built = build_review(tmp_path, tasks=1, review_pool_role="verifier_defect", resolved_verifier_issues=[resolved])

        publication = plan(read_review(built))

        assert closing(publication)["review_pool_role"] == "verifier_defect"
        assert json.loads(publication.parts[5].payload)["attributes"]["resolved_verifier_issues"] == [resolved]

    def test_unknown_dates_and_revisions_stay_unknown(self, tmp_path: Path) -> None:
        def change(document: dict[str, Any]) -> None:
            document["reviews"][1]["reviewed_at"] = None

        built = edit_review(build_review(tmp_path, tasks=1, dataset_revision=None), change)
        publication = plan(read_review(built), verifier_revision=None)

        assert json.loads(publication.parts[1].payload)["reviewed_at"] is None
        said = closing(publication)
        assert (said["dataset_revision"], said["verifier_revision"], said["verifier_revision_basis"]) == (None,) * 3

    def test_a_tag_that_the_document_retracts_stands_in_the_document_alone(self, tmp_path: Path) -> None:
        def change(document: dict[str, Any]) -> None:
            document["tag_assignments"][0]["state"] = "retracted"

        built = build_review(tmp_path, tasks=1, tags=[("license", "mit"), ("language", "en")])
        publication = plan(read_review(edit_review(built, change)))

        assert [json.loads(d.payload)["value"] for d in publication.parts if d.type == "tag.assigned"] == ["en"]

    def test_a_mapping_keeps_its_evidence(self, tmp_path: Path) -> None:
        def change(document: dict[str, Any]) -> None:
            mapping = {
                "id": "m",
                "subject_id": document["subjects"][0]["id"],
                "atlas_source_ids": [SVAMP],
                "note": None,
            }
            evidence = [document["reviews"][0]["evidence"][0]]
            mapping |= {"status": "confirmed", "applicability": "historical", "evidence": evidence}
            document["source_mappings"].append(mapping)

        [mapping] = closing(plan(read_review(edit_review(build_review(tmp_path, tasks=1), change))))["source_mappings"]

        assert mapping["atlas_source_ids"] == [SVAMP]
        assert mapping["evidence"][0]["artifact"]["name"].endswith("verifier-trace.jsonl")

    def test_publishing_a_run_twice_is_the_same_events_whatever_the_folder(self, tmp_path: Path) -> None:
        here, there = (plan(read_review(build_review(tmp_path / name))) for name in ("here", "there"))

        assert [d.SerializeToString() for d in here.drafts] == [d.SerializeToString() for d in there.drafts]
        assert len({d.id for d in here.drafts}) == 17

    def test_another_document_or_another_principal_is_other_events(self, tmp_path: Path) -> None:
        run = read_review(build_review(tmp_path / "one"))
        other = read_review(build_review(tmp_path / "other", summary="Otherwise."))
        ids = {d.id for d in plan(run).drafts}

        assert ids.isdisjoint(d.id for d in plan(other).drafts)
        assert ids.isdisjoint(d.id for d in plan(run, principal="someone").drafts)

    def test_a_review_and_a_tag_of_one_name_are_two_events(self, tmp_path: Path) -> None:
        def change(document: dict[str, Any]) -> None:
            document["tag_assignments"][0]["id"] = document["reviews"][0]["id"]

        built = edit_review(build_review(tmp_path, tasks=1, tags=[("license", "mit")]), change)

        assert len({d.id for d in plan(read_review(built)).drafts}) == 8

    def test_every_payload_passes_the_quick_check(self, tmp_path: Path) -> None:
        built = build_review(
            tmp_path,
            judge_findings=[issue("high")],
            verification=("verified", "error", "skipped"),
            tags=[("license", "mit")],
            inspected_commit=INSPECTED,
        )

        for made in plan(read_review(built), tags=["sample"]).drafts:
            quick = REGISTRY.get(made.type, 1).quick
            assert quick is not None
            assert quick(made.payload), made.payload
            assert "sample" in made.tags


def spoilt(tmp_path: Path, vector: dict[str, Any]) -> Path:
    """A sound run of one task and one tag, spoilt as the vector says; something to reach for lies outside it."""
    run = build_review(tmp_path / "run", tasks=1, tags=[("license", "mit")])
    (tmp_path / "outside.json").write_bytes((run / "coalescer" / "parsed.json").read_bytes())
    document = run / "quality-reviews.json"
    write(document, patched(json.loads(document.read_text()), vector["patch"]))
    if "rewrite" in vector:
        before, after = vector["rewrite"]
        assert before in document.read_text()
        document.write_text(document.read_text().replace(before, after, 1))
    for name, content in vector.get("files", {}).items():
        (run / name).unlink()
        if content is not None:
            (run / name).write_text(content)
    for name, target in vector.get("links", {}).items():
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(target)
    return run


def patched(document: Any, patch: list[dict[str, Any]]) -> Any:
    """The document after a JSON patch (RFC 6902: add, remove, replace, copy)."""
    for step in patch:
        value = copy.deepcopy(at(document, keys(step["from"])) if step["op"] == "copy" else step.get("value"))
        if not step["path"]:
            document = value
            continue
        *parents, last = keys(step["path"])
        holder = at(document, parents)
        if isinstance(holder, list) and step["op"] in {"add", "copy"}:
            holder.insert(len(holder) if last == "-" else int(last), value)
        elif step["op"] == "remove":
            del holder[int(last) if isinstance(holder, list) else last]
        else:
            holder[int(last) if isinstance(holder, list) else last] = value
    return document


def keys(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def at(document: Any, path: list[str]) -> Any:
    for part in path:
        document = document[int(part) if isinstance(document, list) else part]
    return document
