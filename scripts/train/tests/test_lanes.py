"""Texts written side by side over one cache are those that would be written alone, with the same probabilities."""

import pytest
import torch
from torch import Tensor

from orchestra_train.gguf_file import tiny_model
from orchestra_train.lanes import Lanes
from orchestra_train.model import Decoder
from orchestra_train.passages import Passage, own_log_probabilities
from orchestra_train.tokenizer import tiny_tokenizer

TOKENIZER = tiny_tokenizer(["some words to read"] * 5, 300)
PROMPTS = [[5, 9, 40, 41], [7], [200, 3, 8, 8, 8, 17, 60]]
PIECES = [[[11, 12], [], [13]], [[], [21], []], [[1, 2, 3], [4], []]]


@pytest.fixture(params=["llama", "qwen3"])
def model(request: pytest.FixtureRequest) -> Decoder:
    return tiny_model(request.param, TOKENIZER, seed=4, width=32, feed_forward=64).model


def next_scores(model: Decoder, ids: list[int]) -> Tensor:
    with torch.no_grad():
        return model.logits(model(torch.tensor([ids]))[0, -1])


def likeliest(_: list[int], scores: Tensor) -> list[int]:
    return scores.argmax(-1).tolist()


def test_lanes_of_different_pace_score_like_texts_of_their_own(model: Decoder) -> None:
    lanes = Lanes(model, PROMPTS)
    texts = [list(prompt) for prompt in PROMPTS]
    for step in range(3):
        lanes.read([PIECES[lane][step] for lane in range(3)])
        for lane, text in enumerate(texts):
            text += PIECES[lane][step]
            assert torch.allclose(lanes.scores[lane], next_scores(model, text), atol=1e-4)


def test_each_lane_writes_what_it_would_write_alone(model: Decoder) -> None:
    together = Lanes(model, PROMPTS, copies=2).write(range(6), likeliest, end=-1, most=6)
    for lane, prompt in enumerate(PROMPTS):
        text = list(prompt)
        for _ in range(6):
            text.append(int(next_scores(model, text).argmax()))
        assert together[2 * lane] == together[2 * lane + 1] == text[len(prompt) :]


def test_a_lane_stops_at_the_end_token_and_others_go_on(model: Decoder) -> None:
    dictated = {0: [50, 51, 52, 53], 1: [60, 2, 61]}
    written = Lanes(model, PROMPTS[:2]).write(
        [0, 1], lambda lanes, _: [dictated[lane].pop(0) for lane in lanes], end=2, most=4
    )
    assert written == {0: [50, 51, 52, 53], 1: [60, 2]}


def test_probabilities_while_writing_are_those_that_are_learnt_from(model: Decoder) -> None:
    seen: dict[int, list[float]] = {0: [], 1: []}

    def choose(lanes: list[int], scores: Tensor) -> list[int]:
        tokens = [(7 * len(seen[lane]) + 30 * lane) % 90 for lane in lanes]
        for lane, token, row in zip(lanes, tokens, scores.log_softmax(-1), strict=True):
            seen[lane].append(row[token].item())
        return tokens

    lanes = Lanes(model, PROMPTS[:1], copies=2)
    first = lanes.write([0, 1], choose, end=-1, most=3)
    lanes.read([[100, 101], []])
    second = lanes.write([0], choose, end=-1, most=2)
    prompt = tuple(PROMPTS[0])
    passages = [
        Passage(prompt, (*first[0], 100, 101, *second[0]), (True, True, True, False, False, True, True)),
        Passage(prompt, tuple(first[1]), (True, True, True)),
    ]
    for lane, scores in enumerate(own_log_probabilities(model, passages)):
        assert scores.tolist() == pytest.approx(seen[lane], abs=1e-4)
