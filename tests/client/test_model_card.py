"""A model card: every sentence names its events, every mark leads to one, and nothing recorded can steer a reader."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from ledger.client.cards.layout import MAX_MARKS
from ledger.client.cards.model_card import model_card
from ledger.client.cards.record import Record, Series
from ledger.client.cards.rollouts import STAGES
from ledger.client.cards.text import Said, cell, code, prose, row, scalar
from ledger.core.errors import NotFound
from ledger.wire import runs_pb2
from tests.client import made_up_run as made

GOLDEN = Path(__file__).parent / "made_up_card.md"
_MARK = re.compile(r"\[\[e(\d+)\]\]\(#e\1\)")
_ANCHOR = re.compile(r'^- <a id="e(\d+)"></a>e\1: `[^`]+`, recorded \S+Z; (?:.*; )?`ledger event show ([^`]+)`$')
_RULE = re.compile(r"\|(---\|)+")
_OVERCLAIM = "the rollouts the policy was trained on"


def card(fields: Any = made.DOSSIER, **kwargs: Any) -> str:
    return model_card(made.record(fields, **kwargs), made.fetch)


def changed(*path: str | int, to: Any) -> dict[str, Any]:
    """The dossier with one field set, or left out when it is set to None."""
    fields = copy.deepcopy(made.DOSSIER)
    at: Any = fields
    for part in path[:-1]:
        at = at[part]
    if to is None:
        del at[path[-1]]
    else:
        at[path[-1]] = to
    return fields


def body(text: str) -> list[str]:
    """The lines of the card that speak, rows of tables too: no front matter, no heading, not the list of events."""
    content = text.split("---\n", 2)[2] if text.startswith("---\n") else text
    lines = content.split("\n## Events\n")[0].splitlines()
    above_rows = {n for at, line in enumerate(lines) if _RULE.fullmatch(line) for n in (at - 1, at)}
    return [line for n, line in enumerate(lines) if line and not line.startswith("#") and n not in above_rows]


def section(text: str, title: str) -> list[str]:
    """What a section says."""
    return body(text.split(f"\n## {title}\n")[1].split("\n## ", maxsplit=1)[0])


def anchors(text: str) -> dict[int, str]:
    lines = text.split("\n## Events\n")[1].splitlines()
    found = [_ANCHOR.match(line) for line in lines if line]
    assert all(found), lines
    return {int(match[1]): match[2] for match in found if match}


def check_marks(text: str) -> None:
    listed = anchors(text)
    cited = set()
    for line in body(text):
        assert line.startswith(("- ", "| ", "How to read this card: ")), line
        marks = [int(pos) for pos in _MARK.findall(line)]
        assert marks, line
        assert line.removesuffix(" |").endswith(f"[[e{marks[-1]}]](#e{marks[-1]})"), line
        cited |= set(marks)
    assert cited == set(listed)
    assert list(listed) == sorted(listed)


def test_every_sentence_of_a_rich_card_ends_with_marks_that_all_resolve():
    text = card()
    check_marks(text)
    assert len(body(text)) > 80


def test_a_card_of_a_run_of_which_next_to_nothing_is_known_still_cites_every_sentence():
    fields = {
        "run": {"summary": {"id": "x", "status": "open", "first_pos": "4", "last_pos": "4", "basis": "recorded"}},
        "coordinates": {"size": "5", "run_rules": "training-1"},
    }
    text = card(fields, series=False)
    check_marks(text)
    assert "No end of the run is recorded" in text
    assert "- Data: nothing tells of the data sources" in text
    assert not text.startswith("---")


def _paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*at, key)
        yield from _paths(inner, (*at, key))


_KEPT = {"id", "first_pos", "last_pos", "size", "pos", "positions", "summary", "run", "coordinates", "events"}
_DROPPABLE = [path for path in _paths(made.DOSSIER) if path[-1] not in _KEPT and not isinstance(path[-1], int)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(_DROPPABLE), min_size=1, max_size=40), st.booleans())
def test_whatever_is_not_recorded_no_sentence_loses_its_events(gone, series):
    fields = copy.deepcopy(made.DOSSIER)
    for path in gone:
        at: Any = fields
        for part in path[:-1]:
            at = at.get(part) if isinstance(at, dict) else at[part] if part < len(at) else None
            if at is None:
                break
        if isinstance(at, dict):
            at.pop(path[-1], None)
    text = card(fields, series=series)
    check_marks(text)
    assert _OVERCLAIM not in text


def test_a_sentence_without_an_event_cannot_be_made():
    with pytest.raises(ValueError, match="without an event"):
        Said("It is good", ())


def test_a_row_without_an_event_or_with_a_bar_in_a_cell_cannot_be_made():
    with pytest.raises(ValueError, match="without an event"):
        row(["a", "b"])
    with pytest.raises(ValueError, match="a bar would be two"):
        row(["a", code("b|c")], 1)


@given(st.text(alphabet=st.sampled_from("ab|\\`*<& "), max_size=20))
def test_a_name_in_a_cell_stays_in_its_cell(name):
    text = f"| x | y | z |\n|---|---|---|\n| {row(['1', cell(name)], 1).text} | 3 |"
    assert _shapes(text) == [3, 3]
    assert [token.content for token in _tokens(text) if token.type == "inline"][-1] == "3"


def test_a_card_is_the_same_bytes_when_it_is_made_again():
    assert card() == card()


def test_the_made_up_card_is_as_it_was_reviewed():
    assert card() == GOLDEN.read_text(encoding="utf-8"), "write it anew with `python -m tests.client.made_up_run`"


def test_the_front_matter_holds_what_is_recorded_and_no_more():
    head = card().split("---\n")[1].splitlines()
    assert head == [
        'license: "apache-2.0"',
        'base_model: "example/base-8b-131k"',
        "datasets:",
        '- "example/blue-traces"',
        "tags:",
        '- "rl"',
        '- "blue"',
    ]
    assert "license" not in card(changed("exports", 0, "models", 0, "license", to=None)).split("---\n")[1]


def test_a_base_without_a_repository_is_told_and_is_no_base_model_of_the_hub():
    text = card(changed("run", "declared", "rl_start", "repository", to=None))
    assert "base_model" not in text.split("---\n")[1]
    assert "Reinforcement learning started from `example/base-8b-131k`" in text


def test_rl_start_and_root_architecture_are_two_facts():
    text = card()
    assert "Reinforcement learning started from `example/base-8b-131k`" in text
    assert "The root architecture is `example/root-8b`, no commit named" in text


def test_the_quality_of_a_source_is_told_of_three_moments_and_never_carried():
    text = card()
    rows = [line for line in section(text, "Data") if line.startswith("|")]
    assert rows == [
        "| when the run was declared | 12 | Good, applicability current | none | (derived) [[e3]](#e3) |",
        "| when the checkpoint was selected | 46 | Good, applicability current | none | (derived) [[e3]](#e3) |",
        (
            "| now | 90 | Bad, applicability current | `d-1` (verifier): “An empty workspace passes”, issue missing | "
            "(derived) [[e3]](#e3) [[e70]](#e70) |"
        ),
    ]
    assert "What is shown of `Example:blue` turned 1 time after the run was declared (derived). [[e70]](#e70)" in text


def test_a_moment_at_which_a_source_was_not_known_has_no_row():
    text = card(changed("sources", 0, "at_selection", to=None))
    assert "| when the checkpoint was selected |" not in text
    assert "the Quality of `Example:blue` when the checkpoint was selected" in "".join(section(text, "Not recorded"))


def test_what_is_claimed_says_so_and_what_is_derived_from_it_says_that():
    text = card()
    ema, implied = (
        next(line for line in section(text, "Which checkpoint") if words in line)
        for words in ("names EMA 0.8639", "one step before")
    )
    assert ema.endswith(" (claimed). [[e45]](#e45)")
    assert "the EMA was 0.8750 one step before, at step 14, and so falling" in implied
    assert " (derived from claims). " in implied


def test_where_something_is_claimed_stands_once_an_event_in_the_list_of_events():
    told, events = card().split("\n## Events\n")
    assert made.PAGE not in told
    assert events.count(f"; claimed at `{made.PAGE}`; noted on that: “The page has no date.”; ") == len(made.CLAIMED_AT)


@pytest.mark.parametrize(
    ("basis", "word", "place"),
    [
        ({"kind": "imported", "document": {"name": "run.log"}}, "imported", "; imported from `run.log`; "),
        ({"kind": "inferred"}, "inferred", "; inferred; "),
        ({"kind": {"redacted": True}}, "redacted since", "; on a basis that was redacted; "),
    ],
    ids=["imported", "inferred", "redacted"],
)
def test_each_way_to_know_a_fact_has_its_word_its_place_and_its_meaning(basis, word, place):
    def fetch(positions):
        return (made.event(pos, payload={"basis": basis} if pos == 66 else None) for pos in positions)

    text = model_card(made.record(), fetch)
    assert f"- Training logs were published in `example/blue` at commit `c0ffee` ({word}). [[e66]](#e66)" in text
    assert place in next(line for line in text.splitlines() if line.startswith('- <a id="e66">'))
    assert f"({word}) " in next(line for line in text.splitlines() if line.startswith("How to read this card"))


def test_what_is_recorded_is_called_so_only_beside_what_is_not():
    text = card()
    assert "(recorded)" not in "".join(section(text, "What it is"))
    assert "| `held-out` | 5 | 1 | `score` 0.5 | (recorded) [[e28]](#e28) |" in section(text, "Evaluation")


def test_everything_that_is_not_plainly_recorded_says_how_it_is_known():
    known = re.compile(r" \((recorded|claimed|observed|derived( from \w+)?)\)")
    told = [line for line in body(card()) if not known.search(line)]
    plain = {int(pos) for line in told for pos in _MARK.findall(line)} - {made.SIZE - 1}
    assert plain
    assert not plain & (made.CLAIMED_AT | {72, 73})


def test_one_legend_explains_the_words_the_rules_and_where_the_card_stands():
    (line,) = (line for line in body(card()) if line.startswith("How to read this card: "))
    for words in ("(claimed) is", "(observed) was", "(derived) follows", "by `training-1`", "stands at size 90"):
        assert words in line
    assert "(imported)" not in line
    assert line.endswith(f"[[e{made.SIZE - 1}]](#e{made.SIZE - 1})")


def test_in_brief_stands_what_was_trained_how_it_ended_what_was_chosen_and_what_is_not_claimed():
    text = card()
    brief = [line for line in section(text, "In brief") if line.startswith("- ")]
    expected = (
        "The run is a sample",
        "The run `blue-arm-0` trains `example/base-8b-131k` (root architecture `example/root-8b`)",
        (
            "The run failed, for the reason “entropy runaway”; the last step that is known is 38; what went wrong: an "
            "entropy runaway from step 31 on and a reward collapse, which is claimed"
        ),
        (
            "The checkpoint of step 15 was chosen by the rule `trailing-ema` (EMA 0.8639 and reward 0.8418). Step 15 "
            "is the best among eligible steps only"
        ),
        "declared: Good, applicability current; now: Bad, applicability current, with 1 open defect",
        (
            "It was published as `example/blue-step-15-8b`; the verification of its export is recorded; no benchmark "
            "result of it is recorded, and that none is claimed is itself said"
        ),
    )
    assert [words for words, line in zip(expected, brief, strict=True) if words not in line] == []
    assert text.index("## In brief") < text.index("## What it is")


def test_in_brief_a_choice_that_was_deleted_since_is_called_deleted():
    fields = changed("run", "checkpoints", 0, "status", to="deleted")
    fields["run"]["checkpoints"][0]["deleted_pos"] = "79"
    line = next(line for line in section(card(fields), "In brief") if "was chosen by the rule" in line)
    assert "(EMA 0.8639 and reward 0.8418), and is deleted now. " in line
    assert "[[e79]](#e79)" in line


def test_in_brief_a_run_without_choice_or_export_says_that_neither_is_recorded():
    fields = changed("run", "selections", to=None)
    fields["exports"] = []
    brief = "\n".join(section(card(fields), "In brief"))
    assert "- No choice of a checkpoint is recorded (derived). " in brief
    assert "- No export of it is recorded; no benchmark result of it is recorded, and " in brief


def test_in_brief_several_sources_are_counted_by_their_quality():
    fields = copy.deepcopy(made.DOSSIER)
    fields["sources"].append(
        {"atlas_id": "Example:red", "start_size": "12", "now": {**made.SOURCE, "id": "Example:red"}}
    )
    line = next(line for line in section(card(fields), "In brief") if "The Quality of its 2 sources" in line)
    assert "declared: 1 Good, applicability current and 1 not known; now: 1 Bad," in line


def test_the_best_is_the_best_among_eligible_steps_only():
    assert "Step 15 is the best among eligible steps only: the highest of all steps is 0.875 at step 14" in card()


def test_the_absence_of_benchmark_results_is_said_and_cited():
    text = card()
    assert "“no benchmark numbers are claimed here” (claimed). [[e62]](#e62)" in text
    assert "- No benchmark result is recorded (derived). [[e10]](#e10) … [[e80]](#e80)" in text


def test_a_benchmark_result_that_is_claimed_is_told_and_the_absence_is_not():
    text = card(changed("run", "claims", 0, "claim", "absent", to=False))
    assert "A benchmark result is claimed" in text
    assert "No benchmark result is recorded" not in text


def test_kl_that_is_not_measured_is_no_zero():
    assert "not measured, which is not a KL of 0" in card()


def test_contradicting_observations_stand_side_by_side():
    text = card()
    assert "“32k” of `hosting.example` stands beside an RL start whose name says 131k; both are kept" in text
    assert "“FP8” of `hosting.example` stands beside an export in `BF16`; both are kept" in text
    assert "third parties show “32k” and “128k”, which are all kept" in text


def test_what_a_host_showed_at_one_time_is_one_sentence():
    text = card()
    showed = [line for line in section(text, "Hosting") if "The third party" in line]
    assert [_MARK.findall(line) for line in showed] == [["72"], ["73"]]
    assert "on `2026-08-02T07:00:00Z`: the context size “32k” and the quant “FP8” (observed)" in showed[0]


def test_a_claim_is_one_sentence_with_how_it_stands_to_the_record():
    lines = section(card(), "Claims")
    assert [_MARK.findall(line) for line in lines] == [["63"], ["64"]]
    assert "as a number 30; this agrees with what is recorded or derived: “a ratio of 30.2” (claimed)" in lines[0]
    assert "; this contradicts what is recorded or derived (claimed)" in lines[1]
    unknown = card(changed("run", "claims", 1, "standing", to="not_checkable"))
    assert "; nothing recorded bears on it" in section(unknown, "Claims")[0]


@pytest.mark.parametrize(
    ("note", "told"),
    [
        ("the EMA was higher at step 14 (0.8750), which is no saved step", False),
        ("the reward at step 15 scores the weights before update 15", False),
        ("the EMA was higher at step 14 (0.8750), where the checkpoint could not be chosen: it was deleted", True),
        ("with an interval of 4 step 15 could not be chosen", True),
    ],
    ids=["best among eligible", "scored by the next step", "a reason of its own", "another thing"],
)
def test_a_note_on_the_choice_is_left_out_where_another_sentence_says_it(note, told):
    text = card(changed("run", "selections", 0, "notes", to=[note]))
    assert ("Of the selection of step 15: " in text) is told


def test_a_note_stays_where_no_other_sentence_says_it():
    fields = changed("run", "selections", 0, "notes", to=["the reward at step 15 scores the weights before update 15"])
    fields["run"]["checkpoints"] = []
    assert "“the reward at step 15 scores the weights before update 15”" in card(fields)


def test_files_without_a_digest_are_one_sentence_and_files_with_one_are_a_table():
    fields = copy.deepcopy(made.DOSSIER)
    fields["run"]["logs"][0]["files"] += [{"path": "a.csv"}, {"path": "b.csv"}]
    lines = section(card(fields), "Training logs")
    assert "- Published in `example/blue` without a digest: `a.csv` and `b.csv`. [[e66]](#e66)" in lines
    assert f"| `training_logs/metrics.csv` | 2,048 | `{made.digest('csv')}` | [[e66]](#e66) |" in lines


def test_flags_are_called_flags():
    text = card()
    assert section(text, "Flags") == ["- Flagged as `STEP_WENT_BACK`: “step 3 after step 5” (derived). [[e21]](#e21)"]
    assert "## Contradictions" not in text


def test_an_export_that_nobody_verified_is_only_claimed_to_be():
    fields = changed("exports", 0, "verified_pos", to=None)
    fields["exports"][0]["claims"] = [
        {
            "pos": "77",
            "claim": {
                "subject": {"kind": "export", "id": "blue-15"},
                "topic": "export.verification",
                "statement": "all checked",
            },
            "standing": "not_checkable",
        }
    ]
    text = card(fields)
    assert "was verified is only claimed: “all checked”" in text
    assert "a verification of the export `blue-15` with its numbers" in text
    assert text.count("“all checked”") == 1
    assert "no verification of its export is recorded" in "".join(section(text, "In brief"))


_WHOLE = dict.fromkeys(STAGES, "500")


def test_that_rows_trained_the_policy_is_said_only_when_every_trial_did():
    fields = changed("run", "traces", 0, "coverage", to=_WHOLE)
    fields["run"]["traces"][0]["episodes"] = "all"
    assert _OVERCLAIM in card(fields)


@pytest.mark.parametrize(
    ("coverage", "episodes"),
    [
        (_WHOLE, "last"),
        (_WHOLE | {"trained": "499"}, "all"),
        (dict.fromkeys(STAGES, "0"), "all"),
        ({"trained": "500"}, "all"),
    ],
    ids=["last episodes only", "one that did not train", "none at all", "stages that nobody counted"],
)
def test_rows_that_may_not_have_trained_the_policy_are_not_said_to_have(coverage, episodes):
    fields = changed("run", "traces", 0, "coverage", to=coverage)
    fields["run"]["traces"][0]["episodes"] = episodes
    assert _OVERCLAIM not in card(fields)


def test_the_overclaim_is_not_repeated_when_somebody_claims_it():
    line = next(line for line in body(card()) if "traces.coverage` it is claimed" in line)
    assert _OVERCLAIM not in line
    assert "[[e64]](#e64)" in line


def test_training_traces_link_to_the_dataset():
    text = card()
    assert "\n## Training Traces\n" in text
    assert "[`example/blue-traces`](https://huggingface.co/datasets/example/blue-traces)" in text


def test_a_dataset_elsewhere_is_named_and_not_linked():
    text = card(changed("run", "traces", 0, "url", to="https://elsewhere.example/x"))
    assert "](https" not in text


def test_a_card_of_one_export_tells_of_no_other():
    fields = copy.deepcopy(made.DOSSIER)
    fields["exports"].append({"id": "other-20", "status": "started", "started_pos": "75", "basis": "recorded"})
    assert "other-20" in card(fields)
    one = card(fields, export_id="blue-15")
    assert "other-20" not in one
    assert "--export blue-15" in one


def test_an_export_that_the_run_has_not_is_not_found_and_the_others_are_named():
    with pytest.raises(NotFound) as caught:
        card(export_id="nothing")
    assert "blue-15" in caught.value.remedy


def test_the_card_says_where_it_stands_and_how_it_is_made_again():
    text = card()
    assert "stands at size 90 of the ledger" in text
    assert "`ledger card blue-arm-0 --at 90`" in text


def test_a_run_id_that_a_shell_would_act_on_is_quoted_in_the_command():
    assert "`ledger card 'a b;$(x)' --at 90`" in card(changed("run", "summary", "id", to="a b;$(x)"))


def test_a_sentence_on_many_events_names_the_first_and_the_last_and_counts_the_rest():
    text = card(changed("run", "coverage", "positions", to=[str(n) for n in range(20, 60)]))
    line = next(line for line in body(text) if line.startswith("- Trials of the run"))
    assert len(_MARK.findall(line)) == MAX_MARKS
    assert " … 32 more … " in line
    assert line.endswith("[[e59]](#e59)")


def test_the_series_names_the_event_of_its_highest_step():
    series = Series.of([runs_pb2.StepRow(attempt=a, step=s, pos=10 * a + s) for a in (1, 2) for s in (1, 2)])
    assert series.ends == (11, 22)
    assert series.at(2) == 22
    assert series.at(2, attempt=1) == 12
    assert series.at(9) is None


def test_an_event_whose_content_was_redacted_says_so():
    def fetch(positions):
        for event in made.fetch(positions):
            event.ClearField("payload")
            yield event

    text = model_card(made.record(), fetch)
    assert "- The run is a sample, made up for a demonstration (redacted since). [[e11]](#e11)" in text
    assert "(derived from what was redacted since)" in text
    assert "(redacted since) rests on an event whose content was taken out" in text


HOSTILE = (
    '# h\n- x\n\n[l](javascript:alert(1)) ![i](http://e.example/x.png) <script>alert(1)</script> <a id="e1"></a> `c` ``` '
    "**b** | ~~s~~ $$x$$ \\(y\\) https://auto.example www.auto.example :smile: &amp; \x1b[31m \u202e \x00 ---\n---\nlicense: mit"
)


def _hostile(fields: Any) -> Any:
    """Every text of a dossier that somebody recorded, made hostile; words that choose a template stay."""
    chosen = {
        "status", "kind", "origin", "clip", "kl", "recomputed", "best", "verdict", "standing", "role", "episodes",
        "outcome", "disposition", "moment", "compares", "route", "basis", "applicability", "quality",
    }  # fmt: skip
    if isinstance(fields, list):
        return [_hostile(item) if not isinstance(item, str) or not item.isdigit() else item for item in fields]
    if isinstance(fields, dict):
        return {
            key: value if key in chosen or (isinstance(value, str) and value.isdigit()) else _hostile(value)
            for key, value in fields.items()
        }
    return HOSTILE if isinstance(fields, str) else fields


def _tokens(text: str) -> Iterator[Any]:
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(text):
        yield token
        yield from token.children or ()


def _shapes(content: str) -> list[int]:
    """How many cells each row of each table has."""
    cells: list[int] = []
    for token in _tokens(content):
        if token.type == "tr_open":
            cells.append(0)
        elif token.type in ("th_open", "td_open"):
            cells[-1] += 1
    return cells


def test_hostile_text_is_inert_in_every_field():
    text = card(_hostile(made.DOSSIER))
    check_marks(text)
    content = text.split("---\n", 2)[2]
    tokens = list(_tokens(content))
    html = [t.content for t in tokens if t.type in ("html_inline", "html_block")]
    assert html
    assert all(re.fullmatch(r'<a id="e\d+">|</a>', piece) for piece in html)
    links = [t.attrs["href"] for t in tokens if t.type == "link_open"]
    assert all(re.fullmatch(r"#e\d+", link) for link in links)
    kinds = {t.type for t in tokens}
    assert not kinds & {"image", "strong_open", "em_open", "s_open", "fence", "code_block", "hr"}
    assert _shapes(content) == _shapes(card().split("---\n", 2)[2])
    assert [t.content for t in tokens if t.type == "inline" and "license" in t.content.splitlines()] == []
    assert all(char.isprintable() or char == "\n" for char in text)
    assert "www.auto" not in re.sub(r"(`+).*?\1", "", content)


def test_hostile_text_in_the_front_matter_stays_one_string():
    text = card(changed("exports", 0, "models", 0, "license", to='mit"\n---\nbase_model: evil/evil #'))
    head = text.split("\n---\n")[0].splitlines()
    assert head[1] == r'license: "mit\" --- base_model: evil/evil #"'
    assert scalar("a\x1b\u202eb") == '"a\\ufffd\\ufffdb"'


@given(st.text(max_size=60))
def test_a_code_span_holds_any_text_and_ends_where_it_ends(text):
    tokens = MarkdownIt("commonmark").parse(f"x {code(text)} y")[1].children
    assert [t.type for t in tokens] == ["text", "code_inline", "text"]
    assert tokens[2].content == " y"


@given(st.text(alphabet=st.sampled_from("a b*_`[]()<>!&#$~:|\\@^{}\n-+1.w"), max_size=60))
def test_prose_is_text_alone_and_reads_as_it_was_written(text):
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(f"x {prose(text)} y")[1].children
    assert {t.type for t in tokens} <= {"text", "text_special"}
    assert "".join(t.content for t in tokens) == f"x “{' '.join(text.split())}” y"


def test_a_record_of_no_series_cites_the_run_itself():
    record = Record(made.dossier(), Series(), ())
    check_marks(model_card(record, made.fetch))
