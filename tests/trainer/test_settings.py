"""A run's settings: what is refused, with its place, and what is recorded."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ledger.core.errors import InvalidInput
from services.trainer import settings as module
from services.trainer.settings import Settings, read_settings

EXAMPLES = sorted((Path(module.__file__).parent / "examples").glob("*.toml"))
LEAST = """
[run]
id = "r"
folder = "out"
steps = 3
{run}
[model]
kind = "tiny-qwen3"
{model}
[[data]]
kind = "digits"
{data}
{more}
"""


def written(tmp_path: Path, run: str = "", model: str = "", data: str = "", more: str = "") -> Path:
    path = tmp_path / "run.toml"
    path.write_text(LEAST.format(run=run, model=model, data=data, more=more))
    return path


def test_the_least_file_is_enough(tmp_path: Path) -> None:
    settings = read_settings(written(tmp_path))
    assert (settings.run.id, settings.run.steps, settings.data[0].kind) == ("r", 3, "digits")
    assert settings.algorithm.error_treatment == "zero"


REFUSED = {
    "a key that is not known": ({"run": "stpes = 3"}, "run.stpes", "did you mean steps?"),
    "a table that is not known": ({"more": "[models]\nkind = 1"}, "models", "did you mean model?"),
    "a key like no other": ({"run": "zzzzzz = 3"}, "run.zzzzzz", "there is no such key"),
    "a key of a data set": ({"data": "cuont = 3"}, "data.0.cuont", "did you mean count?"),
    "a key of an origin": ({"model": 'origin = {namee = "x"}'}, "model.origin.namee", "did you mean name?"),
    "what is needed": ({"model": "origin = {}"}, "model.origin.name", "is needed"),
    "no prompts": (
        {"more": "[algorithm]\ntrain_batch_size = 0"},
        "algorithm.train_batch_size",
        "greater than or equal",
    ),
    "a group of one": ({"more": "[algorithm]\nn_samples_per_prompt = 1"}, "algorithm.n_samples_per_prompt", "2"),
    "an infinite rate": ({"more": "[algorithm]\nlearning_rate = inf"}, "algorithm.learning_rate", "finite"),
    "a rate that is no number": ({"more": "[algorithm]\nlearning_rate = nan"}, "algorithm.learning_rate", "finite"),
    "an estimator of others": (
        {"more": '[algorithm]\nadvantage_estimator = "grpo"'},
        "algorithm.advantage_estimator",
        "'rloo' or 'rloo_n'",
    ),
    "batches that do not divide": (
        {"more": "[algorithm]\ntrain_batch_size = 8\npolicy_mini_batch_size = 3"},
        "algorithm",
        "must be a multiple",
    ),
    "two KL terms": ({"more": "[algorithm]\nuse_kl_loss = true\nuse_kl_in_reward = true"}, "algorithm", "exclude"),
    "a size of groups without rloo_n": ({"more": "[algorithm]\nrloo_n_min_group_size = 2"}, "algorithm", "no effect"),
    "groups that are never large enough": (
        {"more": '[algorithm]\nadvantage_estimator = "rloo_n"\nrloo_n_min_group_size = 5'},
        "algorithm",
        "no group would ever train",
    ),
    "a KL coefficient without a KL": ({"more": "[algorithm]\nkl_loss_coef = 0.1"}, "algorithm", "`kl_loss_coef`"),
    "a KL estimator without a KL": ({"more": '[algorithm]\nkl_estimator_type = "k1"'}, "algorithm", "`kl_estimator"),
    "an entropy coefficient alone": ({"more": "[algorithm]\nentropy_loss_coef = 0.1"}, "algorithm", "`entropy_loss"),
    "a cap without the correction": ({"more": "[algorithm]\ntis_imp_ratio_cap = 2.0"}, "algorithm", "`tis_imp"),
    "the correction without a cap": ({"more": "[algorithm]\nuse_tis = true"}, "algorithm", "needs `tis_imp_ratio_cap`"),
    "a mask without rloo_n": ({"more": '[algorithm]\nerrors = "mask"'}, "algorithm", "no neutral exclusion"),
    "a path of a model built in code": ({"model": 'path = "x"'}, "model", "`path` is needed"),
    "a name of tasks made here": ({"data": 'name = "x"'}, "data.0", "`name` is needed"),
    "a prompt without a question": ({"data": 'prompt = "Say it."'}, "data.0", "{question}"),
    "an engine's address": ({"more": '[rollouts]\nurl = "http://127.0.0.1:1/v1"'}, "rollouts", "`url` is needed"),
    "a server without address": ({"more": '[rollouts]\nengine = "openai"'}, "rollouts", "`url` is needed"),
    "an address of no protocol": (
        {"more": '[rollouts]\nengine = "openai"\nurl = "file:///etc"'},
        "rollouts.url",
        "pattern",
    ),
    "a key for no server": ({"more": '[rollouts]\napi_key_env = "KEY"'}, "rollouts", "`api_key_env` has no effect"),
    "GPU memory without vllm": ({"more": "[rollouts]\ngpu_memory_utilization = 0.9"}, "rollouts", "`gpu_memory"),
    "shards without an export": ({"more": "[export]\nmax_shard_bytes = 100"}, "export", "`max_shard_bytes`"),
    "evaluation of nothing": ({"run": "eval_interval = 2"}, "the file", "needs data of the role eval"),
    "no data to train on": ({"run": "eval_interval = 2", "data": 'role = "eval"'}, "the file", "the role train"),
    "data that is never used": ({"more": '[[data]]\nkind = "sums"\nrole = "eval"'}, "the file", "never used"),
    "a purpose without words": ({"more": '[select]\npurpose = ""'}, "select.purpose", "at least 1"),
}


@pytest.mark.parametrize(("parts", "place", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_a_file_is_refused_with_the_place(tmp_path: Path, parts: dict[str, str], place: str, why: str) -> None:
    path = written(tmp_path, **parts)
    with pytest.raises(InvalidInput) as caught:
        read_settings(path)
    assert caught.value.reason == "INVALID_FILE"
    assert caught.value.problems[0].place == place
    assert why in caught.value.problems[0].message
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    ("kind", "extra"),
    [("folder", "seed = 1"), ("folder", "layers = 3"), ("gguf", "hidden_size = 8"), ("gguf", "tied = false")],
)
def test_what_only_the_tiny_model_has_is_refused_elsewhere(tmp_path: Path, kind: str, extra: str) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text().replace('"tiny-qwen3"', f'"{kind}"\npath = "m"\n{extra}'))
    with pytest.raises(InvalidInput, match=f"`{extra.split(maxsplit=1)[0]}` has no effect here"):
        read_settings(path)


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_settings(written(tmp_path, run="seed = -1\nthreads = -1", data="count = 0"))
    assert {p.place for p in caught.value.problems} == {"run.seed", "run.threads", "data.0.count"}


@pytest.mark.parametrize("content", [b"[run", b"\xff\xfe", b"a = 1\na = 2"])
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="holds no settings of a run"):
        read_settings(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        read_settings(tmp_path / "nothing.toml")


def test_relative_paths_are_told_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text().replace('"tiny-qwen3"', '"folder"\npath = "models/m"'))
    monkeypatch.chdir("/")
    settings = read_settings(path)
    assert settings.run.folder == tmp_path / "out"
    assert settings.model.path == tmp_path / "models/m"


def test_absolute_paths_stay(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text().replace('"out"', '"/srv/out"'))
    assert read_settings(path).run.folder == Path("/srv/out")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_what_is_recorded_is_the_whole_and_reads_back_alike(path: Path) -> None:
    settings = read_settings(path)
    recorded = settings.recorded()
    assert recorded["algorithm"]["temperature"] == 1.0
    assert Settings.model_validate(recorded) == settings


def test_the_examples_ship_and_name_no_key_twice() -> None:
    assert [path.stem for path in EXAMPLES] == ["smollm2", "tiny"]
    assert all(tomllib.loads(path.read_text()) for path in EXAMPLES)


def test_settings_cannot_be_changed_after_they_were_read(tmp_path: Path) -> None:
    settings = read_settings(written(tmp_path))
    with pytest.raises(ValueError, match="frozen"):
        settings.run.steps = 5
