"""Tasks of reasoning-gym that are not trained on, and why: what was found in the package's 0.1.25, as data."""

from __future__ import annotations

from typing import Final, Literal

Why = Literal["executes", "vacuous", "lenient", "no-answer", "unrepeatable", "mixed"]

REASONS: Final[dict[Why, str]] = {
    "executes": "its verifier executes the answer as code, with all that the trainer may do",
    "vacuous": "its verifier gives full marks to any answer",
    "lenient": "its verifier gives full marks to answers that are wrong",
    "no-answer": "it gives no right answer, so that nobody can check what its verifier accepts",
    "unrepeatable": "the same seed and settings give other tasks in another process, or when asked again",
    "mixed": "it mixes other tasks, whose verifiers differ: name each as data of its own",
}

UNSOUND: Final[dict[str, Why]] = {
    "binary_matrix": "executes",
    "countdown": "executes",
    "intermediate_integration": "executes",
    "n_queens": "executes",
    "polynomial_multiplication": "executes",
    "puzzle24": "executes",
    "simple_integration": "executes",
    "spiral_matrix": "executes",
    "string_insertion": "executes",
    "game_of_life_halting": "vacuous",
    "coin_flip": "lenient",
    "boxnet": "no-answer",
    "graph_color": "no-answer",
    "propositional_logic": "no-answer",
    "rubiks_cube": "no-answer",
    "rush_hour": "no-answer",
    "isomorphic_strings": "unrepeatable",
    "list_functions": "unrepeatable",
    "ransom_note": "unrepeatable",
    "word_ladder": "unrepeatable",
    "composite": "mixed",
}
"""Tasks whose own verifier is not used. Those with no other fault may be graded by the rule `last-number`, where their
answers are numbers."""

NEVER: Final[frozenset[Why]] = frozenset({"no-answer", "unrepeatable", "mixed"})
"""Under no verifier."""
