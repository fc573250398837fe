"""The paper's pipeline: schema, database, tools, intents, tasks with golden calls, evolution, three filters.

Departures: tools are operations that we interpret, not code, since what a model writes is not trusted; one model does
all stages; the user says everything at once, so that solving needs no second model.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from . import operations, prompts
from .checks import golden_error, idle_solves, score
from .conversation import request_of, result_of
from .endpoint import Endpoint, EndpointFailed
from .environment import Call, Domain, Environment
from .model_output import (
    Malformed,
    Schema,
    empty_database,
    json_in,
    plain_arguments,
    record_in,
    schema_in,
    task_in,
    texts_in,
    tool_in,
)
from .operations import Database, Tool

Fitting = TypeVar("Fitting")


@dataclass(frozen=True)
class PipelineShape:
    subjects: int = 20
    records_a_call: int = 3
    tool_samples: int = 3
    intents: int = 100
    attempts: int = 8
    most_turns: int = 12
    # Further samples of a stage whose reply cannot be used.
    repeats: int = 2


@dataclass
class Pipeline:
    endpoint: Endpoint
    shape: PipelineShape
    # How often what went wrong: `tools: malformed`, `tasks: golden error`, …
    counts: Counter[str] = field(default_factory=Counter)

    def make_domain(self, name: str) -> Domain:
        """@raises BudgetSpent, EndpointFailed, Malformed when there is nothing to go on with."""
        schema = self._written("schema", prompts.schema(name), lambda text: schema_in(json_in(text)))
        database = self._database(name, schema)
        tools = self._tools(name, schema)
        if not tools or not all(database.values()):
            raise Malformed(f"{name}: no tools, or an empty table")
        return Domain(name, prompts.policy(name), tuple(tools), database)

    def make_tasks(self, domain: Domain) -> Iterator[dict[str, Any]]:
        """Those that pass the filters, each plain one followed by its harder form."""
        made = 0
        for number, intent in enumerate(self._intents(domain)):
            plain = self._task("tasks", prompts.task(domain, intent), domain)
            evolved = plain and self._task("evolution", prompts.harder(domain, plain), domain)
            for level, task in enumerate((plain, evolved)):
                if task and self._passes(domain, task):
                    yield {**task, "id": f"{domain.name}-{made:04}", "level": level, "intent": number}
                    made += 1

    def _database(self, name: str, schema: Schema) -> Database:
        database = empty_database(schema)
        subjects = self._written(
            "subjects", prompts.subjects(name, self.shape.subjects), lambda text: texts_in(json_in(text))
        )
        for subject in subjects[: self.shape.subjects]:
            asked = prompts.records(name, schema, subject, self.shape.records_a_call, database)
            found = self._optional("database", asked, _tables_in)
            for table, rows in (found or {}).items():
                for row in rows if isinstance(rows, list) and table in schema else ():
                    self._add(database, table, row, schema)
        return database

    def _add(self, database: Database, table: str, row: Any, schema: Schema) -> None:
        try:
            record = record_in(row, schema[table])
            database[table].setdefault(record["id"], record)
        except Malformed:
            self.counts["database: malformed record"] += 1

    def _tools(self, name: str, schema: Schema) -> list[Tool]:
        """Of several samples; the first of a name that can be used counts."""
        merged: dict[str, Tool] = {}
        for sample in range(self.shape.tool_samples):
            asked = prompts.tools(name, schema, operations.__doc__ or "", sample)
            for written in self._optional("tools", asked, _list_in) or ():
                try:
                    tool = tool_in(written, schema)
                    merged.setdefault(tool["name"], tool)
                except Malformed:
                    self.counts["tools: malformed tool"] += 1
        return list(merged.values())

    def _intents(self, domain: Domain) -> list[str]:
        found = self._optional(
            "intents", prompts.intents(domain, self.shape.intents), lambda text: texts_in(json_in(text))
        )
        return list(dict.fromkeys(found or ()))[: self.shape.intents]

    def _task(self, stage: str, prompt: str, domain: Domain) -> dict[str, Any] | None:
        return self._optional(stage, prompt, lambda text: task_in(json_in(text), domain.name))

    def _passes(self, domain: Domain, task: dict[str, Any]) -> bool:
        if golden_error(domain, task):
            self.counts["tasks: golden error"] += 1
        elif idle_solves(domain, task):
            self.counts["tasks: solved by doing nothing"] += 1
        elif not any(self._solves(domain, task, attempt) for attempt in range(self.shape.attempts)):
            self.counts["tasks: unsolved"] += 1
        else:
            self.counts["tasks: kept"] += 1
            return True
        return False

    def _solves(self, domain: Domain, task: dict[str, Any], attempt: int) -> bool:
        try:
            calls, messages = solve(self.endpoint, domain, task, attempt, self.shape.most_turns)
        except EndpointFailed:
            self.counts["solving: given up"] += 1
            return False
        return score(domain, task, calls, messages) > 0

    def _written(self, stage: str, prompt: str, read: Callable[[str], Fitting]) -> Fitting:
        """The first sample that can be used. @raises Malformed"""
        for sample in range(self.shape.repeats + 1):
            reply = self.endpoint.ask([{"role": "user", "content": prompt}], sample)
            try:
                return read(reply["content"])
            except Malformed:
                self.counts[f"{stage}: malformed"] += 1
        raise Malformed(f"{stage}: no usable reply")

    def _optional(self, stage: str, prompt: str, read: Callable[[str], Fitting]) -> Fitting | None:
        try:
            return self._written(stage, prompt, read)
        except (Malformed, EndpointFailed):
            self.counts[f"{stage}: given up"] += 1
            return None


def solve(
    endpoint: Endpoint, domain: Domain, task: dict[str, Any], attempt: int, most_turns: int
) -> tuple[Sequence[Call], Sequence[str]]:
    """A model with the tools at its work: its calls, and what it said; nothing of one that did not come to an end."""
    environment = Environment(domain)
    said: list[str] = []
    messages = [
        {"role": "system", "content": domain.policy},
        {"role": "user", "content": request_of(task)},
    ]
    for _ in range(most_turns):
        reply = endpoint.ask(messages, attempt, domain.functions())
        if reply["content"]:
            said.append(reply["content"])
        messages.append(reply)
        calls = reply.get("tool_calls", ())
        if not calls or not isinstance(calls, list):
            return environment.calls, said
        messages += [_answer(environment, call) for call in calls]
    return (), ()


def _answer(environment: Environment, call: Any) -> dict[str, Any]:
    try:
        arguments = json.loads(call["function"]["arguments"])
        if not plain_arguments(arguments):
            raise ValueError
        result = result_of(environment, {"name": str(call["function"]["name"]), "arguments": arguments})
    except (ValueError, KeyError, TypeError, RecursionError):
        result = {"error": "the call cannot be read"}
    id = call.get("id", "") if isinstance(call, dict) else ""
    return {"role": "tool", "tool_call_id": str(id), "content": json.dumps(result)}


def _tables_in(text: str) -> dict[str, Any]:
    found = json_in(text)
    if not isinstance(found, dict):
        raise Malformed("a mapping of tables")
    return found


def _list_in(text: str) -> list[Any]:
    found = json_in(text)
    if not isinstance(found, list):
        raise Malformed("a list")
    return found
