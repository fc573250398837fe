"""Numbers that remember what they were computed from give the derivatives that torch gives."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from test_training import BELIEFS, SLOTS, fresh_policy

from orchestra_train.contract.beliefs import expected_of, spread_over_levels
from orchestra_train.contract.expected_utility import Outlook
from orchestra_train.policy import BeliefsPolicy, Turn
from orchestra_train.traced import Traced, slopes
from orchestra_train.world.decide import Beliefs, outlooks
from orchestra_train.world.episode import Run, fresh_episode
from orchestra_train.world.roster import WorldShape

SHAPE = WorldShape(slots=(3, 6), limited=0.0)


def walked_turn(seed: int) -> Turn:
    """Behind up to four steps that do not end the run; in one of six episodes answers cannot be compared."""
    rng = np.random.default_rng(seed)
    run = Run(fresh_episode(rng, SHAPE), SLOTS, rng)
    if seed % 6 == 0:
        untold = tuple(("I am sure, and give my view at some length", "I am unsure of it") for _ in run.episode.slots)
        run.episode = replace(run.episode, answers=untold, comparable=False)
    for _ in range(rng.integers(5)):
        ahead = [one for one in run.choices() if one["role"] != "answer" and not one["delivers"]]
        if not ahead:
            break
        run.step(ahead[rng.integers(len(ahead))])
    return Turn(run, run.choices())


def by_torch(turn: Turn, grades: torch.Tensor) -> list[Outlook]:
    """The same search on torch scalars."""
    shares = grades.exp().double().unbind()
    chances = [spread_over_levels(expected_of(row, BELIEFS["chances"]), BELIEFS["levels"]) for row in shares]
    gains = [
        1.0 if slot.role == "answer" else expected_of(row, BELIEFS["gains"])
        for slot, row in zip(turn.run.episode.slots, shares, strict=True)
    ]
    return outlooks(turn.run, turn.choices, Beliefs(chances, gains), BELIEFS)


def gradient(value: torch.Tensor, grades: torch.Tensor) -> torch.Tensor:
    if not value.requires_grad:
        return torch.zeros_like(grades)
    return torch.autograd.grad(value, grades, retain_graph=True, allow_unused=True)[0]


def test_utilities_have_the_values_and_gradients_of_torch_scalars() -> None:
    policy = fresh_policy()
    assert isinstance(policy, BeliefsPolicy)
    seen = {"attempts": 0, "agreement": 0, "documents": 0, "helpers": 0, "delivers": 0, "nowhere": 0, "certain": 0}
    for seed in range(48):
        turn = walked_turn(seed)
        torch.manual_seed(seed)
        logits = 3 * torch.randn(len(turn.run.episode.slots), len(BELIEFS["grades"]), dtype=torch.float64)
        grades = logits.log_softmax(-1).requires_grad_()
        found = policy._utilities(turn, policy._means(turn.run, grades))
        known = by_torch(turn, grades)
        expected = [torch.as_tensor(one.utility, dtype=torch.float64) for one in known]
        assert torch.allclose(found, torch.stack(expected), rtol=0, atol=1e-9)
        for ours, theirs in zip(found, expected, strict=True):
            assert torch.allclose(gradient(ours, grades), gradient(theirs, grades), rtol=0, atol=1e-9)
        with torch.no_grad():
            assert torch.equal(policy._utilities(turn, policy._means(turn.run, grades)), found)
        attempts = turn.run.evidence["attempts"]
        seen["attempts"] += len(attempts) > 0
        seen["agreement"] += any(one.get("agreesWith") for one in attempts)
        seen["documents"] += len(turn.run.evidence["documents"]) > 0
        seen["helpers"] += any(one["role"] in ("search", "enhance_reasoning") for one in turn.choices)
        seen["delivers"] += any(bool(one["delivers"]) for one in turn.choices)
        seen["nowhere"] += bool(found.isinf().any())
        seen["certain"] += any(one.p_right == 1.0 for one in known)
    assert min(seen.values()) >= 3, seen


def test_choices_that_lead_nowhere_leave_a_finite_gradient() -> None:
    policy = fresh_policy()
    assert isinstance(policy, BeliefsPolicy)
    turn = next(turn for turn in map(walked_turn, range(0, 60, 6)) if any(c["role"] == "attempt" for c in turn.choices))
    grades = torch.zeros(len(turn.run.episode.slots), 5).log_softmax(-1).requires_grad_()
    scores = policy._utilities(turn, policy._means(turn.run, grades)).log_softmax(-1)
    scores[0].backward()
    assert scores.isinf().any()
    assert grades.grad is not None and grades.grad.isfinite().all()


@pytest.mark.parametrize("at", [(0.3, 0.7), (2.0, 0.1)])
def test_each_operation_has_the_derivative_of_torch(at: tuple[float, float]) -> None:
    def both(x: Traced | torch.Tensor, y: Traced | torch.Tensor) -> Traced | torch.Tensor:
        grown = (1 + x) * 3 - y / 2 + 2 / x + (1 - y) * x - (x - 0.5) / y
        return max([0.0, grown**1.7, -1.0 + 0 * x]) if grown > 0 and 0 < grown and not grown < 0 else x * y + math.pi

    given = [Traced(one) for one in at]
    tensors = [torch.tensor(one, dtype=torch.float64, requires_grad=True) for one in at]
    found, expected = both(*given), both(*tensors)
    assert float(found) == pytest.approx(expected.item(), abs=1e-12)
    expected.backward()
    assert slopes(found, given) == pytest.approx([one.grad.item() for one in tensors], abs=1e-9)


def test_what_does_not_depend_on_the_given_has_no_slope() -> None:
    given = [Traced(0.5), Traced(0.25)]
    assert slopes(3.0, given) == [0.0, 0.0]
    assert slopes(given[0] * given[0], given) == [1.0, 0.0]
