"""The list of failures is answered whole: each row has a test that bears its number."""

from __future__ import annotations

import ast
import re
from pathlib import Path

LATER = {22, 23, 32, 35}
"""Of the tool that makes reviews, and of the pages."""


def test_every_row_that_the_log_the_rules_and_the_doors_answer_has_a_test_of_its_number() -> None:
    tests = [
        node.name
        for path in Path(__file__).parent.glob("test_failure_modes_*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef)
    ]
    found = {int(matched[1]) for name in tests if (matched := re.match(r"test_row_(\d\d)_", name))}

    assert found == set(range(1, 45)) - LATER
