"""What a model wrote, checked before anything is done with it: each returns what fits or raises Malformed."""

import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Any

from .operations import MOST_STEPS, TYPES, Database, Record, Tool

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
LARGEST_TOOL = 8000
LONGEST_TEXT = 2000
Schema = Mapping[str, Mapping[str, str]]

# What each step must name, beside `do`.
STEP_FIELDS = {
    "get": ("table", "id", "into"),
    "rows": ("table", "where", "into"),
    "require": ("left", "test", "right", "otherwise"),
    "change": ("table", "id", "field", "value"),
    "insert": ("table", "record", "into"),
    "remove": ("table", "id"),
}


class Malformed(Exception):
    """A reply that cannot be used."""


def json_in(text: str) -> Any:
    """The JSON of a reply, fenced or bare."""
    fenced = re.findall(r"```(?:json)?\s*\n(.*?)```", text, flags=re.DOTALL)
    for candidate in [*fenced, text]:
        start = min((at for at in (candidate.find("{"), candidate.find("[")) if at >= 0), default=None)
        if start is None:
            continue
        try:
            return json.JSONDecoder(parse_constant=_no_number).raw_decode(candidate[start:])[0]
        except (ValueError, RecursionError):
            continue
    raise Malformed("no JSON")


def _no_number(name: str) -> None:
    raise ValueError(name)


def _need(fits: bool, words: str) -> None:
    if not fits:
        raise Malformed(words)


def _is_one_of(value: Any, names: Collection[str]) -> bool:
    return isinstance(value, str) and value in names


def schema_in(value: Any) -> Schema:
    """`{table: {field: type}}` with 2 to 6 tables; each has an id."""
    _need(isinstance(value, dict) and 2 <= len(value) <= 6, "2 to 6 tables")
    for table, fields in value.items():
        _need(NAME.fullmatch(table) is not None and isinstance(fields, dict) and 2 <= len(fields) <= 20, "a table")
        _need(fields.get("id") == "string", "an id")
        named = all(isinstance(name, str) and NAME.fullmatch(name) for name in fields)
        _need(named and all(_is_one_of(type_name, TYPES) for type_name in fields.values()), "fields")
    return value


def record_in(value: Any, fields: Mapping[str, str]) -> Record:
    _need(isinstance(value, dict) and set(value) == set(fields), "the fields of its table")
    for name, type_name in fields.items():
        one = value[name]
        _need(isinstance(one, TYPES[type_name]) and isinstance(one, bool) == (type_name == "boolean"), f"{name}")
        _need(not isinstance(one, str) or len(one) <= LONGEST_TEXT, "a short text")
        _need(not isinstance(one, float) or math.isfinite(one), "a number")
    _need(0 < len(value["id"]) <= 64, "an id")
    return value


def tool_in(value: Any, schema: Schema) -> Tool:
    _need(isinstance(value, dict) and len(json.dumps(value)) <= LARGEST_TOOL, "a small tool")
    name, parameters, steps = value.get("name"), value.get("parameters"), value.get("steps")
    _need(isinstance(name, str) and NAME.fullmatch(name) is not None, "a name")
    _need(isinstance(value.get("description"), str) and "returns" in value, "description and returns")
    _need(isinstance(parameters, dict), "parameters")
    for parameter, told in parameters.items():
        _need(
            NAME.fullmatch(parameter) is not None and isinstance(told, dict) and _is_one_of(told.get("type"), TYPES),
            "a type",
        )
    _need(isinstance(steps, list) and 0 < len(steps) <= MOST_STEPS, "steps")
    for step in steps:
        _need(isinstance(step, dict) and _is_one_of(step.get("do"), STEP_FIELDS), "a known step")
        _need(all(field in step for field in STEP_FIELDS[step["do"]]), "all of a step")
        _need("table" not in STEP_FIELDS[step["do"]] or _is_one_of(step["table"], schema), "a known table")
    return {key: value[key] for key in ("name", "description", "parameters", "steps", "returns")}


def plain_arguments(value: Any) -> bool:
    """Names with plain values: tools take nothing else."""
    return isinstance(value, dict) and all(one is None or isinstance(one, str | int | float) for one in value.values())


def texts_in(value: Any) -> list[str]:
    _need(isinstance(value, list) and all(isinstance(one, str) and one.strip() for one in value), "a list of texts")
    return [one[:LONGEST_TEXT] for one in value]


SCENARIO = ("reason_for_call", "known_info", "unknown_info", "task_instructions")


def task_in(value: Any, domain: str) -> dict[str, Any]:
    """In the form of the offline tasks, `id` and `level` still to be set."""
    _need(isinstance(value, dict) and isinstance(value.get("user_scenario"), dict), "a scenario")
    scenario = {name: value["user_scenario"].get(name) for name in SCENARIO}
    _need(all(isinstance(text, str) and len(text) <= LONGEST_TEXT for text in scenario.values()), "a scenario")
    actions = value.get("actions")
    _need(isinstance(actions, list) and len(actions) <= MOST_STEPS, "actions")
    for action in actions:
        _need(isinstance(action, dict) and isinstance(action.get("name"), str), "an action")
        _need(plain_arguments(action.get("arguments")), "arguments")
    return {
        "id": "",
        "domain": domain,
        "level": 0,
        "user_scenario": {"persona": "", "instructions": {"domain": domain, **scenario}},
        "evaluation_criteria": {
            "actions": [{"name": one["name"], "arguments": one["arguments"]} for one in actions],
            "communicate_info": texts_in(value.get("communicate_info")),
            "nl_assertions": texts_in(value.get("nl_assertions")),
            "reward_basis": ["execution", "process", "completeness"],
        },
    }


def empty_database(schema: Schema) -> Database:
    return {table: {} for table in schema}
