"""Taking out of text what must not be published, and what no file can hold: secrets by shape, lone surrogates.

Nothing else of a text is altered. One `Cleaner` cleans one trial, its conversation first: the tokens of a text that
held a secret still spell it, so they go with it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ledger.core.secrets import redact
from services.adapters.traces.accounts import Account

LONE: Final = "lone surrogate"
_LONE: Final = re.compile("[\ud800-\udfff]")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_DEPTH: Final = 64


def without_lone(text: str) -> tuple[str, int]:
    """The text with U+FFFD for each half of a character, and how many there were."""
    return _LONE.subn("\ufffd", text)


class Cleaner:
    """Cleans the text of one trial, and counts what it does."""

    def __init__(self, account: Account, place: str) -> None:
        self._account = account
        self._place = place
        self._found = False

    def text(self, text: str, *, name: str = "") -> str:
        """The text without secrets; `name` is the key that it is the value of, where there is one."""
        text, lone = without_lone(text)
        if lone:
            self._account.replaced[LONE] += lone
        text, found = redact(text, name=name)
        if found:
            self._found = True
            self._account.redactions.update(found)
        return text

    def tokens(self, columns: dict[str, Any]) -> dict[str, Any]:
        """The tokens of the text that was cleaned so far; none if a secret was in it."""
        if not self._found:
            return columns
        if any(value is not None for value in columns.values()):
            self._account.note("token ids withheld, since they spell a secret", self._place)
        return {}

    def optional(self, text: str | None) -> str | None:
        return None if text is None else self.text(text)

    def label(self, text: str | None) -> str | None:
        """As `text`, of a name: that it holds control characters is told, and they stay."""
        if text is not None and _CONTROL.search(text):
            self._account.note("control characters in a name", self._place)
        return self.optional(text)

    def decoded(self, data: bytes) -> str:
        """The text of a file that need not be UTF-8."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = data.decode("utf-8", "replace")
            self._account.replaced["bytes that are no UTF-8"] += text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
        return self.text(text)

    def value(self, value: Any, *, name: str = "", depth: int = 0) -> Any:
        """A JSON value with every text in it cleaned, by the name of its key.

        Raises:
            ValueError: if it nests deeper than anybody's arguments do.
        """
        if isinstance(value, str):
            return self.text(value, name=name)
        if depth >= _DEPTH:
            raise ValueError("nested too deep")
        if isinstance(value, dict):
            return {self.text(k): self.value(v, name=k, depth=depth + 1) for k, v in value.items()}
        if isinstance(value, list):
            return [self.value(one, name=name, depth=depth + 1) for one in value]
        return value
