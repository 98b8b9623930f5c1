"""Engines' counters are recorded as their endpoint gives them, and an engine that fails never stops anything."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from ledger.client.engines import EngineScraper, engines_in
from ledger.core import strictjson
from ledger.core.errors import InvalidInput, LedgerError
from ledger.events import REGISTRY

TEXT = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="policy"} 3.0
# TYPE vllm:request_success counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="policy"} 40.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="policy"} 2.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="policy"} NaN
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="policy"} 42.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="policy"} 42.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="policy"} 1.5
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 1.0
"""


NAN = "vllm:kv_cache_usage_perc"


class Recorded:
    """Stands for a recorder: what it was given."""

    def __init__(self, error: Exception | None = None) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.seen = threading.Event()
        self._error = error

    def record(self, type_: str, payload: dict[str, Any], /) -> None:
        self.events.append((type_, payload))
        self.seen.set()
        if self._error:
            raise self._error


@contextmanager
def serving(body: bytes, status: int = 200, *, promised: int | None = None, speaks: bool = True) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if speaks:
                self.send_response(status)
                if promised is not None:
                    self.send_header("Content-Length", str(promised))
                self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_engines_metrics_keep_their_names_and_the_labels_that_say_something() -> None:
    found = engines_in(TEXT, "engine-0")

    assert list(found) == ["engine-0"]
    assert math.isnan(found["engine-0"].pop("vllm:kv_cache_usage_perc"))
    assert found["engine-0"] == {
        "vllm:num_requests_running": 3.0,
        'vllm:request_success_total{finished_reason="stop"}': 40.0,
        'vllm:request_success_total{finished_reason="length"}': 2.0,
        "vllm:time_to_first_token_seconds_count": 42.0,
        "vllm:time_to_first_token_seconds_sum": 1.5,
    }


def test_two_engines_behind_one_address_are_two_samples() -> None:
    found = engines_in(TEXT + 'vllm:num_requests_running{engine="1",model_name="policy"} 5.0\n', "node-a")

    assert found["node-a/0"]["vllm:num_requests_running"] == 3.0
    assert found["node-a/1"] == {"vllm:num_requests_running": 5.0}


def test_what_ray_serves_is_taken_too_and_a_text_without_engines_gives_none() -> None:
    assert engines_in("ray_vllm_num_requests_running 2\n", "e") == {"e": {"ray_vllm_num_requests_running": 2.0}}
    assert engines_in("process_cpu_seconds_total 2\n", "e") == {}


def test_one_look_is_one_event_that_the_vocabulary_takes() -> None:
    recorder = Recorded()
    with serving(TEXT.encode()) as url:
        EngineScraper(
            recorder, {"engine-0": url}, attempt=2, now=lambda: {"step": 15, "phase": "train", "weight_version": 14}
        ).sample()

    ((type_, payload),) = recorder.events
    sample = payload["samples"][0]
    assert (type_, payload["attempt"], sample["engine"], sample["step"]) == ("engine.sampled", 2, "engine-0", 15)
    sample["metrics"]["vllm:kv_cache_usage_perc"] = "NaN"
    REGISTRY.check(type_, 1, strictjson.dumps({"run_id": "r", **payload}))


@pytest.mark.parametrize(("body", "status"), [(b"not { metrics", 200), (b"", 503), (b"\xff\xfe", 200)])
def test_an_engine_that_answers_wrongly_is_counted_and_the_others_are_recorded(body: bytes, status: int) -> None:
    recorder = Recorded()
    with serving(body, status) as bad, serving(TEXT.encode()) as good:
        scraper = EngineScraper(recorder, {"bad": bad, "good": good}, attempt=1)
        scraper.sample()

    assert scraper.failures == {"bad": 1}
    assert [s["engine"] for s in recorder.events[0][1]["samples"]] == ["good"]


def test_an_answer_that_is_cut_off_is_counted_and_none_of_its_numbers_recorded() -> None:
    recorded = Recorded()
    with serving(TEXT.encode(), promised=len(TEXT) + 3) as cut:
        scraper = EngineScraper(recorded, {"engine-0": cut}, attempt=1)
        assert scraper.sample() == []
    assert scraper.failures == {"engine-0": 1}
    assert recorded.events == []


def test_what_does_not_speak_http_is_counted_and_the_others_are_recorded() -> None:
    recorded = Recorded()
    with serving(b"220 mail ready\r\n", speaks=False) as other, serving(TEXT.encode()) as good:
        scraper = EngineScraper(recorded, {"other": other, "good": good}, attempt=1)
        assert [s["engine"] for s in scraper.sample()] == ["good"]
    assert scraper.failures == {"other": 1}


def test_a_metric_whose_labels_hold_a_whole_configuration_does_not_cost_the_others() -> None:
    """vLLM's `cache_config_info` has one label for each setting."""
    labels = ",".join(f'setting_{number:02}="{"x" * 30}"' for number in range(20))
    info = '# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{engine="0",%s} 1.0\n'
    found = engines_in(TEXT + info % labels + info.split("\n")[1] % labels.replace("x", "y") + "\n", "e")["e"]
    REGISTRY.check(
        "engine.sampled",
        1,
        strictjson.dumps(
            {
                "run_id": "r",
                "attempt": 1,
                "samples": [{"engine": "e", "sampled_at": "2026-07-27T00:00:00Z", "metrics": {**found, NAN: "NaN"}}],
            }
        ),
    )
    assert sum(key.startswith("vllm:cache_config_info{setting_00=") for key in found) == 2
    assert found["vllm:num_requests_running"] == 3.0


def test_nothing_is_recorded_when_no_engine_answers() -> None:
    recorder = Recorded()
    with serving(b"", 500) as url:
        assert EngineScraper(recorder, {"e": url}, attempt=1).sample() == []

    assert recorder.events == []


def test_the_thread_looks_again_and_again_and_ends_with_the_block() -> None:
    recorder = Recorded(error=RuntimeError("the recorder is closed"))
    with serving(TEXT.encode()) as url, EngineScraper(recorder, {"e": url}, attempt=1, every=0.01) as scraper:
        assert recorder.seen.wait(10)
        recorder.seen.clear()
        assert recorder.seen.wait(10), "a fault of the recorder does not end the looking"

    assert not any(t.name == "engine-scraper" for t in threading.enumerate())
    assert scraper.failures["recorder"] >= 1


@pytest.mark.parametrize("endpoints", [{}, {"e": "file:///etc/passwd"}, {"e": "127.0.0.1:8000"}])
def test_an_address_that_is_none_is_refused_at_once(endpoints: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match=r"no engine|no HTTP") as caught:
        EngineScraper(Recorded(), endpoints, attempt=1)

    assert caught.value.reason == "USAGE"


def test_a_missing_package_is_named_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client.parser", None)

    with pytest.raises(LedgerError, match="prometheus-client") as caught:
        EngineScraper(Recorded(), {"e": "http://127.0.0.1:1/metrics"}, attempt=1)

    assert "atlas-ledger[engines]" in caught.value.remedy
