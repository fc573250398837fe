"""The world is fresh, honest about its best policy, and played by the contract's rules."""

from dataclasses import replace

import numpy as np
import pytest

from orchestra_train.contract.agree import agree
from orchestra_train.contract.load import load_contract
from orchestra_train.replay import replay_folder
from orchestra_train.world.decide import Beliefs, best_run, chance_of, outlooks, realised_utility, true_beliefs
from orchestra_train.world.episode import Run, fresh_episode
from orchestra_train.world.problems import recorded_problems
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


def test_who_fails_leaves_and_the_turn_is_taken_again() -> None:
    rng = np.random.default_rng(5)
    episode = fresh_episode(rng, WorldShape(slots=(4, 4), helpers=False, failures=0, limited=0))
    lost, kept = (slot.id for slot in episode.slots[:2])
    run = Run(replace(episode, down=frozenset([lost])), CONTRACT, rng)
    before = run.turns_left
    run.step(next(choice for choice in run.choices() if choice["id"] == lost))
    assert (run.cost_usd, run.turns_left, run.done) == (0, before, False)
    assert lost not in {choice["id"] for choice in run.choices()}
    run.step(next(choice for choice in run.choices() if (choice["role"], choice["id"]) == ("answer", kept)))
    assert run.done
    nobody = Run(replace(episode, down=frozenset(slot.id for slot in episode.slots)), CONTRACT, rng)
    while not nobody.done:
        nobody.step(nobody.choices()[0])
    assert not nobody.correct


def test_the_chance_of_a_path_is_the_mean_of_what_comes_of_it() -> None:
    rng = np.random.default_rng(8)
    shape = WorldShape(slots=(4, 6), failures=0, limited=0)
    ended, expected = [], []
    for _ in range(700):
        run = Run(fresh_episode(rng, shape), CONTRACT, rng)
        while not run.done:
            choices = run.choices()
            run.step(choices[rng.integers(len(choices))])
        ended.append(run.correct)
        expected.append(chance_of(run.episode, run.path, CONTRACT))
    assert np.mean(expected) == pytest.approx(np.mean(ended), abs=0.04)
    assert np.std(expected) < np.std(ended)


def test_some_cards_tell_chances_in_numbers_and_no_domain_twice() -> None:
    rng = np.random.default_rng(2)
    slots = [slot for _ in range(100) for slot in fresh_roster(rng, replace(SHAPE, measured=0.5), False)]
    measured = [slot for slot in slots if slot.measured]
    assert len(measured) > 50
    for slot in measured:
        assert all(0 <= chance <= 1 for chance in slot.measured.values())
        assert not any(name in slot.quality for name in slot.measured)


@pytest.mark.skipif(not replay_folder().exists(), reason=f"no replay packs at {replay_folder()}")
def test_real_questions_stand_among_the_worlds_own_and_none_is_both_seen_and_unseen() -> None:
    seen, unseen = recorded_problems(False), recorded_problems(True)
    assert not {"law", "history"} & set(seen)
    assert set(unseen) == set(DOMAINS)
    assert not {text for texts in seen.values() for text in texts} & {
        text for texts in unseen.values() for text in texts
    }
    rng = np.random.default_rng(3)
    asked = [fresh_episode(rng, replace(SHAPE, recorded=0.5), unseen=True) for _ in range(60)]
    share = np.mean([one.problem in unseen[one.domain] for one in asked])
    assert 0.3 < share < 0.7


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
