"""Logs of any content: nothing raises, no row is made up, and what was read of a part is what is read of the whole."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from services.adapters.backfill.attempts import Attempts
from services.adapters.backfill.clocks import zone
from services.adapters.backfill.log_items import Malformed, Row
from services.adapters.backfill.skyrl import LogOptions, plan_skyrl
from services.adapters.backfill.training_logs import LogReader
from tests.adapters.builders import ME, mirror

NOISE = st.one_of(
    st.text(max_size=80).map(lambda t: t.encode("utf-8", "replace")),
    st.binary(max_size=80),
    st.sampled_from(
        [
            b"WANDB_MIRROR kind=train step=",
            b"WANDB_MIRROR kind=train step=5 metrics={",
            b'said: WANDB_MIRROR kind=train step=9 metrics={"a": 1}',
            b"{'reward/x': '0.1',",
            b"'trainer/global_step': 7}",
            b"{'a': 'b'}",
            b"trainer:",
            b"  - x",
            b"  a: 1",
            b"RLOO-N: 1/2",
            b"Resumed training from global_step_3",
            b"\x1b[31m",
            b'{"trainer/global_step": ',
            b"INFO 07-27 08:01:10 [loggers.py:1] Engine 000: Avg prompt throughput: nan tokens/s",
            b"INFO 99-99 99:99:99 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s",
            "\ud800".encode("utf-8", "surrogatepass"),
            b"\x00",
        ]
    ),
).map(lambda raw: raw.replace(b"\n", b" ").replace(b"\r", b" "))

ROWS = st.lists(st.tuples(st.integers(1, 12), st.floats(0, 1)), max_size=12)


def lines_of(rows: list[tuple[int, float]]) -> list[bytes]:
    return [mirror(step, **{"reward/avg_raw_reward": reward}).encode() for step, reward in rows]


def read(lines: list[bytes]) -> list[Row]:
    return [item for item in LogReader().items(line + b"\n" for line in lines) if isinstance(item, Row)]


@given(rows=ROWS, noise=st.lists(st.tuples(st.integers(0, 12), NOISE), max_size=30))
@example(rows=[(1, 0.5)], noise=[(0, b"{'reward/x': '0.1',"), (1, b"'trainer/global_step': 7}")])
def test_text_between_rows_neither_hides_one_nor_makes_one_up(rows, noise):
    lines = lines_of(rows)
    expected = [(step, reward) for step, reward in rows]
    for at, text in sorted(noise, key=lambda n: n[0], reverse=True):
        lines.insert(min(at, len(lines)), text)
    got = [(r.step, r.metrics["reward/avg_raw_reward"]) for r in read(lines) if not r.printed]
    assert got == expected
    for row in read(lines):
        if row.printed:  # only from whole blocks, whose lines are all there
            assert any(b"'trainer/global_step': %d}" % row.step in line for line in lines)


@given(st.lists(NOISE, max_size=40))
def test_noise_alone_is_never_a_mirrored_row(noise):
    assert [r for r in read(noise) if not r.printed] == []


@given(st.binary(max_size=400), st.integers(0, 400))
def test_a_row_that_was_cut_anywhere_is_no_row_or_the_row(tail, cut):
    line = mirror(3).encode()
    got = read([line[:cut] if cut < len(line) else line + b" "])
    assert [r.step for r in got] == ([] if cut < len(line) else [3])
    items = list(LogReader().items([line[:cut] + tail.replace(b"\n", b"") + b"\n"]))
    assert all(isinstance(i, (Row, Malformed)) for i in items)


MIRRORED = st.tuples(st.integers(1, 9), st.integers(0, 3)).map(lambda p: mirror(p[0], x=p[1] / 4))
PRINTED = st.tuples(st.integers(1, 9), st.integers(0, 9)).map(
    lambda p: f"{{'reward/avg_raw_reward': '0.{p[1]}000', 'trainer/global_step': {p[0]}}}"
)
OTHERS = st.lists(
    st.one_of(
        st.integers(1, 9).map(lambda n: mirror(n, "eval", **{"eval/a/avg_score": n / 9})),
        st.integers(0, 9).map(lambda n: f"Resumed training from global_step_{n}"),
        st.integers(0, 59).map(
            lambda s: f"INFO 07-27 08:00:{s:02} [loggers.py:1] Engine 000: Avg prompt throughput: {s}.0 tokens/s"
        ),
        st.just(
            "RLOO-N: 3/512 samples excluded from baseline, 0 groups had all samples excluded, "
            "1 groups below min_group_size=4"
        ),
        st.integers(0, 3).map(lambda n: "\n".join(["trainer:", *(f"  k{i}: {n}" for i in range(6)), "end"])),
    ),
    max_size=15,
)
PIECES = st.sampled_from([MIRRORED, PRINTED]).flatmap(
    lambda rows: st.tuples(st.lists(rows, max_size=15), OTHERS).flatmap(
        lambda both: st.permutations([*both[0], *both[1]])
    )
)
"""A log that gives its steps in one of the two forms."""


def recorded(pieces: list[str]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.log"
        path.write_text("".join(f"{piece}\n" for piece in pieces))
        found = plan_skyrl([path], run_id="r", by=ME, options=LogOptions(zone=zone("UTC"), year=2026))
        return [draft.id for draft in found.drafts()]


@given(PIECES, st.data())
def test_a_log_that_was_imported_while_it_grew_records_nothing_that_the_whole_log_does_not(pieces, data):
    cut = data.draw(st.integers(0, len(pieces)))
    assert set(recorded(pieces[:cut])) <= set(recorded(pieces))


@given(PIECES)
def test_within_an_attempt_steps_strictly_increase(pieces):
    attempts = Attempts()
    placed = []
    for item in LogReader().items(f"{line}\n".encode() for piece in pieces for line in piece.split("\n")):
        if not isinstance(item, Malformed):
            placed += attempts.place(item)
    placed += attempts.end()
    by_attempt: dict[int, list[int]] = {}
    for each in placed:
        if isinstance(each.item, Row) and each.item.kind == "train" and not each.duplicate:
            by_attempt.setdefault(each.attempt.number, []).append(each.item.step)
    for steps in by_attempt.values():
        assert steps == sorted(set(steps))
    assert sorted(by_attempt) == list(dict.fromkeys(sorted(by_attempt)))


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=5), lambda c: st.lists(c, max_size=3)))
def test_metrics_of_any_shape_give_numbers_or_nothing(value):
    text = json.dumps({"reward/x": value, "trainer/global_step": 1})
    (item,) = LogReader().items([f"WANDB_MIRROR kind=train step=1 metrics={text}\n".encode()])
    assert isinstance(item, Row)
    assert all(isinstance(v, float) or v in ("NaN", "Infinity", "-Infinity") for v in item.metrics.values())
