"""The world is fresh, honest about its best policy, and played by the contract's rules."""

import numpy as np
import pytest

from orchestra_train.contract.agree import agree
from orchestra_train.contract.load import load_contract
from orchestra_train.replay import replay_folder
from orchestra_train.world.decide import Beliefs, best_run, outlooks, realised_utility, true_beliefs
from orchestra_train.world.episode import Run, fresh_episode
from orchestra_train.world.replay_world import read_recorded, recorded_episode
from orchestra_train.world.roster import WorldShape, chance_at, fresh_roster, grade_of
from orchestra_train.world.texts import DOMAINS, GRADES, wordings

CONTRACT = load_contract("slots-2")
SHAPE = WorldShape()


def test_one_seed_is_one_episode_and_another_seed_another() -> None:
    first, again, other = (fresh_episode(np.random.default_rng(seed), SHAPE) for seed in (1, 1, 2))
    assert first.problem == again.problem
    assert [slot.quality for slot in first.slots] == [slot.quality for slot in again.slots]
    assert [slot.quality for slot in first.slots] != [slot.quality for slot in other.slots]


def test_no_wording_is_both_seen_and_unseen() -> None:
    for listed in [*GRADES, *(names for names, _ in DOMAINS.values())]:
        assert wordings(listed, False)
        assert wordings(listed, True)
        assert not set(wordings(listed, False)) & set(wordings(listed, True))


def test_price_and_skill_are_related_but_far_from_the_same() -> None:
    rng = np.random.default_rng(0)
    slots = [slot for _ in range(300) for slot in fresh_roster(rng, SHAPE, False) if slot.role == "answer"]
    skill = [chance_at(slot.skills.mean()) for slot in slots]
    assert 0.2 < np.corrcoef(skill, np.log([slot.cost_usd for slot in slots]))[0, 1] < 0.8
    assert len({grade_of(value) for value in skill}) >= 4


def test_a_run_ends_and_pays_for_what_it_called() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        run = Run(fresh_episode(rng, SHAPE), CONTRACT, rng)
        while not run.done:
            choices = run.choices()
            assert choices
            run.step(choices[rng.integers(len(choices))])
        assert run.cost_usd <= sum(run.episode.slots[call].cost_usd for call in run.calls) + 1e-12
        assert run.turns_left >= 0


def test_true_beliefs_beat_no_beliefs_and_random_choice() -> None:
    worth = {"true": 0.0, "flat": 0.0, "random": 0.0}
    for seed in range(150):
        episode = fresh_episode(np.random.default_rng(seed), SHAPE)

        def flat(run: Run) -> Beliefs:
            return Beliefs([[0.35, 0.65]] * len(run.episode.slots), [1.0] * len(run.episode.slots))

        for name, believe in (("true", true_beliefs), ("flat", flat)):
            worth[name] += realised_utility(best_run(episode, CONTRACT, np.random.default_rng(9), believe), CONTRACT)
        rng = np.random.default_rng(seed)
        run = Run(episode, CONTRACT, rng)
        while not run.done:
            choices = run.choices()
            run.step(choices[rng.integers(len(choices))])
        worth["random"] += realised_utility(run, CONTRACT)
    assert worth["true"] > worth["flat"] + 15
    assert worth["flat"] > worth["random"]


def test_regret_is_never_negative_and_zero_for_the_best_choice() -> None:
    rng = np.random.default_rng(3)
    run = Run(fresh_episode(rng, SHAPE), CONTRACT, rng)
    utilities = [one.utility for one in outlooks(run, run.choices(), true_beliefs(run), CONTRACT)]
    regrets = max(utilities) - np.array(utilities)
    assert regrets.min() == 0
    assert regrets.max() > 0


def test_attempts_that_agree_are_right_more_often() -> None:
    right = {True: [], False: []}
    for seed in range(400):
        rng = np.random.default_rng(seed)
        run = Run(fresh_episode(rng, WorldShape(slots=(4, 6), helpers=False, failures=0, limited=0)), CONTRACT, rng)
        attempts = [choice for choice in run.choices() if choice["role"] == "attempt"]
        run.step(attempts[0])
        run.step(attempts[1])
        first, second = run.evidence["attempts"]
        same = agree(first["text"], second["text"])
        right[bool(same)].append(first["text"] == run.episode.answers[0][0])
    assert np.mean(right[True]) > np.mean(right[False]) + 0.3


@pytest.mark.skipif(not replay_folder().exists(), reason=f"no replay packs at {replay_folder()}")
@pytest.mark.parametrize("name", ["mmlu_pro", "zeroeval", "llmrouter"])
def test_recorded_episodes_give_back_the_record(name: str) -> None:
    pack = read_recorded(name, "validation")
    rng = np.random.default_rng(0)
    for row in range(30):
        episode = recorded_episode(pack, row, rng)
        run = Run(episode, CONTRACT, rng, attempts=episode.comparable)
        choice = next(one for one in run.choices() if one["role"] == "answer")
        run.step(choice)
        assert run.correct == bool(episode.chances[0, 0])
        assert run.cost_usd == pytest.approx(episode.slots[0].cost_usd)
        assert all(slot.quality for slot in episode.slots)
