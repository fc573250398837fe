"""Packed rows give the probabilities and gradients of rows of their own, for both kinds of policy."""

import copy
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from engine import ask_engine
from orchestra_train.contract.beliefs import (
    card_branch,
    expected_of,
    grade_segments,
    problem_prefix,
    spread_over_levels,
)
from orchestra_train.contract.load import load_contract
from orchestra_train.gguf_file import GgufModel, tiny_model, write_model
from orchestra_train.model import PART, _attend
from orchestra_train.packing import (
    Places,
    Tree,
    batches_of,
    branch_log_probabilities,
    choice_log_probabilities,
    shared_rows,
)
from orchestra_train.policy import BeliefsPolicy, SlotsPolicy, Turn, _between
from orchestra_train.tokenizer import TextTokenizer, tiny_tokenizer
from orchestra_train.world.episode import Run, fresh_episode
from orchestra_train.world.roster import WorldShape

BELIEFS = load_contract("beliefs-1")
SLOTS = load_contract("slots-2")
CORPUS = [" ".join(BELIEFS["grades"]), *BELIEFS["grades"], "How likely is it that this tool answers the problem?"] * 40


@pytest.fixture(params=["llama", "qwen3"])
def source(request: pytest.FixtureRequest) -> GgufModel:
    return tiny_model(request.param, tiny_tokenizer(CORPUS, 400), seed=5)


def some_turns(count: int) -> list[Turn]:
    turns = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        run = Run(fresh_episode(rng, WorldShape(slots=(3, 4), failures=0)), SLOTS, rng)
        turns.append(Turn(copy.copy(run), run.choices()))
        attempt = next(choice for choice in run.choices() if choice["role"] == "attempt")
        run.step(attempt)
        turns.append(Turn(copy.copy(run), run.choices()))
    return turns


def family(tails: int) -> list[Tree]:
    """Prompts of one beginning that end differently, with calls that share their first words; and one of another."""
    rng = np.random.default_rng(7)
    beginning, calls = rng.integers(300, size=40).tolist(), [[1, 2, 3, 4], [1, 2, 5, 4], [1, 6, 4], [7]]
    ends = [rng.integers(300, size=length).tolist() for length in range(3, 3 + tails)]
    return [*(Tree(beginning + end, calls) for end in ends), Tree(rng.integers(300, size=9).tolist(), calls[:2])]


def alone(source: GgufModel, ids: list[int]) -> torch.Tensor:
    """Log-probabilities of the next token behind an unpacked row."""
    return source.model.logits(source.model(torch.tensor([ids]))[0, -1])


def product_alone(source: GgufModel, tree: Tree, choice: list[int]) -> torch.Tensor:
    """The engine's rule, each factor from an unpacked row."""
    total = torch.zeros(())
    for place, token in enumerate(choice):
        allowed = sorted({other[place] for other in tree.branches if other[:place] == choice[:place]})
        if len(allowed) > 1:
            step = alone(source, tree.prefix + choice[:place])[allowed].log_softmax(-1)
            total = total + step[allowed.index(token)]
    return total


def test_branches_in_a_packed_row_equal_rows_of_their_own(source: GgufModel) -> None:
    policy = BeliefsPolicy(source.model, TextTokenizer(source.metadata), BELIEFS)
    trees = [policy.tree(turn.run) for turn in some_turns(3)]
    ids = policy._grade_ids
    packed = branch_log_probabilities(source.model, trees, ids, most_tokens=100_000)
    for tree, scores in zip(trees, packed, strict=True):
        for branch, row in zip(tree.branches, scores, strict=True):
            single = alone(source, tree.prefix + branch)[ids].log_softmax(-1)
            assert row.tolist() == pytest.approx(single.tolist(), abs=2e-5)


def test_gradients_of_packed_rows_equal_those_of_rows_of_their_own(source: GgufModel) -> None:
    policy = BeliefsPolicy(source.model, TextTokenizer(source.metadata), BELIEFS)
    trees = [policy.tree(turn.run) for turn in some_turns(1)]
    ids = policy._grade_ids
    sum(scores[:, 0].sum() for scores in branch_log_probabilities(source.model, trees, ids)).backward()
    packed = {name: parameter.grad.clone() for name, parameter in source.model.named_parameters()}
    source.model.zero_grad()
    for tree in trees:
        for branch in tree.branches:
            alone(source, tree.prefix + branch)[ids].log_softmax(-1)[0].backward()
    for name, parameter in source.model.named_parameters():
        assert torch.allclose(packed[name], parameter.grad, atol=2e-4), name


def test_a_model_that_recomputes_has_the_same_gradient(source: GgufModel) -> None:
    policy = BeliefsPolicy(source.model, TextTokenizer(source.metadata), BELIEFS)
    turns = some_turns(1)
    gradients = []
    for recomputes in (False, True):
        source.model.zero_grad()
        source.model.recomputes = recomputes
        policy.warm_start_loss(turns).backward()
        gradients.append(torch.cat([one.grad.flatten() for one in source.model.parameters()]))
    assert torch.equal(*gradients)


def test_the_masked_product_sums_to_one_and_equals_the_engine_rule(source: GgufModel) -> None:
    policy = SlotsPolicy(source.model, TextTokenizer(source.metadata), SLOTS)
    tree = policy.tree(some_turns(1)[0])
    [scores] = choice_log_probabilities(source.model, [tree])
    assert scores.exp().sum().item() == pytest.approx(1, abs=1e-5)
    for choice, score in zip(tree.branches, scores.tolist(), strict=True):
        assert score == pytest.approx(product_alone(source, tree, choice).item(), abs=1e-4)


def test_masked_grades_are_equal_in_the_engine(source: GgufModel, tmp_path: Path) -> None:
    write_model(source, tmp_path / "tiny.gguf", "F32")
    policy = BeliefsPolicy(source.model, TextTokenizer(source.metadata), BELIEFS)
    tree = policy.tree(some_turns(1)[0].run)
    [scores] = branch_log_probabilities(source.model, [tree], policy._grade_ids)
    prompt = tree.prefix + tree.branches[0]
    answer = ask_engine(tmp_path / "tiny.gguf", [], prompt=prompt, greedy=1, top=10_000)
    served = dict(answer["probabilities"][0])
    masked = torch.tensor([math.log(served[token]) for token in policy._grade_ids]).log_softmax(-1)
    assert scores[0].tolist() == pytest.approx(masked.tolist(), abs=0.01)


def test_grades_are_those_that_the_gateway_is_served(source: GgufModel, tmp_path: Path) -> None:
    write_model(source, tmp_path / "tiny.gguf", "F32")
    policy = BeliefsPolicy(source.model, TextTokenizer(source.metadata), BELIEFS)
    turn = some_turns(1)[0]
    episode = turn.run.episode
    context = source.model.config.context
    judge = {
        "prompt": problem_prefix(episode.problem, "", turn.run.evidence, context, BELIEFS),
        "questions": [card_branch(slot.quality, slot.role, BELIEFS) for slot in episode.slots],
        "answers": grade_segments(BELIEFS),
    }
    served = ask_engine(tmp_path / "tiny.gguf", [], judge=judge)["grades"]
    [ours] = policy.grades([turn])
    for row, expected in zip(served, ours.tolist(), strict=True):
        assert row == pytest.approx(expected, abs=0.01)


def test_neither_ids_nor_prices_nor_wishes_reach_the_beliefs(source: GgufModel) -> None:
    tokenizer = TextTokenizer(source.metadata)
    policy = BeliefsPolicy(source.model, tokenizer, BELIEFS)
    run = some_turns(1)[0].run
    tree = policy.tree(run)
    text = tokenizer.decode(tree.prefix) + "".join(tokenizer.decode(branch) for branch in tree.branches)
    assert run.episode.problem in text
    assert run.episode.slots[0].quality in text
    assert "answer-1" not in text
    assert "$" not in text


def test_both_policies_give_probabilities_with_a_gradient(source: GgufModel) -> None:
    tokenizer = TextTokenizer(source.metadata)
    turns = some_turns(2)
    for policy in (BeliefsPolicy(source.model, tokenizer, BELIEFS), SlotsPolicy(source.model, tokenizer, SLOTS)):
        for scores, turn in zip(policy.log_probabilities(turns), turns, strict=True):
            assert len(scores) == len(turn.choices)
            assert scores.exp().sum().item() == pytest.approx(1, abs=1e-4)
        source.model.zero_grad()
        policy.log_probabilities(turns[:1])[0][0].backward()
        assert source.model.blk[0].attn_q.weight.grad.abs().sum() > 0
        assert math.isfinite(policy.warm_start_loss(turns).item())


def test_rows_are_computed_together_while_they_fit_and_a_longer_one_alone() -> None:
    assert list(batches_of([3, 4, 4, 9], 8)) == [slice(0, 2), slice(2, 3), slice(3, 4)]
    assert list(batches_of([], 8)) == []


def test_what_begins_alike_stands_in_a_row_once() -> None:
    [(row, places)] = shared_rows([Tree([1, 2, 3], [[4, 5], [4, 6]]), Tree([1, 2, 3, 9], [[4]])])
    assert row.tokens == [1, 2, 3, 4, 5, 6, 9, 4]
    assert row.depths == [0, 1, 2, 3, 4, 4, 3, 4]
    assert places == {0: Places(2, [[3, 4], [3, 5]]), 1: Places(6, [[7]])}
    assert row.mask()[5].nonzero()[0].tolist() == [0, 1, 2, 3, 5]


def test_trees_with_little_in_common_have_rows_of_their_own() -> None:
    rows = shared_rows(
        [Tree([1, 2, 3, 4], []), Tree([1, 2, 8, 9], []), Tree([1, 2, 3], []), Tree([1, 2, 3], [[5] * 3])]
    )
    assert [sorted(places) for _, places in rows] == [[0, 2], [1], [3]]


@pytest.mark.parametrize("most_tokens", [1, 150, 100_000])
def test_trees_that_share_a_row_or_a_batch_score_as_rows_of_their_own(source: GgufModel, most_tokens: int) -> None:
    trees = family(3)
    assert len(shared_rows(trees)) == 2
    together = choice_log_probabilities(source.model, trees, most_tokens)
    for tree, scores in zip(trees, together, strict=True):
        singles = [product_alone(source, tree, choice).item() for choice in tree.branches]
        assert scores.tolist() == pytest.approx(singles, abs=2e-5)


def test_gradients_of_trees_that_share_a_row_are_those_of_rows_of_their_own(source: GgufModel) -> None:
    trees = family(3)
    sum(scores[0] for scores in choice_log_probabilities(source.model, trees)).backward()
    shared = {name: parameter.grad.clone() for name, parameter in source.model.named_parameters()}
    source.model.zero_grad()
    for tree in trees:
        product_alone(source, tree, tree.branches[0]).backward()
    for name, parameter in source.model.named_parameters():
        assert torch.allclose(shared[name], parameter.grad, atol=2e-4), name


@pytest.mark.parametrize("length", [PART - 1, PART, 2 * PART + 3])
def test_attention_in_parts_equals_attention_at_once(length: int) -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 4, length, 8), torch.randn(1, 2, length, 8), torch.randn(1, 2, length, 8)
    seen = torch.rand(1, 1, length, length).gt(0.5).tril() | torch.eye(length, dtype=torch.bool)
    mask = torch.zeros(seen.shape).masked_fill(~seen, float("-inf"))
    k_all, v_all = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    whole = ((q @ k_all.transpose(-1, -2)) * 8**-0.5 + mask).softmax(-1) @ v_all
    assert torch.allclose(_attend(q, k, v, mask), whole, atol=1e-5)


def test_grades_stand_for_any_value_between_them() -> None:
    for value in (0.0, 0.1, 0.42, 0.9, 1.0):
        kept = min(max(value, 0.1), 0.9)
        assert expected_of(_between(value, BELIEFS["chances"]), BELIEFS["chances"]) == pytest.approx(kept)


def test_levels_of_difficulty_keep_the_mean_chance() -> None:
    for chance in (0.1, 0.3, 0.5, 0.8):
        spread = spread_over_levels(chance, BELIEFS["levels"])
        assert spread[0] < spread[1]
        assert sum(spread) / 2 == pytest.approx(chance, abs=0.03)
