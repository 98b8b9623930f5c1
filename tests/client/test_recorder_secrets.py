"""Secrets: found by their shape, never written, and counted. What merely looks like one is left as it is."""

from __future__ import annotations

from collections import Counter

import pytest

from ledger.client import Recorder
from ledger.client.testing import FakeLedger
from ledger.core.secrets import SHAPES, redact

HEX = "0123456789abcdef0123456789abcdef01234567"
A = "Ab3" * 20

SECRETS = {
    "pem_private_key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----",
    "basic_auth_url": "user:pa55word",
    "url_path_token": A[:40],
    "url_query_token": A[:24],
    "jwt": f"eyJ{A[:20]}.{A[:30]}.{A[:10]}",
    "aws_access_key": "AKIA" + "ABCDEFGH12345678",
    "openai_key": f"sk-proj-{A[:30]}",
    "huggingface_token": f"hf_{A[:34]}",
    "github_token": f"ghp_{A[:36]}",
    "google_api_key": f"AIza{A[:35]}",
    "google_oauth_token": f"ya29.{A[:40]}",
    "slack_token": "xoxb-" + "1234567890-abc",
    "wandb_key": HEX,
}
AROUND = {
    "basic_auth_url": "https://{}@host.example/x",
    "url_path_token": "https://iris.example/proxy/t/{}/v1",
    "url_query_token": "https://host.example/x?a=1&token={}&b=2",
    "wandb_key": "export WANDB_API_KEY={} && python",
}


def test_every_shape_has_its_example():
    assert {name for name, _ in SHAPES} == set(SECRETS)


@pytest.mark.parametrize("shape", SECRETS)
def test_a_secret_is_replaced_by_the_name_of_its_shape_and_nothing_else_is(shape):
    around = AROUND.get(shape, "before {} after")
    cleaned, found = redact(around.format(SECRETS[shape]))
    assert cleaned == around.format(f"<redacted:{shape}>")
    assert found == Counter({shape: 1})


@pytest.mark.parametrize("shape", SECRETS)
def test_what_was_redacted_has_nothing_left_to_redact(shape):
    cleaned, _ = redact(AROUND.get(shape, "{}").format(SECRETS[shape]))
    assert redact(cleaned) == (cleaned, Counter())


def test_a_private_key_without_its_end_is_replaced_to_the_end_of_the_text():
    assert redact("key: -----BEGIN PRIVATE KEY-----\nMIIEvQ")[0] == "key: <redacted:pem_private_key>"


def test_several_secrets_of_one_text_are_all_counted():
    text = f"{SECRETS['openai_key']} {SECRETS['openai_key']} {SECRETS['github_token']}"
    assert redact(text)[1] == Counter({"openai_key": 2, "github_token": 1})


@pytest.mark.parametrize(
    "text",
    [
        HEX,
        f"commit {HEX}",
        "sk-learn and task-based",
        "https://host.example/t/short?step=12&key=v1",
        "https://host.example:8080/path@v2",
        "git@github.com:org/repo.git",
        "hf_transfer",
        "eyJust.a.word",
        "-----BEGIN CERTIFICATE-----",
        "s3://bucket/t/ok",
    ],
)
def test_what_is_no_secret_is_left_as_it_is(text):
    assert redact(text) == (text, Counter())


@pytest.mark.parametrize(("name", "secret"), [("wandb_api_key", True), ("WANDB-KEY", True), ("api_key", True)])
def test_forty_hexadecimal_digits_are_a_key_beside_a_keys_name(name, secret):
    assert redact(HEX, name=name) == ("<redacted:wandb_key>", Counter({"wandb_key": 1}))


@pytest.mark.parametrize("name", ["commit", "sha1", "key_commit", ""])
def test_forty_hexadecimal_digits_are_a_commit_elsewhere(name):
    assert redact(HEX, name=name) == (HEX, Counter())


OPAQUE = "dtn_" + "0a1b2c3d" * 8


@pytest.mark.parametrize(
    "name",
    ["DAYTONA_API_KEY", "api_key", "db.password", "passwd", "client-secret", "access_token", "AWS_SECRET_ACCESS_KEY"],
)
def test_a_secret_of_no_known_shape_is_known_by_the_name_of_its_setting(name):
    assert redact(OPAQUE, name=name) == ("<redacted:named_secret>", Counter({"named_secret": 1}))
    assert redact("<redacted:named_secret>", name=name) == ("<redacted:named_secret>", Counter())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pad_token", "<|endoftext|>"),
        ("eos_token", OPAQUE),
        ("tokenizer", OPAQUE),
        ("key", OPAQUE),
        ("sort_key", OPAQUE),
        ("api_key_file", OPAQUE),
        ("api_key", "EMPTY"),
        ("api_key", "${oc.env:DAYTONA_API_KEY}"),
        ("api_key", "$DAYTONA_API_KEY"),
        ("password", "none is needed here"),
    ],
)
def test_a_name_alone_makes_no_secret_of_what_cannot_be_one(name, text):
    assert redact(text, name=name) == (text, Counter())


def test_a_configuration_is_recorded_without_what_only_its_names_give_away(tmp_path):
    with FakeLedger() as ledger, Recorder(ledger.address, run="r1", spool=tmp_path / "spool", rank=0) as rec:
        rec.config({"env": {"DAYTONA_API_KEY": OPAQUE, "KEYS": {"api_key": [OPAQUE, "EMPTY"]}}, "pad_token": OPAQUE})
        rec.flush()
        said = ledger.of_type("config.recorded")[0].payload
    marker = "<redacted:named_secret>"
    assert said["settings"] == {
        "env.DAYTONA_API_KEY": marker,
        "env.KEYS.api_key": [marker, "EMPTY"],
        "pad_token": OPAQUE,
    }
    assert said["redactions"] == [{"shape": "named_secret", "count": 2}]


def test_no_secret_reaches_the_spool_the_ledger_or_the_refused(tmp_path):
    token = SECRETS["huggingface_token"]
    with FakeLedger() as ledger:
        with Recorder(ledger.address, run="r1", spool=tmp_path / "spool", rank=0) as rec:
            rec.config({"env": {"HF_TOKEN": token, "wandb_api_key": HEX}, f"x {token}": [token]})
            rec.record("run.declared", {"rl_start": None, "sources": [], "purpose": f"with {token}", "wrong": token})
            rec.flush()
            held = b"".join(file.read_bytes() for file in (tmp_path / "spool").rglob("*") if file.is_file())
        sent = b"".join(e.draft.SerializeToString() for e in ledger.events)
    assert token.encode() not in held + sent
    assert HEX.encode() not in held + sent
    (config,) = ledger.of_type("config.recorded")
    (report,) = ledger.of_type("recording.reported")
    counts = [{r["shape"]: r["count"] for r in e.payload["redactions"]} for e in (config, report)]
    assert counts == [{"huggingface_token": 3, "wandb_key": 1}, {"huggingface_token": 5, "wandb_key": 1}]
