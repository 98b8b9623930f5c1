"""Two looks at vLLM's counters, and what grew between them."""

from __future__ import annotations

import pytest

from services.trainer.rollouts.vllm_counters import StepCounters


def exposition(*, stop: int, length: int, preempted: int = 0, engines: int = 1, seconds: float = 0.0) -> str:
    lines = ["# TYPE vllm:request_success_total counter"]
    for e in range(engines):
        lines.append(f'vllm:request_success_total{{engine="{e}",finished_reason="stop",model_name="m"}} {stop}')
        lines.append(f'vllm:request_success_total{{engine="{e}",finished_reason="length",model_name="m"}} {length}')
    lines.append("# TYPE vllm:num_preemptions_total counter")
    lines += [f'vllm:num_preemptions_total{{engine="{e}",model_name="m"}} {preempted}' for e in range(engines)]
    lines.append("# TYPE vllm:time_to_first_token_seconds histogram")
    for e in range(engines):
        labels = f'engine="{e}",model_name="m"'
        lines.append(
            f'vllm:time_to_first_token_seconds_bucket{{engine="{e}",le="+Inf",model_name="m"}} {stop + length}'
        )
        lines.append(f"vllm:time_to_first_token_seconds_count{{{labels}}} {stop + length}")
        lines.append(f"vllm:time_to_first_token_seconds_sum{{{labels}}} {seconds}")
    return "\n".join([*lines, ""])


def test_a_step_is_told_the_growth_summed_over_reasons_and_engines() -> None:
    counters = StepCounters()
    counters.since_last(exposition(stop=3, length=1, engines=2, seconds=2.0))
    told = counters.since_last(exposition(stop=5, length=2, preempted=1, engines=2, seconds=3.5))
    assert told == {
        "vllm/num_engines": 2.0,
        "vllm/total_finished_requests": 6.0,
        "vllm/total_preempted_reqs": 2.0,
        "vllm/latency_ttft_mean": pytest.approx(0.5),
    }


def test_an_engine_that_started_anew_counts_from_0() -> None:
    counters = StepCounters()
    counters.since_last(exposition(stop=50, length=0))
    assert counters.since_last(exposition(stop=4, length=3))["vllm/total_finished_requests"] == 7


def test_a_latency_of_no_request_is_not_told() -> None:
    counters = StepCounters()
    counters.since_last(exposition(stop=5, length=0, seconds=1.0))
    assert "vllm/latency_ttft_mean" not in counters.since_last(exposition(stop=5, length=0, seconds=1.0))


def test_an_exposition_without_vllm_tells_nothing() -> None:
    assert StepCounters().since_last("process_start_time_seconds 1.0\n") == {}
