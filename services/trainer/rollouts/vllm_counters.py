"""What vLLM's counters say of a step: their growth since the last look, by the keys that trainers of its kind log.

Only what can be told from two looks is told. Peaks and medians need a look now and then: `EngineScraper` of
`ledger.client.engines` records those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ledger.client.engines import engines_in

TOTALS: Final = {
    "vllm/total_finished_requests": "vllm:request_success_total",
    "vllm/total_preempted_reqs": "vllm:num_preemptions_total",
    "vllm/total_prompt_tokens": "vllm:prompt_tokens_total",
    "vllm/total_generation_tokens": "vllm:generation_tokens_total",
}
MEANS: Final = {
    "vllm/latency_e2e_mean": "vllm:e2e_request_latency_seconds",
    "vllm/latency_ttft_mean": "vllm:time_to_first_token_seconds",
    "vllm/latency_queued_mean": "vllm:request_queue_time_seconds",
    "vllm/latency_prefill_mean": "vllm:request_prefill_time_seconds",
    "vllm/latency_decode_mean": "vllm:request_decode_time_seconds",
}


class StepCounters:
    """Turns expositions of Prometheus into the metrics of steps."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}

    def since_last(self, exposition: str) -> Mapping[str, float]:
        """What grew since the last exposition; an engine that started anew counts from 0.

        Raises:
            ValueError: it is no exposition.
            LedgerError: reason EXTRA_MISSING.
        """
        engines = engines_in(exposition, "vllm", prefixes=("vllm:",))
        if not engines:
            return {}
        now = _summed(engines)
        before, self._before = self._before, now

        def grown(name: str) -> float:
            new, old = now.get(name, 0.0), before.get(name, 0.0)
            return new - old if new >= old else new

        told = {key: grown(name) for key, name in TOTALS.items() if name in now}
        for key, name in MEANS.items():
            if count := grown(f"{name}_count"):
                told[key] = grown(f"{name}_sum") / count
        return {"vllm/num_engines": float(len(engines)), **told}


def _summed(engines: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Each metric by its bare name: over all engines and labels, such as the reason why a request finished."""
    sums: dict[str, float] = {}
    for metrics in engines.values():
        for key, value in metrics.items():
            name = key.partition("{")[0]
            sums[name] = sums.get(name, 0.0) + value
    return sums
