"""The search equals the gateway's (cases computed by it), and its gradient is that of its value."""

import json
import math
from typing import Any

import pytest
import torch

from orchestra_train.contract.agreement import ProblemPrior, weigh_agreement
from orchestra_train.contract.expected_utility import (
    MadeAttempt,
    Outlook,
    SearchState,
    UtilityOption,
    choice_probabilities,
    expected_utility,
)
from orchestra_train.contract.load import REPOSITORY, load_contract

CASES = json.loads((REPOSITORY / "test/golden/utility.json").read_text())
SCALES = load_contract("slots-2")["tilt"]


def search(given: dict[str, Any], number: Any = float) -> tuple[list[Outlook], list[Any]]:
    leaves: list[Any] = []

    def chances(values: list[float]) -> list[Any]:
        leaves.extend(fresh := [number(value) for value in values])
        return fresh

    options = [
        UtilityOption(
            one["id"],
            one["kind"],
            one["costUsd"],
            one["latencyMs"],
            one["privacy"],
            one["selectorWeight"],
            chances(one.get("chances", [])),
            one.get("gain", 1.0),
        )
        for one in given["options"]
    ]
    state = given["state"]
    attempts = [
        MadeAttempt(one["id"], one["slot"], chances(one["chances"]), one.get("agreesWith"), one["comparable"])
        for one in state["attempts"]
    ]
    prior = ProblemPrior(state["prior"]["levels"], state["prior"]["coincidence"])
    known = SearchState(prior, attempts, state["comparable"], state["turnsLeft"], state["attemptsLeft"])
    return expected_utility(options, known, given["weights"], SCALES), leaves


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_golden_vectors_of_the_search_hold(case: dict[str, Any]) -> None:
    outlooks, _ = search(case["input"])
    expected = case["expected"]
    utilities = [outlook.utility for outlook in outlooks]
    given = [-math.inf if utility in (None, "-Infinity") else utility for utility in expected["utilities"]]
    assert utilities == pytest.approx(given, rel=1e-10)
    assert [outlook.p_right for outlook in outlooks] == pytest.approx(expected["pRight"], rel=1e-10)
    probabilities = choice_probabilities(utilities, case["input"]["temperature"])
    assert probabilities == pytest.approx(expected["probabilities"], rel=1e-10)


def test_a_gradient_flows_from_utilities_to_beliefs() -> None:
    case = CASES[0]["input"]
    outlooks, leaves = search(case, lambda value: torch.tensor(value, dtype=torch.float64, requires_grad=True))
    outlooks[0].utility.backward()
    step = 1e-6
    shifted = json.loads(json.dumps(case))
    shifted["options"][0]["chances"][0] += step
    slope = (search(shifted)[0][0].utility - search(case)[0][0].utility) / step
    assert leaves[0].grad.item() == pytest.approx(slope, rel=1e-4)
    assert slope > 0


def test_two_that_agree_are_believed_more_and_two_that_differ_less() -> None:
    prior = ProblemPrior([0.5, 0.5], 0.1)
    chances = [0.4, 0.8]
    agreed = weigh_agreement([[chances, chances]], prior)
    differing = weigh_agreement([[chances], [chances]], prior)
    assert agreed.right[0] > 0.6 > differing.right[0]
    assert agreed.levels[1] > 0.5 > differing.levels[1]


def test_probabilities_sum_to_one_and_follow_utility() -> None:
    probabilities = choice_probabilities([1.0, 2.0, -math.inf], 0.25)
    assert sum(probabilities) == pytest.approx(1)
    assert probabilities[1] > probabilities[0] > probabilities[2] == 0
