"""The engine in the trainer's process, against fresh forward passes of the model."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch

from ledger.core.errors import InvalidInput, Unavailable
from services.trainer.models import full_names
from services.trainer.rollouts.decoding import draw, stream
from services.trainer.rollouts.engines import Completion, Sampling, Weights
from services.trainer.rollouts.transformers_engine import TransformersEngine
from tests.trainer.rollouts.engines_at_work import Trainer, no_folder, trainer

PROMPTS = [[5, 6, 7], [8, 9, 10, 11, 12, 13, 14, 15], [20], [21, 22]]
FLOAT32 = 1e-5
"""The largest difference of log-probabilities that sums in another order make, in a model this small."""


def engine_of(of: Trainer, *, loaded: bool = True, **how: Any) -> TransformersEngine:
    how = {"ends": of.stop_ids, **how}
    engine = TransformersEngine(of.model.config, dtype=torch.float32, device="cpu", **how)
    if loaded:
        engine.load(of.weights())
    return engine


def sampling(**how: Any) -> Sampling:
    return Sampling(**{"n": 3, "max_tokens": 12, "temperature": 1.0, "seed": 3, **how})


def flat(answers: list[list[Completion]]) -> list[Completion]:
    return [completion for group in answers for completion in group]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
@pytest.mark.parametrize("tied", [True, False])
def test_log_probabilities_are_those_of_a_fresh_forward_pass_at_the_temperature(temperature: float, tied: bool) -> None:
    of = trainer(tied=tied)
    answers = engine_of(of).generate(PROMPTS, sampling(temperature=temperature))
    for prompt, group in zip(PROMPTS, answers, strict=True):
        for completion in group:
            assert completion.logprobs == pytest.approx(
                of.sampled_logprobs(prompt, completion.token_ids, temperature), abs=FLOAT32
            )


def test_a_result_depends_neither_on_the_size_of_the_batch_nor_on_its_other_members() -> None:
    of = trainer()
    together = engine_of(of).generate(PROMPTS, sampling())
    in_parts = engine_of(of, max_concurrent=1).generate(PROMPTS, sampling())
    alone = engine_of(of).generate(PROMPTS[:1], sampling())
    others = engine_of(of).generate([PROMPTS[0], [30] * 40], sampling())
    for found in (in_parts[0], alone[0], others[0]):
        assert [c.token_ids for c in found] == [c.token_ids for c in together[0]]
    assert [c.token_ids for c in flat(in_parts)] == [c.token_ids for c in flat(together)]
    for one, other in zip(flat(in_parts), flat(together), strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=FLOAT32)


def test_the_same_call_gives_the_same_bits_whatever_torchs_generators_are_at() -> None:
    of = trainer()
    torch.manual_seed(1)
    first = engine_of(of).generate(PROMPTS, sampling())
    torch.manual_seed(2)
    assert engine_of(of).generate(PROMPTS, sampling()) == first


def test_neither_building_nor_sampling_moves_torchs_generators() -> None:
    of = trainer()
    before = torch.get_rng_state()
    engine_of(of).generate(PROMPTS, sampling())
    assert torch.equal(torch.get_rng_state(), before)


def test_another_seed_and_another_sample_give_other_tokens() -> None:
    engine = engine_of(trainer())
    first, second = engine.generate([PROMPTS[1]] * 2, sampling(max_tokens=20))
    (other,) = engine.generate([PROMPTS[1]], sampling(max_tokens=20, seed=4))
    drawn = [c.token_ids for c in (*first, *second, *other)]
    assert len(set(drawn)) == len(drawn)


def test_an_answer_ends_with_its_end_token_or_at_the_limit() -> None:
    of = trainer()
    every_token = range(of.model.config.vocab_size)
    (at_once,) = engine_of(of, ends=every_token).generate([PROMPTS[0]], sampling())
    assert all(len(c.token_ids) == 1 and c.finish == "stop" for c in at_once)
    (never,) = engine_of(of, ends=()).generate([PROMPTS[0]], sampling())
    assert all(len(c.token_ids) == 12 and c.finish == "length" for c in never)
    some = frozenset(range(10))
    for completion in flat(engine_of(of, ends=some).generate(PROMPTS, sampling(n=8))):
        assert not some & set(completion.token_ids[:-1])
        assert (completion.token_ids[-1] in some) == (completion.finish == "stop")
        assert completion.finish == "stop" or len(completion.token_ids) == 12
        assert completion.logprobs is not None
        assert len(completion.logprobs) == len(completion.token_ids)


def test_an_end_token_at_the_limit_is_a_stop() -> None:
    of = trainer()
    (group,) = engine_of(of, ends=range(of.model.config.vocab_size)).generate([[5]], sampling(max_tokens=1))
    assert {c.finish for c in group} == {"stop"}


def test_tokens_are_drawn_as_often_as_the_model_says() -> None:
    of = trainer()
    draws = 4000
    (group,) = engine_of(of).generate([PROMPTS[1]], sampling(n=draws, max_tokens=1, temperature=0.5))
    counts = Counter(c.token_ids[0] for c in group)
    for token in range(of.model.config.vocab_size):
        expected = math.exp(of.sampled_logprobs(PROMPTS[1], [token], 0.5)[0])
        spread = math.sqrt(expected * (1 - expected) / draws)
        assert abs(counts[token] / draws - expected) < 5 * spread + 1 / draws


@pytest.mark.parametrize(
    ("prompt", "error"),
    [([], "EmptyPrompt"), ([99_999], "UnknownToken"), ([-1], "UnknownToken"), ([5] * 2040, "PromptTooLong")],
)
def test_a_prompt_that_cannot_be_answered_fails_alone(prompt: list[int], error: str) -> None:
    engine = engine_of(trainer())
    sound, broken, last = engine.generate([PROMPTS[0], prompt, PROMPTS[2]], sampling())
    assert broken == [Completion((), None, "error", error)] * 3
    assert all(c.finish != "error" and c.token_ids for c in (*sound, *last))
    assert [c.token_ids for c in sound] == [c.token_ids for c in engine.generate([PROMPTS[0]], sampling())[0]]


def test_weights_that_are_not_finite_give_errors_and_no_answers() -> None:
    of = trainer()
    with torch.no_grad():
        next(of.model.parameters()).fill_(math.nan)
    assert set(flat(engine_of(of).generate(PROMPTS, sampling()))) == {Completion((), None, "error", "NotFiniteLogits")}


def test_a_batch_for_which_there_is_no_memory_is_errors_of_that_type(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("services.trainer.rollouts.transformers_engine.decode", exhausted)
    (group,) = engine_of(trainer()).generate([PROMPTS[0]], sampling())
    assert group == [Completion((), None, "error", "OutOfMemoryError")] * 3


def test_what_the_trainer_does_after_a_load_has_no_effect_before_the_next() -> None:
    of = trainer()
    engine = engine_of(of)
    before = engine.generate(PROMPTS, sampling())
    of.update()
    assert engine.generate(PROMPTS, sampling()) == before
    assert engine.weight_version == 0
    engine.load(of.weights())
    after = engine.generate(PROMPTS, sampling())
    assert after != before
    assert engine.weight_version == 1
    assert after[1][0].logprobs == pytest.approx(
        of.sampled_logprobs(PROMPTS[1], after[1][0].token_ids, 1.0), abs=FLOAT32
    )


@pytest.mark.parametrize("change", ["missing", "left over", "shape"])
def test_weights_that_do_not_fit_are_refused_with_their_names_and_nothing_is_copied(change: str) -> None:
    of = trainer()
    engine = engine_of(of)
    before = engine.probe([1, 2, 3])
    of.update()
    state = {n: t.detach() for n, t in full_names(of.model).items()}
    name = "model.layers.1.mlp.up_proj.weight"
    if change == "missing":
        del state[name]
    elif change == "left over":
        name = "model.layers.9.mlp.up_proj.weight"
        state[name] = torch.zeros(1)
    else:
        state[name] = torch.zeros(3, 4)
    with pytest.raises(InvalidInput, match=name):
        engine.load(Weights(1, lambda: state, no_folder))
    assert engine.probe([1, 2, 3]) == before
    assert engine.weight_version == 0


def test_an_engine_without_weights_samples_nothing() -> None:
    of = trainer()
    engine = engine_of(of, loaded=False)
    assert engine.weight_version == -1
    with pytest.raises(Unavailable):
        engine.generate(PROMPTS, sampling())
    with pytest.raises(Unavailable):
        engine.probe([1, 2])


def test_an_engine_that_was_closed_takes_weights_again() -> None:
    of = trainer()
    engine = engine_of(of)
    engine.close()
    engine.close()
    assert engine.weight_version == -1
    engine.load(of.weights())
    assert engine.probe([1, 2, 3]) == pytest.approx(of.sampled_logprobs([1], [2, 3], 1.0), abs=FLOAT32)


def test_a_stream_is_the_same_everywhere() -> None:
    assert stream(42, 0, 0, 2).tolist() == [0.5256221199962091, 0.5795740641614598]
    assert torch.equal(stream(42, 0, 0, 5)[:2], stream(42, 0, 0, 2))
    numbers = stream(1, 2, 3, 20_000)
    assert 0 <= float(numbers.min()) < float(numbers.max()) < 1
    assert float(numbers.mean()) == pytest.approx(0.5, abs=0.01)


def test_streams_of_neighbours_differ() -> None:
    heads = {tuple(stream(s, p, j, 2).tolist()) for s in (1, 11) for p in (1, 11) for j in (1, 11)}
    assert len(heads) == 8


@pytest.mark.parametrize("number", [0.0, 1 - 2.0**-53])
def test_a_draw_at_the_edge_stays_within_the_vocabulary(number: float) -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, 0.5]])
    tokens, logprobs = draw(logits, torch.tensor([number], dtype=torch.float64), 1.0)
    assert tokens.tolist() == [0 if number == 0.0 else 3]
    assert logprobs.tolist() == pytest.approx([logits.log_softmax(-1)[0, tokens[0]].item()])


def test_a_draw_takes_no_token_of_probability_0() -> None:
    logits = torch.tensor([[-math.inf, 0.0, -math.inf, 0.0, -math.inf]])
    numbers = torch.linspace(0, 0.999, 50, dtype=torch.float64)
    tokens, _ = draw(logits.expand(50, -1), numbers, 1.0)
    assert set(tokens.tolist()) == {1, 3}
