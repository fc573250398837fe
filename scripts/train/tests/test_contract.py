"""The twins hold every golden vector that the gateway holds."""

import hashlib
import json
import re
from typing import Any

import pytest

from orchestra_train.contract.agree import agree, final_answer
from orchestra_train.contract.cut import Block, keep_head, keep_newest, keep_tail
from orchestra_train.contract.evidence import apply_observation, no_evidence, open_choices
from orchestra_train.contract.evidence_text import evidence_text
from orchestra_train.contract.load import REPOSITORY, dump_json, load_contract
from orchestra_train.contract.parse import parse_decision
from orchestra_train.contract.phrase import phrase_preference
from orchestra_train.contract.render import (
    PromptInput,
    choice_segments,
    deliver_card,
    join_segments,
    render_prompt,
    slot_card,
)


def vectors(name: str) -> list[Any]:
    stored = json.loads((REPOSITORY / f"test/golden/{name}.json").read_text("utf-8"))
    assert stored
    return [pytest.param(vector["input"], vector["expected"], id=vector["name"]) for vector in stored]


def prompt_of(plain: dict[str, Any]) -> list[dict[str, str]]:
    keys = ("problem", "conversation", "evidence", "choices", "preference")
    prompt = PromptInput(**{key: plain[key] for key in keys}, context_tokens=plain["contextTokens"])
    return render_prompt(prompt, load_contract(plain["contract"]))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@pytest.mark.parametrize(("given", "expected"), vectors("prompt"))
def test_prompts_are_equal_to_the_byte(given: dict[str, Any], expected: dict[str, Any]) -> None:
    segments = prompt_of(given)
    assert segments == expected["segments"]
    assert sha256(join_segments(segments)) == expected["sha256"]


@pytest.mark.parametrize(("given", "expected"), vectors("chat-template"))
def test_prompts_equal_the_chat_template_of_qwen3(given: dict[str, Any], expected: str) -> None:
    assert join_segments(prompt_of(given["prompt"])) == expected


@pytest.mark.parametrize(("given", "expected"), vectors("cut"))
def test_cuts_are_equal(given: dict[str, Any], expected: str) -> None:
    match given["cut"]:
        case "tail":
            assert keep_tail(given["text"], given["limit"]) == expected
        case "head":
            assert keep_head(given["text"], given["limit"], given.get("mark", "")) == expected
        case "newest":
            assert keep_newest([Block(**block) for block in given["blocks"]], given["limit"]) == expected
        case kind:
            assert kind == "evidence"
            assert evidence_text(given["evidence"], given["limit"], load_contract("slots-1")) == expected


@pytest.mark.parametrize(("given", "expected"), vectors("decision"))
def test_decisions_are_read_alike(given: dict[str, Any], expected: dict[str, str]) -> None:
    assert parse_decision(given["text"], load_contract(given["contract"]), given["admissible"]) == expected


@pytest.mark.parametrize(("given", "expected"), vectors("agree"))
def test_agreement_is_told_alike(given: dict[str, str], expected: dict[str, Any]) -> None:
    told = {"agree": agree(**given), "left": final_answer(given["left"]), "right": final_answer(given["right"])}
    assert told == expected


@pytest.mark.parametrize(("given", "expected"), vectors("apply"))
def test_observations_add_alike(given: dict[str, Any], expected: dict[str, Any]) -> None:
    before = json.dumps(given["evidence"])
    assert apply_observation(given["evidence"], given["observation"]) == expected
    assert json.dumps(given["evidence"]) == before


@pytest.mark.parametrize(("given", "expected"), vectors("preference"))
def test_preferences_are_phrased_alike(given: dict[str, Any], expected: str) -> None:
    assert phrase_preference(given["weights"], given["instruction"], load_contract("slots-1")) == expected


@pytest.mark.parametrize(("given", "expected"), vectors("episode"))
def test_whole_runs_are_equal_turn_by_turn(given: dict[str, Any], expected: dict[str, Any]) -> None:
    contract = load_contract(given["contract"])
    rates = {"input": 10**9, "output": 2 * 10**9}
    plain = {"quality": "good general model", "rates": rates, "latencyMs": 1000, "privacy": "any"}
    evidence = no_evidence()
    turns = []
    for observation in [{"kind": "failed"}, *given["observations"]]:
        evidence = apply_observation(evidence, observation)
        choices, withdrawn = open_choices(given["slots"], evidence, contract, given["contract"] != "slots-1")
        cards = [
            {
                "role": choice["role"],
                "card": deliver_card(choice["delivers"], contract)
                if choice["delivers"]
                else slot_card({**plain, "id": choice["id"]}, contract),
            }
            for choice in choices
        ]
        prompt = PromptInput(given["problem"], "", evidence, cards, "", 40_960)
        turns.append(
            {
                "open": [{key: choice[key] for key in ("id", "role", "slot")} for choice in choices],
                "withdrawn": withdrawn,
                "calls": [join_segments(choice_segments(one["role"], one["id"], contract)) for one in choices],
                "promptSha256": sha256(join_segments(render_prompt(prompt, contract))),
            }
        )
    assert {"card": slot_card({**plain, "id": "ID"}, contract), "turns": turns, "evidence": evidence} == expected


def test_numbers_never_reach_a_prompt() -> None:
    with pytest.raises(TypeError, match="no float"):
        dump_json({"price": 0.1})
    assert not re.search(r"\d", dump_json({"price": "free", "open": True, "rest": None}))
