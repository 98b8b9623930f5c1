"""A server that speaks as vLLM 0.32 does, in the test's process, and can be made to fail in the ways that it fails.

The shapes are those of the real server: `tests/vllm/test_server_shapes.py` compares the two.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from tests.trainer.rollouts.engines_at_work import Trainer, frozen


class FakeVllm(ThreadingHTTPServer):
    """Has the weights of a trainer, as of the last load from the trainer's folder."""

    daemon_threads = True

    def __init__(self, trainer: Trainer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.trainer = trainer
        self.served = frozen(trainer)
        self.lock = threading.Lock()
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self.keys: set[str | None] = set()
        self.models = ["tiny"]
        self.key: str | None = None
        self.development = True
        self.stale = False
        self.raw_logprobs = False
        self.started = 1000.0
        self.cache_refusals = 0
        self.broken_connections = 0
        self.answers: dict[str, tuple[int, Any]] = {}
        """What a path answers instead."""
        self.choice: dict[str, Any] = {}
        """What stands in a choice instead."""
        self.finished = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def bodies(self, path: str) -> list[dict[str, Any]]:
        return [body for at, body in self.seen if at == path]


@contextmanager
def fake_vllm(trainer: Trainer) -> Iterator[FakeVllm]:
    server = FakeVllm(trainer)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    @property
    def fake(self) -> FakeVllm:
        return cast("FakeVllm", self.server)

    def log_message(self, *_: Any) -> None:
        """Tests read what was seen, and not a terminal."""

    def do_GET(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: dict[str, Any]) -> None:
        fake = self.fake
        with fake.lock:
            fake.seen.append((self.path, body))
            fake.keys.add(self.headers["Authorization"])
            breaks = fake.broken_connections > 0
            fake.broken_connections -= breaks
        if breaks:
            self.close_connection = True
            return
        if fake.key is not None and self.headers["Authorization"] != f"Bearer {fake.key}":
            self._send(401, {"error": "Unauthorized"})
        elif self.path in fake.answers:
            self._send(*fake.answers[self.path])
        else:
            self._send(*self._route(body))

    def _route(self, body: dict[str, Any]) -> tuple[int, Any]:
        fake = self.fake
        if self.path == "/v1/models":
            return 200, {
                "object": "list",
                "data": [{"id": m, "object": "model", "max_model_len": 128} for m in fake.models],
            }
        if self.path == "/version":
            return 200, {"version": "0.32.0"}
        if self.path == "/metrics":
            return 200, _exposition(fake)
        if self.path == "/collective_rpc" and fake.development:
            if not fake.stale:
                assert body["kwargs"]["weights_path"] == str(fake.trainer.folder().absolute())
                fake.served = frozen(fake.trainer)
            return 200, {"results": [None]}
        if self.path == "/reset_prefix_cache" and fake.development:
            fake.cache_refusals -= 1
            return 200, {"success": fake.cache_refusals < 0}
        if self.path == "/v1/completions":
            return 200, self._completions(body)
        return 404, {"detail": "Not Found"}

    def _completions(self, body: dict[str, Any]) -> dict[str, Any]:
        fake = self.fake
        with fake.lock:
            fake.finished += body.get("n", 1)
        return {
            "id": "cmpl-1",
            "object": "text_completion",
            "created": 1796086918,
            "model": body["model"],
            "choices": [_choice(fake, body, index) for index in range(body.get("n", 1))],
            "usage": {"prompt_tokens": len(body["prompt"]), "total_tokens": 10, "completion_tokens": 6},
        }

    def _send(self, status: int, content: Any) -> None:
        data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _choice(fake: FakeVllm, body: dict[str, Any], index: int) -> dict[str, Any]:
    """A choice whose tokens follow from the seed, and whose log-probabilities are the model's."""
    prompt, served = body["prompt"], fake.served
    tokens = [(body.get("seed", 0) + index + 7 * i) % 60 for i in range(body["max_tokens"])]
    temperature = 1.0 if fake.raw_logprobs else body["temperature"]
    with fake.lock:
        logprobs = served.sampled_logprobs(prompt, tokens, temperature)
        top = [served.sampled_logprobs(prompt, [t], temperature)[0] for t in range(body.get("logprobs", 0))]
        asked = served.sampled_logprobs(prompt[:1], prompt[1:], 1.0)
    places = [{str(t): {"logprob": x, "rank": 1, "decoded_token": "a"}} for t, x in zip(prompt[1:], asked, strict=True)]
    return {
        "index": index,
        "text": "a" * len(tokens),
        "logprobs": {
            "text_offset": [12 * i for i in range(len(tokens))],
            "token_logprobs": logprobs,
            "tokens": [f"token_id:{t}" for t in tokens],
            "top_logprobs": [
                {f"token_id:{t}": x} | ({f"token_id:{i}": y for i, y in enumerate(top)} if at == 0 else {})
                for at, (t, x) in enumerate(zip(tokens, logprobs, strict=True))
            ],
        },
        "finish_reason": "length",
        "stop_reason": None,
        "token_ids": tokens,
        "prompt_logprobs": [None, *places] if "prompt_logprobs" in body else None,
        "prompt_token_ids": prompt,
    } | fake.choice


def _exposition(fake: FakeVllm) -> str:
    labels = 'engine="0",model_name="tiny"'
    return "\n".join(
        [
            "# TYPE process_start_time_seconds gauge",
            f"process_start_time_seconds {fake.started}",
            "# TYPE vllm:num_preemptions_total counter",
            f"vllm:num_preemptions_total{{{labels}}} 0.0",
            "# TYPE vllm:request_success_total counter",
            'vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"} 2.0',
            f'vllm:request_success_total{{engine="0",finished_reason="length",model_name="tiny"}} {fake.finished}',
            "# TYPE vllm:e2e_request_latency_seconds histogram",
            f'vllm:e2e_request_latency_seconds_bucket{{engine="0",le="+Inf",model_name="tiny"}} {fake.finished}',
            f"vllm:e2e_request_latency_seconds_count{{{labels}}} {fake.finished}",
            f"vllm:e2e_request_latency_seconds_sum{{{labels}}} {fake.finished * 0.5}",
            "",
        ]
    )
