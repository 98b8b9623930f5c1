"""The identity of a rule set: what changes it and what does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ledger.core.errors import NotFound
from ledger.rules import digest
from ledger.rules.digest import definitions_digest, sources_digest
from ledger.rules.sets import ALL_RULE_SETS, DEFAULT_RULES, RULE_SETS, rules_digest
from tests.support.pythons import interpreter

SHIPPED = {
    "atlas-page-1": "55e9cf1454106a7911ca7e5db146f833a3e6585c4922268f481d2d844431989b",
    "atlas-code-1": "d7237225193b8ead59428b6baab6e6f482131efdeb6df89f1fff3187ed43018b",
    "ledger-1": "a30d3fd1c9531fd0168055c7459dd68f65e63ad026eeed90e2c7463eed93c566",
    "training-1": "1bd5f6742e7dd26cfe931dc1ed6a38096362503d10369d55111827080d234830",
}
"""Rule sets are frozen. If this test fails for a set that was released, give the changed set a new id instead."""

CODE = '''
"""What it does."""

LIMIT = 3


def shown(value: int = 0, *rest: str, **more: object) -> str:
    """Says it."""
    # The reason.
    return f"{value!r:>{LIMIT}} {rest} {more} {value=}" if value < LIMIT else "é\\U0001F600"
'''

SAME = {
    "a comment": CODE.replace("# The reason.", "# Another reason."),
    "a docstring": CODE.replace("Says it.", "Says it otherwise."),
    "no docstring at all": CODE.replace('    """Says it."""\n', ""),
    "formatting": CODE.replace("LIMIT = 3\n", "LIMIT   =  (  3 )\n"),
    "the kind of quotes": CODE.replace('"é\\U0001F600"', "'\\xe9\\N{GRINNING FACE}'"),
    "a formatted string cut in two": CODE.replace("} {rest}", '}" f" {rest}'),
    "a literal of old": CODE.replace('"é', 'u"é'),
}
OTHER = {
    "a constant": CODE.replace("LIMIT = 3", "LIMIT = 4"),
    "a constant of another type": CODE.replace("LIMIT = 3", "LIMIT = 3.0"),
    "a truth value for a number": CODE.replace("value: int = 0", "value: int = False"),
    "text": CODE.replace("é", "e"),
    "the text of a formatted string": CODE.replace("} {rest}", "}{rest}"),
    "the format of a field": CODE.replace(":>{", ":<{"),
    "a name": CODE.replace("LIMIT", "BOUND"),
    "an operator": CODE.replace("<", "<="),
    "an annotation": CODE.replace("-> str", "-> bytes"),
    "a statement": CODE + "\nLIMIT += 1\n",
    "the order of statements": CODE.replace("LIMIT = 3\n", "") + "\nLIMIT = 3\n",
}


@pytest.mark.parametrize("change", SAME)
def test_what_says_the_same_has_the_same_digest(change):
    assert SAME[change] != CODE
    assert sources_digest({"a.py": SAME[change]}) == sources_digest({"a.py": CODE})


@pytest.mark.parametrize("change", OTHER)
def test_what_says_something_else_has_another_digest(change):
    assert sources_digest({"a.py": OTHER[change]}) != sources_digest({"a.py": CODE})


def test_a_module_under_another_name_has_another_digest():
    assert sources_digest({"a.py": CODE}) != sources_digest({"b.py": CODE})


def test_every_module_of_a_package_counts(tmp_path, monkeypatch):
    package = tmp_path / "outer" / "inner"
    (package / "deep").mkdir(parents=True)
    for folder in (package.parent, package, package / "deep"):
        (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    before = definitions_digest("outer.inner")
    (package / "deep" / "more.py").write_text("MORE = 1\n")
    assert definitions_digest("outer.inner") != before
    assert "outer" not in sys.modules


def test_a_package_that_is_not_there_has_no_digest():
    with pytest.raises(ModuleNotFoundError, match=r"ledger\.nowhere"):
        definitions_digest("ledger.nowhere")


@pytest.mark.parametrize("rules", ALL_RULE_SETS)
def test_a_shipped_rule_set_is_the_one_that_was_released(rules):
    assert rules_digest(rules) == SHIPPED[rules]


def test_every_set_stands_under_its_own_id_and_the_default_is_among_them():
    assert {rules: rule_set.id for rules, rule_set in RULE_SETS.items()} == {rules: rules for rules in RULE_SETS}
    assert DEFAULT_RULES in RULE_SETS


def test_an_unknown_set_is_not_found_and_the_known_ones_are_named():
    with pytest.raises(NotFound) as refused:
        rules_digest("atlas-page-0")
    assert DEFAULT_RULES in refused.value.remedy


@pytest.mark.parametrize("python", ["python3.11", "python3.12", "python3.13", "python3.14"])
def test_every_python_computes_the_same_digest_with_its_standard_library_alone(python, tmp_path):
    found = interpreter(python)
    if found is None:
        pytest.skip(f"no {python} here")  # the check needs that Python itself
    (tmp_path / "code.py").write_text(CODE, "utf-8")
    program = (
        "import runpy, sys; digest = runpy.run_path(sys.argv[1]); sys.path.insert(0, sys.argv[2]);"
        "print(digest['definitions_digest']('ledger.rules.atlas_page_1'));"
        "print(digest['sources_digest']({'a.py': open(sys.argv[3], encoding='utf-8').read()}))"
    )
    root = str(Path(digest.__file__).parents[2])
    done = subprocess.run(
        [found, "-I", "-c", program, digest.__file__, root, str(tmp_path / "code.py")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [SHIPPED["atlas-page-1"], sources_digest({"a.py": CODE})]
