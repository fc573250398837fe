"""The paper's worked example, and what must hold for any group."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from orchestra_train.contract.agreement import ProblemPrior
from orchestra_train.contract.expected_utility import SearchState, UtilityOption, expected_utility
from orchestra_train.contract.load import load_contract
from orchestra_train.detectors import GroupTrace, RunTrace, degenerate_shares
from orchestra_train.filters import component_filter, paper_filter
from orchestra_train.reward import (
    ADVANTAGE_CLIP,
    COST_SCALE_USD,
    FLOORS,
    LATENCY_SCALE_S,
    REWARDS,
    SOFT_LIMIT_SCALE,
    Group,
    Preference,
    RunningSpread,
    advantages,
    gated_scores,
    gdpo_scores,
    outcome_share,
    paper_rewards,
    standardise,
    utility_scores,
)

EXAMPLE = Group(
    outcome=np.array([1, 1, 1, 0]),
    cost_usd=np.array([0.10, 0.02, 0.06, 0.01]),
    latency_s=np.array([10.0, 20, 15, 5]),
    calls=np.array([[2, 0], [0, 2], [1, 1], [0, 0]]),
    malformed=np.zeros(4, bool),
)
LOCAL = Preference(outcome=1, cost=1, latency=0, liking=1, tools=np.array([0, 1]))


def test_the_worked_example_of_the_paper_comes_out() -> None:
    rewards = paper_rewards(EXAMPLE, LOCAL)
    assert rewards == pytest.approx([1.0, 2.8889, 1.9444, 0], abs=1e-4)
    assert standardise(rewards) == pytest.approx([-0.3694, 1.1528, 0.3917, -1.1752], abs=1e-4)
    [advantage] = advantages("paper", [EXAMPLE], [LOCAL], RunningSpread())
    assert advantage == pytest.approx(standardise(rewards))


def test_where_nobody_prefers_tools_the_papers_reward_does_not_either() -> None:
    told = Preference(outcome=1, cost=1, latency=0, liking=0, tools=np.array([1.0, -1.0]))
    silent = Preference(outcome=1, cost=1, latency=0, liking=0, tools=np.zeros(2))
    assert paper_rewards(EXAMPLE, told) == pytest.approx(paper_rewards(EXAMPLE, silent))


def test_a_cheaper_correct_rollout_earns_more_by_every_reward() -> None:
    for kind in REWARDS:
        plain = Preference(outcome=1, cost=1, latency=0, liking=0, tools=np.zeros(2))
        [advantage] = advantages(kind, [EXAMPLE], [plain], RunningSpread())
        assert advantage[1] > advantage[2] > advantage[0]


def test_two_opposite_components_of_equal_weight_cancel_in_gdpo_and_unequal_ones_do_not() -> None:
    group = Group(np.ones(2), np.array([0.01, 0.02]), np.array([20.0, 10.0]), np.ones((2, 1)), np.zeros(2, bool))
    assert gdpo_scores(group, Preference(1, 1, 1, 0, np.zeros(1))) == pytest.approx([0, 0])
    assert abs(gdpo_scores(group, Preference(1, 2, 1, 0, np.zeros(1)))[0]) > 0.5


group_sizes = st.shared(st.integers(1, 8), key="G")
amounts = st.floats(0, 1e3, allow_nan=False)
weights = st.floats(0, 1)


@st.composite
def groups(draw: st.DrawFn) -> Group:
    size = draw(group_sizes)
    outcome = draw(arrays(int, size, elements=st.integers(0, 1)))
    malformed = draw(arrays(bool, size)) & (outcome == 0)
    calls = draw(arrays(int, (size, 3), elements=st.integers(0, 5)))
    return Group(
        outcome,
        draw(arrays(float, size, elements=amounts)),
        draw(arrays(float, size, elements=amounts)),
        calls,
        malformed,
    )


tools = arrays(float, 3, elements=st.floats(-1, 1))
preferences = st.builds(Preference, weights, weights, weights, weights, tools)


@given(groups(), preferences, st.sampled_from(REWARDS))
def test_advantages_are_finite_and_bounded_for_any_group(group: Group, preference: Preference, kind: str) -> None:
    [advantage] = advantages(kind, [group], [preference], RunningSpread())
    assert np.isfinite(advantage).all()
    assert np.abs(advantage).max() <= ADVANTAGE_CLIP


@given(groups(), preferences)
def test_a_wrong_rollout_never_outranks_a_right_one(group: Group, preference: Preference) -> None:
    [advantage] = advantages("gated_gdpo", [group], [preference], RunningSpread())
    right = group.outcome > 0
    if right.any() and not right.all():
        assert advantage[right].min() > advantage[~right].max()


@given(groups(), preferences)
def test_equal_rollouts_get_nothing(group: Group, preference: Preference) -> None:
    equal = Group(*(np.repeat(getattr(group, name)[:1], 4, 0) for name in Group.__dataclass_fields__))
    for kind in REWARDS:
        [advantage] = advantages(kind, [equal], [preference], RunningSpread())
        assert advantage == pytest.approx(np.zeros(4), abs=1e-9)


@given(
    arrays(int, 6, elements=st.integers(0, 1)),
    arrays(float, (6, 3), elements=st.floats(-10, 10)),
    arrays(float, 4, elements=st.floats(0.01, 1)),
    arrays(float, 3, elements=st.floats(-5, 5)),
    st.floats(0.1, 10),
)
def test_gated_scores_do_not_change_with_shift_and_unit(
    outcome: np.ndarray, parts: np.ndarray, share: np.ndarray, shift: np.ndarray, unit: float
) -> None:
    before = gated_scores(outcome, parts, share, FLOORS)
    after = gated_scores(outcome, (parts + shift) * unit, share, FLOORS * unit)
    assert after == pytest.approx(before, abs=1e-6)


@given(groups(), preferences, st.floats(0.1, 10), st.floats(0, 5))
def test_the_papers_reward_does_not_change_with_scale_and_shift_of_money(
    group: Group, preference: Preference, scale: float, shift: float
) -> None:
    cost = np.round(group.cost_usd, 3)
    before = Group(group.outcome, cost, group.latency_s, group.calls, group.malformed)
    after = Group(group.outcome, cost * scale + shift, group.latency_s, group.calls, group.malformed)
    assert paper_rewards(after, preference) == pytest.approx(paper_rewards(before, preference), abs=1e-6)


@given(arrays(float, 4, elements=weights))
def test_the_outcome_has_at_least_half_of_the_weight(given_weights: np.ndarray) -> None:
    share = outcome_share(given_weights)
    assert share.sum() == pytest.approx(1)
    assert share[0] >= 0.5 - 1e-12


def test_noise_under_the_floor_stays_small() -> None:
    nearly = np.array([1.0, 1.001, 0.999, 1.0])[:, None] * np.ones(3)
    assert np.abs(gated_scores(np.ones(4), nearly, np.array([0.5, 0.5, 0, 0]), FLOORS)).max() < 0.01


def test_calling_a_preferred_tool_again_adds_nothing() -> None:
    once = Group(np.ones(2), np.ones(2), np.ones(2), np.array([[1, 1], [5, 1]]), np.zeros(2, bool))
    liking = Preference(1, 0, 0, 1, np.array([1.0, 0]))
    [advantage] = advantages("gated_gdpo", [once], [liking], RunningSpread())
    assert advantage == pytest.approx([0, 0])


def test_a_malformed_rollout_cannot_be_right() -> None:
    with pytest.raises(ValueError, match="malformed"):
        Group(np.ones(1), np.ones(1), np.ones(1), np.ones((1, 1)), np.ones(1, bool))


def test_the_papers_filters_drop_what_it_says() -> None:
    answered = np.array([True, True, False, True])
    malformed = np.array([False, False, False, True])
    group = Group(EXAMPLE.outcome, EXAMPLE.cost_usd, EXAMPLE.latency_s, EXAMPLE.calls, malformed)
    assert paper_filter(group, LOCAL, answered).rollouts.tolist() == [True, True, False, False]
    wrong = Group(np.zeros(4), EXAMPLE.cost_usd, EXAMPLE.latency_s, EXAMPLE.calls, malformed)
    assert paper_filter(wrong, LOCAL, answered).reason == "homogeneous"


def test_the_component_filter_keeps_groups_that_differ_in_what_counts() -> None:
    all_right = Group(np.ones(4), EXAMPLE.cost_usd, EXAMPLE.latency_s, EXAMPLE.calls, EXAMPLE.malformed)
    assert component_filter(all_right, LOCAL).reason is None
    no_weight = Preference(1, 0, 0, 0, np.zeros(2))
    assert component_filter(all_right, no_weight).reason == "no component differs"
    assert component_filter(EXAMPLE, no_weight).rollouts.all()


def test_degenerate_strategies_show() -> None:
    runs = [RunTrace((2,), 2, 0, False), RunTrace((0, 0, 1), 1, 2, True), RunTrace((1,), 1, 0, True)]
    shares = degenerate_shares([GroupTrace(runs, strongest=1, cheapest=2, preferred=frozenset({0}))])
    assert shares["premature_answers"] == pytest.approx(1 / 3)
    assert shares["useless_preferred_calls"] == pytest.approx(1 / 2)
    assert shares["always_strongest"] == pytest.approx(2 / 3)
    assert shares["always_cheapest"] == pytest.approx(1 / 3)
    assert shares["answer_entropy"] > 0


def test_who_answered_counts_and_not_who_was_called_last() -> None:
    delivered = RunTrace((1, 2), answered_by=1, preparations=2, correct=True)
    failed = RunTrace((2,), answered_by=None, preparations=0, correct=False)
    shares = degenerate_shares([GroupTrace([delivered, failed], strongest=1, cheapest=2, preferred=frozenset())])
    assert (shares["always_strongest"], shares["always_cheapest"], shares["answer_entropy"]) == (0.5, 0, 0)


def test_utility_trades_as_the_gateways_search_does() -> None:
    tilt = load_contract("beliefs-1")["tilt"]
    assert {"lambda": SOFT_LIMIT_SCALE, "costUsd": COST_SCALE_USD, "latencyMs": LATENCY_SCALE_S * 1000} == tilt
    weights = {"quality": 0.5, "cost": 0.2, "latency": 0.1, "privacy": 0.2}
    classes = np.array([1, 3])
    preference = Preference(0.5, 0.2, 0.1, 0.2, classes / 2 - 1)
    # The least class that each rollout of the example used; the last one used none.
    least = [1, 3, 1, 4]
    state = SearchState(ProblemPrior([1.0], 0.0), [], 0.0, 1, 0)
    options = [
        UtilityOption(str(number), "answer", cost, 1000 * latency, privacy / 4, 0, [float(right)])
        for number, (cost, latency, privacy, right) in enumerate(
            zip(EXAMPLE.cost_usd, EXAMPLE.latency_s, least, EXAMPLE.outcome, strict=True)
        )
    ]
    searched = np.array([one.utility for one in expected_utility(options, state, weights, tilt)])
    assert utility_scores(EXAMPLE, preference) == pytest.approx(searched - searched.mean())
