"""Recorded text is hostile: what may be shown of it in a terminal."""

from __future__ import annotations

import unicodedata

_KEPT = {"\n", "\t"}


def harmless(text: str, *, lines: bool = False) -> str:
    """The text without what a terminal would act on: controls, escapes, bidirectional overrides, lone surrogates.

    Each such character becomes U+FFFD, so that the reader sees that something was there. Line feeds and tabs are kept
    when `lines` is set, and are spaces otherwise.
    """
    if text.isprintable():  # nothing of those kinds is
        return text
    return "".join(_harmless_char(c, lines=lines) for c in text)


def _harmless_char(char: str, *, lines: bool) -> str:
    if char in _KEPT:
        return char if lines else " "
    return "\ufffd" if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"} else char


def is_header_text(text: str, limit: int) -> bool:
    """Printable ASCII (0x20 to 0x7E), not empty, within the limit: what a header may hold."""
    return 0 < len(text) <= limit and text.isascii() and text.isprintable()
