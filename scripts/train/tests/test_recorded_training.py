"""Training replays what real models answered: the train split alone, without what the packs hold back."""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from test_training import SHAPE, SLOTS, TOKENIZER, Killed, fresh_policy, kill_at, weights_of

from orchestra_train import cli
from orchestra_train.episodes import EpisodeSource
from orchestra_train.gguf_file import tiny_model, write_model
from orchestra_train.grpo import GrpoSettings, train_grpo
from orchestra_train.replay import PACKS
from orchestra_train.sft import SftSettings, train_sft
from orchestra_train.world.decide import true_beliefs
from orchestra_train.world.episode import Episode, Run

MODELS = ("strong", "sums", "words", "secret")
DOMAINS = ("sums", "words", "law")
ITEMS = 60
SPLITS = {"train": range(30), "validation": range(30, 45), "test": range(45, ITEMS)}


def is_right(model: str, domain: str) -> bool:
    return model in ("strong", "secret", domain)


@pytest.fixture
def packs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three packs; `secret` and the domain `law` are held out. In the first, equal answers are told."""
    root = tmp_path / "replay"
    for name in PACKS:
        write_pack(root / name, classes=name == PACKS[0])
    named = {split: [f"i{at}" for at in numbers] for split, numbers in SPLITS.items()}
    (root / "splits.json").write_text(json.dumps({"items": dict.fromkeys(PACKS, named)}))
    cards = [
        {"anon_id": f"m{at}", "text": {"exact": f"Tool {name}: law 90%; sums 70%.", "verbal": f"Tool {name}."}}
        for at, name in enumerate(MODELS)
    ]
    (root / "cards.json").write_text(json.dumps({"cards": dict.fromkeys(PACKS, cards)}))
    monkeypatch.setenv("ORCHESTRA_REPLAY", str(root))
    return root


def write_pack(folder: Path, classes: bool) -> None:
    folder.mkdir(parents=True)
    domains = [DOMAINS[at % 3] for at in range(ITEMS)]
    with gzip.open(folder / "items.jsonl.gz", "wt") as lines:
        for at, domain in enumerate(domains):
            item = {"id": f"i{at}", "domain": domain, "prompt": f"{domain} number {at}", "input_tokens_sent": 10}
            lines.write(json.dumps(item) + "\n")
    models = [
        {
            "index": at,
            "id": name,
            "anon_id": f"m{at}",
            "default_roster": True,
            "held_out": name == "secret",
            "privacy_class": "third-party",
            "price": {"input": 1.0, "output": at + 1.0},
        }
        for at, name in enumerate(MODELS)
    ]
    (folder / "models.json").write_text(json.dumps({"models": models}))
    right = np.array([[is_right(model, domain) for model in MODELS] for domain in domains]).astype(np.int8)
    # Of one item a single model was recorded: there is nothing to choose.
    right[0, 1:] = -1
    # Wrong answers are long.
    tokens = np.where(right == 1, 20, 80).astype(np.int32)
    answers = {"answer_class": np.where(right == 1, 0, [[1, 2, 3, 4]]).astype(np.int16)} if classes else {}
    np.savez(folder / "outcomes.npz", correct=right, out_tokens=tokens, **answers)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Episode]:
    """Every episode that training draws."""
    episodes: list[Episode] = []
    fresh = EpisodeSource.fresh

    def watched(self: EpisodeSource, rng: np.random.Generator) -> Episode:
        episodes.append(fresh(self, rng))
        return episodes[-1]

    monkeypatch.setattr(EpisodeSource, "fresh", watched)
    return episodes


@pytest.mark.parametrize("kind", ["beliefs", "slots"])
def test_only_train_items_and_nothing_that_is_held_out_is_played(
    kind: str, packs: Path, drawn: list[Episode], tmp_path: Path
) -> None:
    train_sft(fresh_policy(kind), SHAPE, SLOTS, SftSettings(3, episodes=4, recorded=1.0), tmp_path)
    before = weights_of(policy := fresh_policy(kind))
    settings = GrpoSettings(3, episodes=4, rollouts=4, filter="none", recorded=1.0)
    lines = train_grpo(policy, SHAPE, SLOTS, settings, tmp_path).read()
    assert all(np.isfinite(value) for line in lines for value in line.values())
    assert not torch.equal(weights_of(policy), before)
    assert len(drawn) == 24 and all(one.recorded for one in drawn)
    numbers = {int(one.problem.split()[-1]) for one in drawn}
    assert numbers <= set(SPLITS["train"]) - {0} and {one.domain for one in drawn} <= {"sums", "words"}
    cards = {slot.quality for one in drawn for slot in one.slots}
    assert not any("secret" in card or "law" in card for card in cards)
    assert any("70%" in card for card in cards) and any("%" not in card for card in cards)


def test_what_happened_happens_again_whoever_was_likely(packs: Path) -> None:
    rng = np.random.default_rng(0)
    source = EpisodeSource(SHAPE, 1.0)
    for episode in (source.fresh(rng) for _ in range(20)):
        for number, slot in enumerate(episode.slots):
            run = Run(episode.again(rng), SLOTS, rng)
            model = slot.quality.removeprefix("Tool ").split(":")[0].rstrip(".")
            chance = true_beliefs(run).chances[number]
            run.step(next(one for one in run.choices() if one["role"] == "answer" and one["slot"] == slot.id))
            assert run.correct == is_right(model, episode.domain)
            # By the rates of its domain, shrunk a little: never certain.
            assert 0 < min(chance) and max(chance) < 1 and (np.mean(chance) > 0.5) == run.correct


def test_the_price_of_an_answer_does_not_tell_whether_it_is_right(packs: Path) -> None:
    rng = np.random.default_rng(0)
    source = EpisodeSource(SHAPE, 1.0)
    slots = [slot for _ in range(40) for slot in source.fresh(rng).slots]
    prices = {name: {slot.cost_usd for slot in slots if name in slot.quality} for name in ("strong", "sums.", "words.")}
    assert [len(found) for found in prices.values()] == [1, 1, 1]
    # `words` writes 20 tokens or 80, in half of the items each, but for the one where nobody else was recorded.
    [of_words] = prices["words."]
    assert of_words == pytest.approx((1.0 * 10 + 3.0 * np.floor((10 * 20 + 9 * 80) / 19)) / 1e6)


def test_a_share_of_the_episodes_is_recorded_and_none_leaves_the_world_as_it_was(
    packs: Path, drawn: list[Episode], tmp_path: Path
) -> None:
    train_sft(fresh_policy(), SHAPE, SLOTS, SftSettings(10, episodes=4, recorded=0.5), tmp_path / "half")
    assert 10 < sum(one.recorded for one in drawn) < 30
    drawn.clear()
    train_sft(fresh_policy(), SHAPE, SLOTS, SftSettings(2, episodes=2), tmp_path / "none")
    assert len(drawn) == 4 and not any(one.recorded for one in drawn)


@pytest.mark.parametrize("stage", ["sft", "grpo"])
def test_a_killed_run_replays_the_same_episodes(
    stage: str, packs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines(folder: str) -> list[dict[str, float]]:
        policy = fresh_policy("slots")
        if stage == "sft":
            settings = SftSettings(4, episodes=2, recorded=0.5, checkpoint_every=2)
            return train_sft(policy, SHAPE, SLOTS, settings, tmp_path / folder).read()
        chosen = GrpoSettings(4, episodes=2, rollouts=3, recorded=0.5, checkpoint_every=2)
        return train_grpo(policy, SHAPE, SLOTS, chosen, tmp_path / folder).read()

    with monkeypatch.context() as patched:
        kill_at(3, patched)
        with pytest.raises(Killed):
            lines("cut")
    assert lines("cut") == lines("whole")


@pytest.mark.parametrize("stage", ["sft", "grpo"])
def test_the_command_says_where_packs_are_missing(stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_model(tiny_model("llama", TOKENIZER, seed=1, width=32, feed_forward=64), tmp_path / "base.gguf", "F32")
    monkeypatch.setenv("ORCHESTRA_REPLAY", str(tmp_path / "nowhere"))
    given = ["--base", str(tmp_path / "base.gguf"), "--out", str(tmp_path / "out"), "--contract", "slots-2"]
    monkeypatch.setattr(sys, "argv", ["orchestra-train", stage, *given, "--steps", "1", "--recorded", "0.1"])
    with pytest.raises(SystemExit, match="nowhere.*ORCHESTRA_REPLAY"):
        cli.main()
    monkeypatch.setattr(sys, "argv", ["orchestra-train", stage, *given, "--steps", "1", "--recorded", "1.1"])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert not (tmp_path / "out").exists()
