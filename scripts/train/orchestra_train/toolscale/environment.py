"""A domain at work: its tools called over a database of its own, and the same calls replayed elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .operations import Database, Tool, ToolError, run_tool, state_hash

Call = Mapping[str, Any]


@dataclass(frozen=True)
class Domain:
    name: str
    policy: str
    tools: tuple[Tool, ...]
    database: Database

    def functions(self) -> list[dict[str, Any]]:
        """As `tools` of a chat completion."""
        return [
            {
                "type": "function",
                "function": {
                    "name": tool["name"],
                    "description": tool["description"],
                    "parameters": {
                        "type": "object",
                        "properties": dict(tool["parameters"]),
                        "required": list(tool["parameters"]),
                        "additionalProperties": False,
                    },
                },
            }
            for tool in self.tools
        ]


@dataclass
class Environment:
    """One episode: a copy of the domain's database, and all that was called, failed calls too."""

    domain: Domain
    database: Database = field(init=False)
    calls: list[Call] = field(default_factory=list)
    errors: int = 0

    def __post_init__(self) -> None:
        tables = self.domain.database.items()
        self.database = {name: {id: dict(record) for id, record in table.items()} for name, table in tables}
        self._tools = {tool["name"]: tool for tool in self.domain.tools}

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """What the tool returns. @raises ToolError for what cannot be done, an unknown tool included."""
        self.calls.append({"name": name, "arguments": dict(arguments)})
        try:
            if name not in self._tools:
                raise ToolError(f"there is no tool {name[:64]}")
            return run_tool(self._tools[name], self.database, arguments)
        except ToolError:
            self.errors += 1
            raise

    def hash(self) -> str:
        return state_hash(self.database)


def replay(domain: Domain, calls: Sequence[Call]) -> Environment:
    """A fresh environment after these calls; those that fail change nothing."""
    environment = Environment(domain)
    for call in calls:
        try:
            environment.call(call["name"], call["arguments"])
        except ToolError:
            continue
    return environment
