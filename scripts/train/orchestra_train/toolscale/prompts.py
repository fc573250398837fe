"""What each stage of the pipeline asks; our own words, since the paper publishes none."""

import json
from collections.abc import Mapping
from typing import Any

from .environment import Domain
from .model_output import Schema
from .operations import Database

ONLY_JSON = "Reply with JSON alone."
SHOWN_RECORDS = 12


def policy(name: str) -> str:
    return (
        f"You are the assistant of a service in the field: {name}. Use the tools for all that is asked, do nothing "
        "that was not asked, and tell the person the results with exact figures. If something cannot be done, say so."
    )


def schema(name: str) -> str:
    return (
        f"Stage: schema. Design a small database for a service in the field: {name}. Three or four tables, each with "
        'an `id` of type string; types are string, integer, number, boolean; money in whole cents. As {"table": '
        f'{{"field": "type"}}}}, names in lower_case. {ONLY_JSON}'
    )


def subjects(name: str, count: int) -> str:
    return (
        f"Stage: subjects. Name {count} different places, groups or themes that records of a service in the field "
        f"{name} could be about, so that they do not resemble each other. A list of texts. {ONLY_JSON}"
    )


def records(name: str, schema: Schema, subject: str, count: int, so_far: Database) -> str:
    ids = {table: list(rows)[-SHOWN_RECORDS:] for table, rows in so_far.items()}
    return (
        f"Stage: database. Field: {name}. Schema: {json.dumps(schema)}\nIds so far: {json.dumps(ids)}\nWrite {count} "
        f"new, natural records for each table about: {subject}. References must be to ids that exist. As "
        f'{{"table": [record]}}. {ONLY_JSON}'
    )


def tools(name: str, schema: Schema, language: str, sample: int) -> str:
    focus = ("looking things up", "changing and cancelling", "booking, paying and reporting")[sample % 3]
    return (
        f"Stage: tools. Field: {name}. Schema: {json.dumps(schema)}\nWrite eight tools for {focus}, in this language:"
        f"\n\n{language}\n\nA change must be guarded by `require`. A list of tools. {ONLY_JSON}"
    )


def intents(domain: Domain, count: int) -> str:
    return (
        f"Stage: intents. Tools: {_signatures(domain)}\nName {count} different things that a person could want from "
        f"this service ({domain.name}), from plain to unusual. A list of texts. {ONLY_JSON}"
    )


FORM = (
    '{"user_scenario": {"reason_for_call": what the person says, with all that is needed, "known_info": …, '
    '"unknown_info": …, "task_instructions": how to behave}, "actions": [{"name": tool, "arguments": {…}}] '
    'that do it, in order, "communicate_info": [short exact texts to be told], "nl_assertions": [sentences to check]}'
)


def task(domain: Domain, intent: str) -> str:
    return (
        f"Stage: task. Tools: {_signatures(domain)}\nSome records: {_sample(domain)}\nMake one task out of this "
        f"intent: {intent}\nUse records that exist. As {FORM}. {ONLY_JSON}"
    )


def harder(domain: Domain, task: Mapping[str, Any]) -> str:
    return (
        f"Stage: evolution. Tools: {_signatures(domain)}\nSome records: {_sample(domain)}\nMake this task harder: "
        "more steps, a condition that only the data decide, or less known at the start. "
        f"{json.dumps(_core(task))}\nAs {FORM}. {ONLY_JSON}"
    )


def _core(task: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "user_scenario": task["user_scenario"]["instructions"],
        "actions": task["evaluation_criteria"]["actions"],
        "communicate_info": task["evaluation_criteria"]["communicate_info"],
    }


def _signatures(domain: Domain) -> str:
    return json.dumps([function["function"] for function in domain.functions()])


def _sample(domain: Domain) -> str:
    return json.dumps({table: list(rows.values())[:SHOWN_RECORDS] for table, rows in domain.database.items()})
