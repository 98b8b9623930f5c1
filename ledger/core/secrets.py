"""Credentials within text: found by their shape, replaced by the name of it.

The shapes are those that have leaked from configurations, command lines and logs. A shape is precise rather than
greedy, so that a digest or a commit is never taken for a key: forty hexadecimal digits are one only beside a key's
name. What a setting is called can tell too, where no shape does: `DAYTONA_API_KEY`, `db.password`.
What was found is counted and never shown.

    text, found = redact("HF_TOKEN=hf_abcdefghijklmnopqrstuvwx")     # "HF_TOKEN=<redacted:huggingface_token>", {...: 1}
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

_QUERY_NAMES: Final = (
    *("token", "access_token", "auth", "api_key", "apikey", "key", "sig", "signature", "password", "secret"),
    *("x-amz-signature", "x-amz-security-token", "x-goog-signature"),
)
_QUERY: Final = rf"(?i:{'|'.join(rf'(?<=[?&]{name}=)' for name in _QUERY_NAMES)})[^\s&#\"'<>]{{8,}}"

SHAPES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        (
            "pem_private_key",
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",
        ),
        ("basic_auth_url", r"(?<=://)[^\s/@:?#<>\"']{1,256}:[^\s/@?#<>\"']{1,512}(?=@)"),
        (
            "url_path_token",
            r"(?<=/t/)[A-Za-z0-9._~-]{16,}|(?<=/token/)[A-Za-z0-9._~-]{16,}|(?<=/tokens/)[A-Za-z0-9._~-]{16,}",
        ),
        (
            "url_query_token",
            _QUERY,
        ),
        ("jwt", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
        ("aws_access_key", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
        ("openai_key", r"\bsk-[A-Za-z0-9_-]{20,}"),
        ("huggingface_token", r"\bhf_[A-Za-z0-9]{20,}"),
        ("github_token", r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
        ("google_api_key", r"\bAIza[A-Za-z0-9_-]{35}"),
        ("google_oauth_token", r"\bya29\.[A-Za-z0-9_-]{20,}"),
        ("slack_token", r"\bxox[abprs]-[A-Za-z0-9-]{10,}"),
        ("wandb_key", r"(?i:(?<=wandb_api_key=)|(?<=wandb_api_key: )|(?<=wandb_key=)|(?<=wandb login ))[0-9a-f]{40}\b"),
    )
)
"""The name of each shape and what it matches: the secret itself, not what stands around it."""

NAMED: Final = "named_secret"
"""The shape of a secret that only its name gives away."""
_HINTS: Final = (
    *("-----BEGIN", "://", "/t/", "/token/", "/tokens/", "eyJ", "AKIA", "ASIA", "sk-", "hf_", "github_pat_"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "AIza", "ya29.", "xox", "?", "&"),
)
"""What every shape needs one of, or the word wandb. Most text has none, and is looked at no further."""

_WANDB_NAME: Final = re.compile(r"(?i)wandb[._-]?(?:api)?[._-]?key|^api[._-]?key$")
_FORTY_HEX: Final = re.compile(r"[0-9a-f]{40}")
_NAME_ENDS: Final = ("key", "secret", "password", "passwd", "token")
_SECRET_NAME: Final = re.compile(
    r"(?i)(?:^|[._-])(?:(?:api|secret|private|access|auth)[._-]?key|secret|password|passwd"
    r"|(?:access|auth|api|hf|bearer|refresh|github|gh|session|security|secret)[._-]?token)$"
)
_OPAQUE: Final = re.compile(r"[^\s$<>{}/]{8,}|[^\s$<>{}]{20,}")
"""What a secret may look like: no prose, no reference to an environment variable, no short path."""


def redact(text: str, *, name: str = "") -> tuple[str, Counter[str]]:
    """The text with each secret replaced by `<redacted:shape>`, and how many of each shape there were.

    Args:
        text: What may hold secrets.
        name: The key or variable that the text is the value of, where there is one.
    """
    if _FORTY_HEX.fullmatch(text) and _WANDB_NAME.search(name):
        return _marker("wandb_key"), Counter({"wandb_key": 1})
    found: Counter[str] = Counter()
    if may_hold_secret(text):
        for shape, pattern in SHAPES:
            text, count = pattern.subn(_marker(shape), text)
            if count:
                found[shape] = count
    if not found and _is_named_secret(text, name):
        return _marker(NAMED), Counter({NAMED: 1})
    return text, found


def may_hold_secret(text: str, *, name: str = "") -> bool:
    """False: there certainly is none. Quick, for text that mostly holds none."""
    # One substring after another: quicker than one pattern with as many alternatives.
    for hint in _HINTS:
        if hint in text:
            return True
    if "wandb" in text.lower() or (len(text) == 40 and _WANDB_NAME.search(name) is not None):
        return True
    return _is_named_secret(text, name)


def _is_named_secret(text: str, name: str) -> bool:
    """Whether a setting of that name holds what only its owner may know."""
    return (
        name.lower().endswith(_NAME_ENDS)
        and _SECRET_NAME.search(name) is not None
        and _OPAQUE.fullmatch(text) is not None
    )


def _marker(shape: str) -> str:
    return f"<redacted:{shape}>"
