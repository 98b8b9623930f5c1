"""What a comparison looks at, what changes it and what does not, and the events that are made of it."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ledger.client import actor, attestations, definitions, implementation
from ledger.client.attestations import (
    dataset_claim,
    grading_claim,
    implementation_claim,
    native_claim,
    plan_attestations,
)
from ledger.client.implementation import closure, compare
from ledger.core import errors, strictjson
from ledger.core.errors import InvalidInput, LedgerError, NotFound, Refused
from ledger.events.attestations import AttestationRecorded, ComparedDefinition, ExecutionImplementation, Selection
from ledger.rules import digest
from tests.support.pythons import interpreter

VECTORS = Path(__file__).parents[1] / "vectors" / "attestations"
SCRIPT = (VECTORS / "script.py.txt").read_text("utf-8")
EDITS = json.loads((VECTORS / "closures.json").read_text("utf-8"))
ME = actor("curator-1", "human")
# The encoding is a promise: under one name, these stay what they are.
GOLDEN = {
    "load_tasks": "558abaecda21a35a40cda796af094d2d802f9e97bd366b3e4c055e1ec1804ab3",
    "launch": "ec350967a3f1d822b9aa17ba3cdb9827aac48410c826124370b159cf2f1813ba",
    "Worker.run": "3aabe7875d58ac0a2e177fd2c91dc25db3a404e7f6fb9ad75b1df5959fccb558",
}


def edited(find: str, put: str) -> str:
    assert SCRIPT.count(find) == 1
    return SCRIPT.replace(find, put)


def differing(root: str, text: str) -> set[str]:
    said = compare(SCRIPT.encode(), text.encode(), [root], script="make_review.py")
    return {d.name for d in said.definitions if d.original_sha256 != d.executed_sha256}


def reached(text: str, *roots: str) -> set[str]:
    return set(closure(text, roots).definitions)


@pytest.mark.parametrize("what", EDITS["same"])
def test_what_a_root_does_not_rest_on_leaves_it_unchanged(what: str) -> None:
    root, find, put = EDITS["same"][what]

    assert closure(edited(find, put), [root]) == closure(SCRIPT, [root])


@pytest.mark.parametrize("what", EDITS["changed"])
def test_what_a_root_rests_on_changes_it_and_is_named(what: str) -> None:
    root, find, put, names = EDITS["changed"][what]

    assert differing(root, edited(find, put)) == set(names)
    assert closure(edited(find, put), [root]).sha256 != closure(SCRIPT, [root]).sha256


@pytest.mark.parametrize("root", GOLDEN)
def test_the_digest_of_a_closure_is_the_one_that_was_released(root: str) -> None:
    assert closure(SCRIPT, [root]).sha256 == GOLDEN[root]


@pytest.mark.parametrize("python", ["python3.11", "python3.12", "python3.13", "python3.14"])
def test_every_python_computes_the_same_closures(python: str, tmp_path: Path) -> None:
    found = interpreter(python)
    if found is None:
        pytest.skip(f"no {python} here")  # the check needs that Python itself
    # Another Python has none of the packages: the modules are loaded one by one, with nothing but its own library.
    program = """
import importlib.util, sys, types
def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
for package in ("ledger", "ledger.core", "ledger.rules", "ledger.events", "ledger.client"):
    sys.modules[package] = types.ModuleType(package)
records = sys.modules["ledger.events.attestations"] = types.ModuleType("records")
records.ChangeValidation = records.ComparedDefinition = records.ExecutionImplementation = object
load("ledger.core.errors", sys.argv[1])
load("ledger.rules.digest", sys.argv[2])
load("ledger.client.definitions", sys.argv[3])
closure = load("implementation", sys.argv[4]).closure
text = open(sys.argv[5], encoding="utf-8").read()
print(*(closure(text, [root]).sha256 for root in sys.argv[6:]))
"""
    modules = (errors, digest, definitions, implementation)
    files = (*(module.__file__ for module in modules), VECTORS / "script.py.txt")
    done = subprocess.run(
        [found, "-I", "-c", program, *map(str, files), *GOLDEN], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == list(GOLDEN.values())


def test_a_class_that_is_mentioned_comes_with_all_of_its_methods() -> None:
    assert {"Worker.report", "Worker._start"} <= reached(SCRIPT, "Worker")
    assert "Worker.report" not in reached(SCRIPT, "Worker.run")


def test_a_method_of_an_object_that_is_handed_in_is_followed_by_its_name() -> None:
    text = "class A:\n    def go(self): return 1\nclass B:\n    def stay(self): return 2\ndef f(it): return it.go()\n"

    assert reached(text, "f") == {"f", "A", "A.go"}


def test_code_that_looks_names_up_brings_the_whole_script() -> None:
    text = "def g(): return 1\ndef f(name): return globals()[name]()\n"

    assert reached(text, "f") == {"f", "g"}
    assert reached(text.replace("globals()[name]", "len"), "f") == {"f"}


def test_an_attribute_that_is_got_by_its_name_is_followed_and_a_computed_name_may_be_any() -> None:
    text = (
        "class A:\n    def go(self): return 1\n    def stay(self): return 2\ndef f(it, name): return getattr(it, {})\n"
    )

    assert reached(text.format("'go', None"), "f") == {"f", "A", "A.go"}
    assert reached(text.format("name"), "f") == {"f", "A", "A.go", "A.stay"}


def test_a_docstring_counts_where_one_is_read() -> None:
    text = '"""One."""\ndef f(): return __doc__\n'

    assert closure(text, ["f"]) != closure(text.replace("One", "Two"), ["f"])


def test_a_subclass_comes_when_its_base_keeps_account_of_subclasses() -> None:
    text = "class A:\n    KNOWN = []\n    {}\nclass B(A):\n    pass\ndef f(): return A.KNOWN\n"
    hook = "def __init_subclass__(cls): A.KNOWN.append(cls)"

    assert "B" in reached(text.format(hook), "f")
    assert "B" not in reached(text.format("pass"), "f")


def test_the_order_of_statements_that_may_do_something_counts() -> None:
    text = "A = []\nA.append(1)\nA.extend([2])\ndef f(): return A\n"
    turned = "A = []\nA.extend([2])\nA.append(1)\ndef f(): return A\n"

    assert closure(text, ["f"]) != closure(turned, ["f"])


def test_a_quiet_name_that_the_script_gives_another_meaning_is_not_quiet() -> None:
    text = "def f(): return 1\nX = frozenset([1])\n"

    assert "X" not in reached(text, "f")
    assert "X" in reached(text + "def frozenset(it): print(it)\n", "f")


def test_a_root_that_is_not_there_is_not_found_and_those_that_are_there_are_named() -> None:
    with pytest.raises(NotFound) as refused:
        closure(SCRIPT, ["load_tasks", "load_everything"])

    assert "'load_everything'" in refused.value.message
    assert "Worker.run" in refused.value.remedy


def test_a_root_that_one_side_lacks_names_the_side() -> None:
    with pytest.raises(NotFound, match=r"new make_review\.py defines no 'launch'"):
        compare(
            SCRIPT.encode(), SCRIPT.replace("def launch", "def start").encode(), ["launch"], script="make_review.py"
        )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b"def f(:\n", "line 1, column 7"),
        (b"x = 1\ndef f():\nreturn 1\n", "line 3, column 1"),
        (b"from tasks import *\ndef f(): pass\n", "line 1, column 1"),
        (b"x = '\x00'\n", ""),
        (b"# coding: no-such\n", ""),
        (b"\xff\xfe", ""),
        (b"x = " + b"(" * 5_000 + b")" * 5_000, ""),
        (b"x = " + b"-" * 200_000 + b"1", ""),
    ],
    ids=["no Python", "no indent", "a star import", "NUL", "an unknown coding", "no UTF-8", "too deep", "far too deep"],
)
def test_what_cannot_be_followed_is_refused_with_its_place(text: bytes, place: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        closure(text, ["f"])

    assert refused.value.reason == "INVALID_FILE"
    assert place in refused.value.problems[0].place


def test_an_odd_escape_in_a_script_is_no_affair_of_ours() -> None:
    assert reached("def f(): return '\\d'\n", "f") == {"f"}


def test_both_files_are_hashed_whole_and_a_definition_on_one_side_is_null_on_the_other() -> None:
    said = compare(b"def f(): return 1\n", b"def g(): return 1\ndef f(): return g()\n", ["f"], script="s.py")

    assert said.original_sha256 == hashlib.sha256(b"def f(): return 1\n").hexdigest()
    assert [(d.name, d.original_sha256 is None, d.executed_sha256 is None) for d in said.definitions] == [
        ("f", False, False),
        ("g", True, False),
    ]
    assert said.original_closure_sha256 != said.executed_closure_sha256
    assert (said.roots, said.script, said.encoding) == (["f"], "s.py", implementation.ENCODING)


def test_a_definition_is_what_parsed_alike_in_both_files() -> None:
    said = compare(SCRIPT.encode(), edited("LIMIT = 32", "LIMIT  =  32").encode(), ["load_tasks"], script="s.py")

    assert said.original_sha256 != said.executed_sha256
    assert said.original_closure_sha256 == said.executed_closure_sha256
    assert all(isinstance(d, ComparedDefinition) and d.original_sha256 == d.executed_sha256 for d in said.definitions)


# The events


@pytest.fixture
def scripts(tmp_path: Path) -> tuple[Path, Path]:
    old, new = tmp_path / "old.py", tmp_path / "make_review.py"
    old.write_text(SCRIPT, "utf-8")
    new.write_text(edited("tasks[:limit]", "tasks[1:limit]"), "utf-8")
    return old, new


def said(publication: Any) -> list[AttestationRecorded]:
    return [AttestationRecorded.model_validate_json(d.payload) for d in publication.parts]


def test_an_attestation_of_several_sources_is_one_event_a_source_with_the_same_evidence(scripts: Any) -> None:
    claim = implementation_claim(*scripts, ["load_tasks"])
    publication = plan_attestations(claim, ["O:one", "O:two", "O:one"], by=ME)

    assert [d.stream for d in publication.parts] == ["source/O:one", "source/O:two"]
    one, two = said(publication)
    assert one.evidence == two.evidence
    assert {e.name for e in one.evidence} == {
        "comparison.json",
        "original/make_review.py",
        "executed/make_review.py",
    }
    assert {u.sha256 for u in publication.uploads} == {e.sha256 for e in one.evidence}
    assert claim.differences == ("load_tasks",)


def test_attesting_the_same_again_is_the_same_event_and_another_moment_is_another(scripts: Any) -> None:
    claim = implementation_claim(*scripts, ["load_tasks"])
    first, again, later = (
        plan_attestations(claim, ["O:one"], by=ME, attested_at=at).parts[0]
        for at in (None, None, "2026-10-06T07:00:00Z")
    )

    assert first == again
    assert first.id != later.id


def test_the_stored_comparison_is_what_the_event_says(scripts: Any) -> None:
    claim = implementation_claim(*scripts, ["load_tasks"])
    (stored,) = (u.content for u in claim.uploads if u.sha256 == claim.evidence[0].sha256)

    assert ExecutionImplementation.model_validate_json(stored) == claim.said


def test_data_files_are_hashed_and_a_changed_byte_or_selection_is_a_difference(tmp_path: Path) -> None:
    old, new = tmp_path / "old.bin", tmp_path / "new.bin"
    old.write_bytes(b"rows")
    new.write_bytes(b"rows")
    chosen = Selection(executed_selector="a", current_selector="b", executed_rows=1, current_rows=1)
    same = dataset_claim("d1", "d2", [("train", old, new)])
    other = dataset_claim("d1", "d2", [("train", old, new)], chosen)
    new.write_bytes(b"rowS")
    changed = dataset_claim("d1", "d2", [("train", old, new)])

    assert same.differences == ()
    assert other.differences == ("the selector",)
    assert changed.differences == ("train",)
    assert same.said.files[0].size == 4  # type: ignore[attr-defined]
    assert same.said.files[0].executed_sha256 == hashlib.sha256(b"rows").hexdigest()  # type: ignore[attr-defined]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Two commits, of which the second changes one file, adds one and leaves a folder as it was."""
    folder = tmp_path / "checkout"
    (folder / "gym").mkdir(parents=True)
    (folder / "gym" / "env.py").write_text("step = 1\n")
    (folder / "sources.py").write_text("a = 1\n")
    git(folder, "init", "--quiet")
    commit(folder)
    (folder / "sources.py").write_text("a = 2\n")
    (folder / "new.py").write_text("b = 1\n")
    commit(folder)
    return folder


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", "x")


def test_git_objects_of_both_commits_are_compared_and_an_absent_path_is_null(checkout: Path) -> None:
    claim = native_claim(checkout, "HEAD~1", "HEAD", ["gym/", "sources.py", "new.py"])
    gym, sources, new = claim.said.objects  # type: ignore[attr-defined]

    assert gym.reviewed_object == gym.registry_object == git(checkout, "rev-parse", "HEAD:gym")
    assert sources.reviewed_object == git(checkout, "rev-parse", "HEAD~1:sources.py")
    assert (new.reviewed_object, new.registry_object) == (None, git(checkout, "rev-parse", "HEAD:new.py"))
    assert claim.differences == ("sources.py", "new.py")
    assert claim.said.registry_commit == git(checkout, "rev-parse", "HEAD")  # type: ignore[attr-defined]


def test_a_dirty_checkout_is_refused_or_recorded_as_dirty_and_then_differs(checkout: Path) -> None:
    (checkout / "gym" / "env.py").write_text("step = 2\n")

    with pytest.raises(Refused, match="no commit has"):
        native_claim(checkout, "HEAD", "HEAD", ["gym"])
    claim = native_claim(checkout, "HEAD", "HEAD", ["gym"], dirty_too=True)
    assert claim.said.dirty  # type: ignore[attr-defined]
    assert claim.differences == ("uncommitted changes",)


@pytest.mark.parametrize(
    ("reviewed", "path", "says"),
    [("nowhere", "gym", "no commit"), ("--help", "gym", "no commit"), ("HEAD", "nowhere", "at neither commit")],
)
def test_a_commit_or_a_path_that_is_not_there_is_not_found(checkout: Path, reviewed: str, path: str, says: str) -> None:
    with pytest.raises(NotFound, match=says):
        native_claim(checkout, reviewed, "HEAD", [path])


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    with pytest.raises(InvalidInput, match="no checkout"):
        native_claim(tmp_path, "HEAD", "HEAD", ["x"])


def test_without_git_the_error_says_what_to_install(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attestations, "_GIT", ("no-such-git",))

    with pytest.raises(LedgerError, match="git is not there") as refused:
        native_claim(checkout, "HEAD", "HEAD", ["gym"])
    assert refused.value.reason == "EXTRA_MISSING"


def grading_file(folder: Path, **changed: Any) -> Path:
    record = json.loads((VECTORS / "grading_applicability.json").read_text())["grading_applicability"]
    path = folder / "grading.json"
    path.write_text(json.dumps(record | changed))
    return path


def test_a_grading_record_is_taken_as_it_stands(tmp_path: Path) -> None:
    claim = grading_claim(grading_file(tmp_path))

    assert claim.differences == ()
    (event,) = said(plan_attestations(claim, ["O:one"], by=ME))
    assert event.grading_applicability == claim.said


@pytest.mark.parametrize(
    ("changed", "differences"),
    [
        ({"manifest_sha256": "0" * 64}, ("the manifest",)),
        ({"programs": [{"route": "gym", "executed_sha256": None, "manifest_sha256": "0" * 64}]}, ("gym",)),
    ],
)
def test_a_grading_record_whose_sides_differ_says_so(
    tmp_path: Path, changed: dict[str, Any], differences: tuple[str, ...]
) -> None:
    assert grading_claim(grading_file(tmp_path, **changed)).differences == differences


def test_that_two_things_are_equivalent_is_not_for_a_file_to_say(tmp_path: Path) -> None:
    path = grading_file(tmp_path, equivalent=True, review="no digest")

    with pytest.raises(InvalidInput) as refused:
        grading_claim(path)
    assert {p.place for p in refused.value.problems} == {f"{path}#/equivalent", f"{path}#/review"}
    assert "not for the file to say" in refused.value.remedy


@pytest.mark.parametrize("content", [b"{", b'{"review": 1, "review": 2}', b"[]"])
def test_a_grading_record_that_is_no_object_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "grading.json"
    path.write_bytes(content)

    with pytest.raises(InvalidInput) as refused:
        grading_claim(path)
    assert refused.value.reason == "INVALID_FILE"


@pytest.mark.parametrize("name", ["native_revision", "dataset_revision", "grading_applicability"])
def test_a_stored_attestation_is_read_and_loses_nothing(name: str) -> None:
    stored = strictjson.parse((VECTORS / f"{name}.json").read_bytes())
    event = AttestationRecorded.model_validate_json((VECTORS / f"{name}.json").read_bytes())

    assert event.kind == name
    assert event.model_dump(mode="json", exclude_unset=True) == stored
