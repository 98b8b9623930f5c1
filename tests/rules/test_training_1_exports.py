"""Exports and campaigns: how far they came, what was published, and what contradicts what."""

from __future__ import annotations

from typing import Any

import pytest

from .training_1_stories import CAMPAIGN, CLAIMED, EXPORT, Story, example, sha

SHARD = "model-00001-of-00001.safetensors"
NUMBERS = {
    "shard_files": 1,
    "shards_named": 1,
    "index_total_size": 100,
    "tensor_bytes": 100,
    "tensors_in_index": 3,
    "tensors_in_shards": 3,
}
CHECKS = [{"name": "weight_map_complete", "outcome": "passed"}]
FAILED = [{"name": "weight_map_complete", "outcome": "failed", "tensor": "lm_head", "file": SHARD}]


def files(**digests: str) -> list[dict[str, Any]]:
    named = {"shard": SHARD, "card": "README.md", "old": "model-00001-of-00004.safetensors", "config": "config.json"}
    return [{"path": named[name], "sha256": sha(digest)} for name, digest in digests.items()]


class Exported(Story):
    def __init__(self) -> None:
        super().__init__(EXPORT)

    def start(self, **checkpoint: Any) -> int:
        return self.add(
            "export.started", {"checkpoint": {"run_id": "arm-0", "step": 15, **checkpoint}, "route": "rerun"}
        )

    def complete(self, **fields: Any) -> int:
        return self.add("export.completed", {"digest": sha("e"), "files": files(shard="w"), **fields})

    def verify(self, **fields: Any) -> int:
        return self.add("export.verified", {"numbers": NUMBERS, "checks": CHECKS, **fields})

    def fail(self, stage: str = "verify") -> int:
        return self.add("export.failed", {"stage": stage, "reason": "a ghost", "failed_checks": FAILED})

    def publish(self, **fields: Any) -> int:
        return self.add("model.published", {"repository": "example/model", "commit": "c" * 40, **fields})

    def status(self) -> str:
        return self.dossier()["status"]


class TestTheStatus:
    @pytest.mark.parametrize(
        ("told", "status"),
        [
            (["start"], "started"),
            (["start", "complete"], "completed"),
            (["start", "complete", "verify"], "verified"),
            (["start", "fail"], "failed"),
            (["start", "complete", "fail"], "failed"),
            (["start", "fail", "start"], "started"),
            (["start", "fail", "complete"], "completed"),
            (["start", "complete", "verify", "complete"], "completed"),
            (["start", "complete", "verify", "publish"], "published"),
            (["start", "complete", "publish"], "published_unverified"),
            (["start", "complete", "publish", "verify"], "published"),
        ],
    )
    def test_it_follows_the_last_thing_that_happened(self, told, status):
        story = Exported()
        for happened in told:
            getattr(story, happened)()
        assert story.status() == status
        assert story.shown()["status"] == status

    def test_numbers_and_checks_are_those_of_the_verification_that_holds(self):
        story = Exported()
        story.start()
        story.complete()
        verified = story.verify()
        dossier = story.dossier()
        shown = story.shown()
        assert (shown["started_pos"], shown["route"], shown["digest"]) == (11, "rerun", sha("e"))
        assert shown["checkpoint"] == {"run_id": "arm-0", "step": 15, "attempt": None, "digest": None}
        assert (dossier["started_pos"], dossier["completed_pos"], dossier["digest"]) == (11, 12, sha("e"))
        assert (dossier["verified_pos"], dossier["numbers"], dossier["checks"]) == (verified, NUMBERS, CHECKS)
        story.complete()
        dossier = story.dossier()
        assert ("verified_pos" in dossier, "numbers" in dossier, dossier["checks"]) == (False, False, [])

    def test_how_it_is_known_follows_from_its_first_event(self):
        story = Exported()
        assert story.dossier()["basis"] == "recorded"
        story.add("model.published", {"repository": "example/model", "commit": None, "basis": CLAIMED})
        story.start()
        assert (story.dossier()["basis"], story.shown()["basis"]) == ("claimed", "claimed")

    def test_what_failed_is_told_with_its_tensor_and_file(self):
        story = Exported()
        story.start()
        story.fail()
        dossier = story.dossier()
        assert (dossier["failure"], dossier["checks"]) == ("verify: a ghost", FAILED)


class TestWhatIsPublished:
    @pytest.mark.parametrize(
        ("published", "agree"),
        [
            (files(shard="w"), True),
            (files(shard="w", card="c"), True),
            (files(shard="other"), False),
            (files(card="c"), False),
            (files(shard="w", old="left over"), False),
            ([], None),
            ([{"path": SHARD, "sha256": None}], None),
        ],
    )
    def test_it_is_held_against_what_was_checked(self, published, agree):
        story = Exported()
        story.start()
        story.complete()
        story.verify(files=files(shard="w"))
        story.publish(files=published)
        (model,) = story.dossier()["models"]
        assert model.get("files_agree") is agree
        assert (story.codes() == ["PUBLISHED_OTHER_FILES"]) == (agree is False)
        assert story.shown()["models"][0]["files_agree"] is agree

    def test_without_files_of_the_verification_those_completed_count(self):
        story = Exported()
        story.start()
        story.complete()
        story.verify()
        story.publish(files=files(shard="other"))
        assert story.codes() == ["PUBLISHED_OTHER_FILES"]

    def test_an_unverified_publication_without_a_commit_is_flagged_for_both(self):
        story = Exported()
        story.start()
        story.publish(commit=None)
        assert story.codes() == ["PUBLISHED_UNVERIFIED", "PUBLISHED_WITHOUT_COMMIT"]

    def test_hosts_that_contradict_each_other_are_both_listed_and_not_flagged(self):
        story = Exported()
        story.start()
        for value in ("32k", "131k"):
            observed = {
                "host": "example.org",
                "observed_at": None,
                "observations": [{"field": "context", "value": value}],
            }
            story.add("hosting.observed", observed)
        dossier = story.dossier()
        assert [h["observations"][0]["value"] for h in dossier["hosting"]] == ["32k", "131k"]
        assert dossier["flags"] == []


class TestContradictions:
    def test_an_export_that_changed_its_checkpoint(self):
        story = Exported()
        story.start()
        story.complete(checkpoint_digest_before=sha("a"), checkpoint_digest_after=sha("b"))
        (flag,) = story.dossier()["flags"]
        digests = f"{sha('a')[:12]}… before and {sha('b')[:12]}… after"
        assert (flag["code"], flag["message"]) == (
            "CHECKPOINT_CHANGED_BY_EXPORT",
            f"exporting changed the checkpoint: its digest was {digests}",
        )

    def test_an_export_of_another_checkpoint_than_it_names(self):
        story = Exported()
        story.start(digest=sha("named"))
        story.complete(checkpoint_digest_before=sha("a"), checkpoint_digest_after=sha("a"))
        assert story.codes() == ["EXPORTED_OTHER_CHECKPOINT"]

    def test_an_export_that_is_started_again_from_another_checkpoint(self):
        story = Exported()
        story.start()
        story.start()
        assert story.codes() == []
        story.start(step=20)
        assert story.codes() == ["EXPORT_STARTED_OTHERWISE"]

    def test_an_export_that_is_completed_again_with_other_files(self):
        story = Exported()
        story.start()
        story.complete()
        story.complete(digest=sha("again"))
        assert story.codes() == ["EXPORT_COMPLETED_AGAIN"]

    def test_one_that_is_completed_and_never_started(self):
        story = Exported()
        story.complete()
        assert story.codes() == ["COMPLETED_WITHOUT_START"]

    def test_a_verification_that_fails_after_one_that_passed(self):
        story = Exported()
        story.start()
        story.complete()
        verified = story.verify()
        failed = story.fail()
        (flag,) = story.dossier()["flags"]
        assert (flag["code"], flag["positions"]) == ("VERIFICATION_FAILED_LATER", [verified, failed])


class TestClaims:
    def claim(self, story: Story, topic: str, **fields: Any) -> str:
        subject = {"kind": "export", "id": "arm-0-15"}
        payload = {"subject": subject, "topic": topic, "statement": "So it is.", "basis": CLAIMED, **fields}
        story.add("claim.recorded", payload)
        return story.dossier()["claims"][-1]["standing"]

    def test_a_verification_that_is_only_claimed_is_not_checkable(self):
        story = Exported()
        story.start()
        assert self.claim(story, "export.verification") == "not_checkable"
        story.fail()
        assert self.claim(story, "export.verification") == "contradicts"
        story.complete()
        story.verify()
        assert self.claim(story, "export.verification") == "agrees"

    def test_what_was_only_told_of_an_export_is_no_evidence(self):
        story = Exported()
        story.add(
            "export.started",
            {"checkpoint": {"run_id": "arm-0", "step": 15}, "route": "rerun", "basis": CLAIMED},
        )
        story.complete(parameter_count=8190735360, basis=CLAIMED)
        story.verify(basis=CLAIMED)
        for topic, said in (("verification", {}), ("parameters", {"number": 8e9}), ("route", {"text": "rerun"})):
            assert self.claim(story, f"export.{topic}", **said) == "not_checkable"

    def test_a_size_is_held_against_the_parameters_that_were_counted(self):
        story = Exported()
        story.start()
        assert self.claim(story, "export.parameters", number=8e9) == "not_checkable"
        story.complete(parameter_count=8190735360)
        assert self.claim(story, "export.parameters", number=8e9) == "agrees"
        assert self.claim(story, "export.parameters", number=30e9) == "contradicts"

    def test_a_route_is_held_against_the_one_that_is_recorded(self):
        story = Exported()
        story.start()
        assert self.claim(story, "export.route", text="rerun") == "agrees"
        assert self.claim(story, "export.route", text="offline") == "contradicts"
        assert self.claim(story, "hosting.price") == "not_checkable"


class TestCampaigns:
    def test_the_last_declaration_counts_and_a_change_of_what_is_compared_is_flagged(self):
        story = Story(CAMPAIGN)
        first = story.add("campaign.declared", {"purpose": "Data quality.", "compares": "sources"})
        last = story.add("campaign.declared", {"purpose": "TIS.", "compares": "setting", "setting": "use_tis"})
        dossier = story.dossier()
        assert (dossier["declared"]["purpose"], dossier["declared_pos"]) == ("TIS.", last)
        (flag,) = dossier["flags"]
        assert flag["message"] == "the campaign was declared to compare sources, then setting use_tis"
        assert flag["positions"] == [first, last]
        assert (story.shown()["compares"], story.shown()["flags"]) == ("setting", 1)

    def test_what_is_claimed_of_it_is_listed(self):
        story = Story(CAMPAIGN)
        subject = {"kind": "campaign", "id": "words"}
        story.add("claim.recorded", {**example("claim.recorded"), "subject": subject})
        (claim,) = story.dossier()["claims"]
        assert (claim["standing"], story.shown()["declared_pos"]) == ("not_checkable", None)
