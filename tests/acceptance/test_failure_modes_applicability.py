"""How the original got revisions wrong, done again: what is unknown is said, and equality is compared, never claimed.

A test bears the number of the failure in the domain's list. Where the applet's later code judges otherwise, its rules
are asked about the same events.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger.client.implementation import closure
from ledger.core import errors
from ledger.core.ids import sha256_hex
from ledger.rules import digest
from ledger.rules.digest import definitions_digest
from ledger.rules.sets import RULE_SETS, rules_digest
from tests.acceptance.corrected import CODE, Corrected
from tests.support.pythons import interpreter

OTHER_VERIFIER, OTHER_DATA = "7" * 40, "8" * 40
GRADING = "5" * 64
UNREVISED: dict[str, Any] = {"dataset_revision": None}
"""A run that does not say which data it was on."""


def standing(source: Corrected, rules: str | None = None) -> tuple[str, str, str]:
    shown = source.under(rules) if rules else source.shown()
    return shown["quality"], shown["applicability"], shown["difficulty"]["status"]


class Evidence:
    """Files of a data set at two revisions, and the attestations made of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def files(self, before: str, after: str) -> tuple[Path, Path]:
        paths = self.folder / "executed" / "train.jsonl", self.folder / "present" / "train.jsonl"
        for path, text in zip(paths, (before, after), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return paths

    def attest(self, executed: str, before: str, after: str, *sources: Corrected) -> int:
        """Attests the data of the sources; gives the exit code."""
        named = [word for source in sources for word in ("--source", source.id)]
        revisions = ("--executed-revision", executed, "--current-revision", OTHER_DATA)
        command = ("attest", "dataset", *self.files(before, after), *named, *revisions)
        return sources[0].doors.run(*command, "--json").code


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    return Evidence(tmp_path)


def test_row_15_the_verifier_revision_of_a_review_is_the_one_that_ran_and_not_the_catalogues(
    judged: Corrected, neighbour: Corrected
) -> None:
    judged.review(executed_commit=OTHER_VERIFIER)
    judged.measure()
    neighbour.review()
    neighbour.measure()

    review = judged.shown()["review"]
    assert (review["executed_commit"], review["verifier_revision_basis"]) == (OTHER_VERIFIER, "catalogue")
    assert standing(judged) == ("good", "unknown", "historical")
    assert "quality.applicability-unknown" in judged.because("quality")
    assert neighbour.shown()["review"]["verifier_revision_basis"] == "execution"
    assert standing(neighbour) == ("good", "current", "current")
    # The code copies what the catalogue says, and so takes either for the present verifier.
    assert {judged.under(CODE)["applicability"], neighbour.under(CODE)["applicability"]} == {"current"}


def test_row_15_a_publisher_who_names_a_verifier_has_not_executed_it(judged: Corrected) -> None:
    judged.review("--verifier-revision", judged.verifier, executed_commit=OTHER_VERIFIER)
    judged.measure()

    assert judged.shown()["review"]["verifier_revision_basis"] == "publisher"
    assert standing(judged) == ("good", "unknown", "historical")
    assert standing(judged, CODE)[:2] == ("good", "current")


def test_row_27_equal_bytes_at_another_revision_are_honoured_and_one_bump_stales_no_source_that_is_the_same(
    judged: Corrected, neighbour: Corrected, evidence: Evidence
) -> None:
    sources = (judged, neighbour)
    executed = "6" * 40
    for source in sources:
        source.revise(dataset=executed)
        source.review()
        source.measure()
        source.revise(dataset=OTHER_DATA)
    before = judged.doors.size
    assert [standing(source)[:2] for source in sources] == [("needs_re_review", "stale")] * 2

    assert evidence.attest(executed, "the same rows\n", "the same rows\n", *sources) == 0

    assert [standing(source) for source in sources] == [("good", "current", "current")] * 2
    assert "applicability.attestation-honoured" in judged.because("applicability")
    assert [(a["finding"], a["honoured"]) for a in judged.shown()["attestations"]] == [("unchanged", True)]
    assert judged.quality(at=before) == "needs_re_review"
    assert [standing(source, CODE)[:2] for source in sources] == [("needs_re_review", "stale")] * 2


def test_row_27_sources_of_one_release_are_not_all_stale_because_the_release_has_a_new_name(
    unknown: Corrected, unknown_neighbour: Corrected, evidence: Evidence
) -> None:
    sources = (unknown, unknown_neighbour)
    released = unknown.row["revision"]
    assert {source.row["revision"] for source in sources} == {released}
    for source in sources:
        source.review()
        source.relist(revision=OTHER_DATA)
    assert [standing(source)[:2] for source in sources] == [("needs_re_review", "stale")] * 2

    assert evidence.attest(released, "the same tasks\n", "the same tasks\n", *sources) == 0

    # The data is the same; which verifier graded is as unknown as it was.
    assert [standing(source)[:2] for source in sources] == [("good", "unknown")] * 2
    assert [standing(source, CODE)[:2] for source in sources] == [("needs_re_review", "stale")] * 2


def test_row_27_bytes_that_differ_are_recorded_and_honoured_by_nothing(judged: Corrected, evidence: Evidence) -> None:
    executed = judged.dataset
    judged.review()
    judged.revise(dataset=OTHER_DATA)

    assert evidence.attest(executed, "the rows\n", "other rows\n", judged) == 5

    assert standing(judged)[:2] == ("needs_re_review", "stale")
    assert [(a["finding"], a["honoured"]) for a in judged.shown()["attestations"]] == [("changed", False)]
    assert "applicability.attestation-not-honoured" in judged.because("applicability")


def test_row_28_a_digest_where_a_commit_stood_is_unknown_and_not_stale(judged: Corrected) -> None:
    judged.review()
    judged.measure()
    before = judged.doors.size

    judged.revise(verifier=GRADING)

    assert judged.shown(at=before)["applicability"] == "current"
    assert standing(judged) == ("good", "unknown", "historical")
    assert "a commit cannot be compared with a digest" in judged.explained("applicability")
    assert standing(judged, CODE)[:2] == ("needs_re_review", "stale")

    judged.revise(verifier=OTHER_VERIFIER)

    assert standing(judged)[:2] == ("needs_re_review", "stale")


def test_row_29_a_review_that_does_not_say_its_revision_is_shown_as_unknown_and_not_as_an_ordinary_rating(
    judged: Corrected, unknown: Corrected
) -> None:
    judged.review(**UNREVISED)
    judged.measure()
    unknown.review()
    unknown.measure()

    for source in (judged, unknown):
        assert standing(source) == ("good", "unknown", "historical")
        assert "applicability.revision-unknown" in source.because("applicability")
        assert "Good, applicability unknown" in source.doors.run("source", "show", source.id).out
    queue = judged.doors.tell("audit", "queue", "--kind", "applicability_unknown")
    assert {judged.id, unknown.id} <= {item["source_id"] for item in queue}
    # A null verifier revision is never stale to the code: the rating is shown like any other.
    assert unknown.under(CODE)["applicability"] == "current"
    assert unknown.under(CODE)["quality"] == "good"


class TestRow30:
    @pytest.fixture
    def moved(self, judged: Corrected) -> Corrected:
        """A Good review, and then a catalogue that names its verifier by a grading manifest."""
        self.captured = judged.verifier
        self.review = judged.review()
        judged.relist(verifier_revision=GRADING, grading_revision=GRADING)
        return judged

    def attest(self, source: Corrected, executed: str, *, subject: str = "") -> int:
        """Attests the program that ran against the manifest's, which is "p"; gives the exit code."""
        claim = {
            "review": self.review,
            "source_revision": source.dataset,
            "captured_verifier_revision": self.captured,
            "grading_revision": GRADING,
            "manifest_sha256": GRADING,
            "programs": [
                {
                    "route": f"gym{subject}",
                    "executed_sha256": sha256_hex(executed.encode()),
                    "manifest_sha256": sha256_hex(b"p"),
                }
            ],
            "unchecked": [],
        }
        path = source.folder / "grading-applicability.json"
        path.write_text(json.dumps(claim))
        return source.doors.run("attest", "grading", "--source", source.id, path, "--json").code

    def test_row_30_a_wrong_proof_is_superseded_by_a_right_one(self, moved: Corrected) -> None:
        assert self.attest(moved, "another program") == 5
        before = moved.doors.size
        assert standing(moved)[:2] == ("good", "unknown")

        assert self.attest(moved, "p") == 0

        assert standing(moved)[:2] == ("good", "current")
        assert [(a["finding"], a["honoured"]) for a in moved.shown()["attestations"]] == [("unchanged", True)]
        assert moved.shown(at=before)["applicability"] == "unknown"
        assert standing(moved, CODE)[:2] == ("needs_re_review", "stale")

    def test_row_30_a_proof_is_withdrawn_by_a_later_one_that_found_a_change(self, moved: Corrected) -> None:
        assert self.attest(moved, "p") == 0
        proved = moved.doors.size
        assert standing(moved)[:2] == ("good", "current")

        assert self.attest(moved, "another program") == 5

        assert standing(moved)[:2] == ("good", "unknown")
        assert [(a["finding"], a["honoured"]) for a in moved.shown()["attestations"]] == [("changed", False)]
        assert moved.shown(at=proved)["applicability"] == "current"
        assert standing(moved, CODE)[:2] == ("good", "current")

    def test_row_30_a_source_that_had_a_proof_is_not_enrolled_for_ever(self, moved: Corrected) -> None:
        assert self.attest(moved, "p") == 0
        moved.relist(verifier_revision=self.captured, grading_revision=None)

        assert standing(moved)[:2] == ("good", "current")
        assert standing(moved, CODE)[:2] == ("needs_re_review", "stale")

    def test_row_30_that_a_proof_calls_itself_equivalent_counts_for_nothing(self, moved: Corrected) -> None:
        path = moved.folder / "claimed.json"
        path.write_text(json.dumps({"schema_version": 1, "equivalent": True, "source_id": moved.id}))

        error = moved.doors.refused("attest", "grading", "--source", moved.id, path, code=1, reason="INVALID_FILE")

        assert {"/equivalent", "/programs"} <= {problem["place"].partition("#")[2] for problem in error["problems"]}
        assert standing(moved)[:2] == ("good", "unknown")


SCRIPT = '''
"""Loads tasks."""

import json
from pathlib import Path

LIMIT: int = 3


class Loader:
    """Keeps a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, name: str, *, limit: int = LIMIT) -> list[object]:
        """Reads the first few."""
        lines = (self.folder / name).read_text().splitlines()[:limit]
        return [json.loads(line) for line in lines if f"{line!r:>{limit}}"]
'''
PROGRAM = """
import importlib.util, sys, types
def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
loaded = ("ledger", "ledger.core", "ledger.rules", "ledger.events", "ledger.client")
for package in loaded:
    sys.modules[package] = types.ModuleType(package)
records = sys.modules["ledger.events.attestations"] = types.ModuleType("records")
records.ChangeValidation = records.ComparedDefinition = records.ExecutionImplementation = object
errors, digest, named, implementation, script, root, *packages = sys.argv[1:]
load("ledger.core.errors", errors)
definitions = load("ledger.rules.digest", digest).definitions_digest
load("ledger.client.definitions", named)
closure = load("implementation", implementation).closure
print(closure(open(script, encoding="utf-8").read(), ["Loader"]).sha256)
sys.path.insert(0, root)
for name in loaded:
    del sys.modules[name]
print(*map(definitions, packages))
"""
"""Another Python has none of the packages: modules are loaded one by one, with nothing but its own library."""


@pytest.mark.parametrize("python", ["python3.11", "python3.12", "python3.13"])
def test_row_31_a_digest_of_code_does_not_depend_on_the_python_that_computes_it(python: str, tmp_path: Path) -> None:
    found = interpreter(python)
    if found is None:
        pytest.skip(f"no {python} here")  # the check needs that Python itself
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    packages = [f"ledger.rules.{rules.replace('-', '_')}" for rules in RULE_SETS]
    root = Path(digest.__file__).parents[2]
    client = root / "ledger" / "client"
    code = (errors.__file__, digest.__file__, client / "definitions.py", client / "implementation.py")
    files = (*code, script, root)
    command = [found, "-I", "-c", PROGRAM, *map(str, files), *packages]

    done = subprocess.run(command, capture_output=True, text=True, check=True)

    shipped = [rules_digest(rules) for rules in RULE_SETS]
    assert done.stdout.split() == [closure(SCRIPT, ["Loader"]).sha256, *shipped]
    assert shipped == [definitions_digest(package) for package in packages]


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda text: text.replace('"""Reads the first few."""', "# Reads."), True),
        (lambda text: text.replace("LIMIT: int = 3", "LIMIT: int = 4"), False),
    ],
    ids=["a comment in the place of a docstring", "a constant"],
)
def test_row_31_what_the_code_does_decides_the_digest(change: Callable[[str], str], same: bool) -> None:
    changed = change(SCRIPT)

    assert changed != SCRIPT
    assert (closure(changed, ["Loader"]).sha256 == closure(SCRIPT, ["Loader"]).sha256) is same
