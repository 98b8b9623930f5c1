"""Files of any bytes: a reader tells what is wrong with them or reads nothing, and never fails in another way."""

from __future__ import annotations

import gzip
import json
import struct
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from ledger.client.exports.headers import read_shard
from ledger.core.errors import LedgerError
from services.adapters.backfill.export_folders import plan_export
from services.adapters.backfill.harbor_jobs import plan_harbor
from services.adapters.backfill.mlflow_stores import plan_mlflow
from services.adapters.backfill.printed_configs import digest, tree
from services.adapters.backfill.wandb_histories import plan_wandb
from tests.adapters.builders import ME, events, export, result, trial, wandb_file

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from([*sorted(result("a__1234567")), "verifier_result", "exception_info", "verifier"])


@given(st.dictionaries(FIELDS, JSON, max_size=6), JSON)
@example({"verifier_result": {"rewards": {"\ud800": 1}}, "exception_info": {"exception_type": "\ud800"}}, None)
@example({"agent_result": {"n_input_tokens": 10**400, "cost_usd": float("nan")}}, {"stats": {"evals": {"a": 1}}})
def test_a_result_of_any_fields_is_a_trial_that_started(fields, job):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trial(folder, "a__1234567", {"result.json": json.dumps({**result("a__1234567"), **fields})})
        (folder / "result.json").write_text(json.dumps(job))
        (said,) = events(plan_harbor(folder, run_id="r", by=ME), "rollouts.summarised")
    assert said["started"] == 1
    assert said["verified"] <= 1


@given(st.binary(max_size=200), st.integers(0, 300))
def test_a_header_of_any_bytes_is_read_or_refused(data, length):
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a.safetensors"
        path.write_bytes(struct.pack("<Q", length) + data)
        with suppress(LedgerError):
            read_shard(path)


@given(JSON)
def test_an_index_of_any_shape_is_never_called_whole_unless_it_names_every_tensor(value):
    with tempfile.TemporaryDirectory() as name:
        folder = export(Path(name) / "e")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": value, "weight_map": value}))
        said = events(plan_export(folder, export_id="e", run_id="r", step=1, by=ME))
    assert said[-1]["type"] == "export.failed"


@given(st.binary(max_size=300), st.integers(0, 120), st.binary(max_size=20))
def test_an_offline_file_of_any_bytes_is_read_as_far_as_it_goes(tail, cut, middle):
    with tempfile.TemporaryDirectory() as name:
        path = wandb_file(Path(name) / "a.wandb", [{"trainer/global_step": n, "a": n / 2} for n in (1, 2)])
        whole = path.read_bytes()
        path.write_bytes(whole[:cut] + middle + whole[cut + len(middle) :] + tail)
        with suppress(LedgerError):
            plan_wandb([path], run_id="r", by=ME)


@given(st.binary(max_size=300))
@example(b"\x1f\x8b")
@example(b"\x1f\x8b not packed at all")
@example(gzip.compress(b"_step,a\n1,2\n")[:-9])
def test_a_history_or_a_metric_of_any_bytes_gives_rows_or_a_refusal(data):
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a.csv"
        path.write_bytes(data)
        with suppress(LedgerError):
            plan_wandb([path], run_id="r", by=ME)
        run = Path(name) / "run"
        (run / "metrics").mkdir(parents=True)
        (run / "metrics" / "m").write_bytes(data)
        with suppress(LedgerError):
            plan_mlflow([run], [], run_id="r", by=ME)


YAML = st.dictionaries(
    st.from_regex(r"[a-z][a-z_]{0,6}", fullmatch=True),
    st.recursive(
        st.none() | st.booleans() | st.integers(-999, 999) | st.from_regex(r"[a-z /]{1,8}[a-z]", fullmatch=True),
        lambda inner: st.dictionaries(st.from_regex(r"[a-z]{1,5}", fullmatch=True), inner, min_size=1, max_size=3),
        max_leaves=8,
    ),
    min_size=1,
    max_size=4,
)


def printed(settings: dict, indent: int = 0) -> list[str]:
    """As a printer of YAML writes it."""
    lines = []
    for key, value in settings.items():
        if isinstance(value, dict):
            lines += [" " * indent + f"{key}:", *printed(value, indent + 2)]
        else:
            said = json.dumps(value) if value is None or isinstance(value, (bool, int)) else f"'{value}'"
            lines.append(" " * indent + f"{key}: {said}")
    return lines


@given(YAML)
def test_a_printed_configuration_is_read_back_as_it_was(settings):
    assert tree(printed(settings)) == settings
    assert digest(tree(printed(settings))) == digest(settings)
