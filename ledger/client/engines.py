"""Counters of rollout engines, scraped from their Prometheus endpoint and recorded as they stand.

    with EngineScraper(recorder, {"engine-0": "http://127.0.0.1:8000/metrics"}, attempt=1, every=15.0):
        train()

A thread of its own looks at every engine now and then. An engine that does not answer is not waited for beyond a
timeout, and never stops training: the next look tries it again, and what failed is counted. Names are those of the
endpoint, with their labels; what is too long for a key ends in a digest of it. A label that only repeats the engine or
its model is left out, buckets of histograms are not taken, and where one address answers for several engines, each
becomes a sample of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from types import TracebackType
from typing import Any, Final, Protocol, Self
from urllib.request import urlopen

from ledger.core import clock
from ledger.core.errors import InvalidInput, LedgerError
from ledger.core.ids import sha256_hex

REPEATED: Final = frozenset({"engine", "model_name"})
"""Labels of vLLM that say which engine it is, and what it serves."""
MAX_BYTES: Final = 16 * 1024 * 1024
MAX_KEY: Final = 512
PREFIXES: Final = ("vllm:", "ray_vllm_")
TIMEOUT: Final = 5.0

Sample = dict[str, Any]


class Records(Protocol):
    """What a recorder does, as far as it is needed here."""

    def record(self, type_: str, payload: dict[str, Any], /) -> object: ...


class EngineScraper:
    """Looks at engines from a thread of its own between `start` and `stop`.

    Args:
        recorder: Takes the events.
        endpoints: The address of each engine's metrics, by the engine's name.
        attempt: The attempt that the engines serve.
        every: Seconds from one look to the next.
        prefixes: Metrics whose names begin otherwise, such as the process's own, are left out.
        now: The present step, phase and weight version, where the loop knows them: merged into every sample.
    """

    def __init__(
        self,
        recorder: Records,
        endpoints: Mapping[str, str],
        *,
        attempt: int,
        every: float = 15.0,
        prefixes: tuple[str, ...] = PREFIXES,
        now: Callable[[], Sample] = dict,
    ) -> None:
        wrong = [url for url in endpoints.values() if not url.startswith(("http://", "https://"))]
        if wrong or not endpoints:
            raise InvalidInput(
                f"{wrong[0]!r} is no HTTP address" if wrong else "no engine is named",
                reason="USAGE",
                remedy='Name each engine\'s metrics, such as {"engine-0": "http://127.0.0.1:8000/metrics"}.',
            )
        _parser()
        self._recorder = recorder
        self._endpoints = dict(endpoints)
        self._attempt = attempt
        self._every = every
        self._prefixes = prefixes
        self._now = now
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.failures: dict[str, int] = {}
        """How often an engine did not answer, or not with metrics."""

    def sample(self) -> list[Sample]:
        """Looks at every engine once and records what was seen, as one event."""
        samples = [sample for name, url in self._endpoints.items() for sample in self._look(name, url)]
        if samples:
            self._recorder.record("engine.sampled", {"attempt": self._attempt, "samples": samples})
        return samples

    def start(self) -> Self:
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="engine-scraper", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Ends the thread; a look that is on its way is waited for, within its timeouts."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(TIMEOUT * (len(self._endpoints) + 1))
            self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.sample()
            except Exception:  # noqa: BLE001  # whatever it is, training goes on
                self._failed("recorder")
            self._stop.wait(self._every)

    def _look(self, name: str, url: str) -> list[Sample]:
        try:
            found = engines_in(_fetched(url), name, prefixes=self._prefixes)
        except (OSError, ValueError, HTTPException):
            self._failed(name)
            return []
        context = {"sampled_at": clock.to_text(clock.system_clock()), **self._now()}
        return [{"engine": engine, **context, "metrics": metrics} for engine, metrics in found.items()]

    def _failed(self, name: str) -> None:
        self.failures[name] = self.failures.get(name, 0) + 1


def _fetched(url: str) -> str:
    with urlopen(url, timeout=TIMEOUT) as answer:  # noqa: S310  # only http, as its maker checked
        data = answer.read(MAX_BYTES + 1)
        missing = answer.length
    if len(data) > MAX_BYTES:
        raise ValueError("it answers with too much")
    if missing:
        raise ValueError("its answer is cut off: the last number may be a part of one")
    return str(data, "utf-8")


def engines_in(text: str, name: str, *, prefixes: tuple[str, ...] = PREFIXES) -> dict[str, dict[str, float]]:
    """The metrics of each engine that a Prometheus text speaks of.

    Args:
        text: The exposition, as the endpoint gives it.
        name: The engine's name; where the text tells several apart by label, `name/LABEL`.
        prefixes: Only metrics whose names begin so.

    Raises:
        ValueError: it is no exposition.
    """
    found: dict[str, dict[str, float]] = {}
    for engine, key, value in _samples(text, prefixes):
        found.setdefault(engine, {})[key] = value
    labelled = sorted(filter(None, found))
    if len(labelled) <= 1:
        merged = {key: value for metrics in found.values() for key, value in metrics.items()}
        return {name: merged} if merged else {}
    return {f"{name}/{engine}" if engine else name: metrics for engine, metrics in found.items()}


def _samples(text: str, prefixes: tuple[str, ...]) -> Iterator[tuple[str, str, float]]:
    for family in _parser()(text):
        for sample in family.samples:
            if sample.name.startswith(prefixes) and not sample.name.endswith(("_bucket", "_created")):
                labels = sorted((k, v) for k, v in sample.labels.items() if k not in REPEATED)
                told = ",".join(f'{k}="{v}"' for k, v in labels)
                key = f"{sample.name}{{{told}}}" if told else sample.name
                yield sample.labels.get("engine", ""), _short(key), sample.value


def _short(key: str) -> str:
    """The key as an event can hold it: vLLM writes its whole cache configuration into the labels of one metric."""
    return key if len(key) <= MAX_KEY else f"{key[: MAX_KEY - 17]}#{sha256_hex(key.encode())[:16]}"


def _parser() -> Callable[[str], Any]:
    try:
        from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415  # of an extra
    except ModuleNotFoundError:
        raise LedgerError(
            "reading engines' metrics needs the package prometheus-client, which is not installed",
            reason="EXTRA_MISSING",
            remedy="Run `pip install 'atlas-ledger[engines]'`.",
            details={"extra": "engines", "package": "prometheus-client"},
        ) from None
    return text_string_to_metric_families
