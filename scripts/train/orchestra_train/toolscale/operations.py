"""Tools as data: a few operations over tables. What a model wrote is interpreted here and never run as code.

A tool is `{name, description, parameters: {name: {type, description}}, steps: [step], returns: expression}`; a database
is `{table: {id: record}}`. Steps, each with `do`:

    get      {table, id, into}                     the record, or an error
    rows     {table, where: [[field, test, expression]], into}
    require  {left, test, right, otherwise}        the error that the caller reads
    change   {table, id, field, value}
    insert   {table, record: {field: expression}, into}    its id follows from what it holds
    remove   {table, id}

An expression is a plain value, `$name` or `$name.field`, or one of `{sum|difference|product: [a, b]}`, `{count: rows}`,
`{total|least|most: [rows, field]}` (the last two: the record with the least or greatest field), or a mapping of names.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

Record = dict[str, Any]
Database = dict[str, dict[str, Record]]
Tool = Mapping[str, Any]

MOST_STEPS = 20
MOST_ROWS = 50
MOST_CHARACTERS = 2000
MOST_DEPTH = 8
LARGEST = 10**12


class ToolError(Exception):
    """A call that cannot be done; the words are for the caller. The database is as it was."""


TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "contains": lambda left, right: right in left,
}

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda left, right: left + right,
    "difference": lambda left, right: left - right,
    "product": lambda left, right: left * right,
}

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def run_tool(tool: Tool, database: Database, arguments: Mapping[str, Any]) -> Any:
    """What the tool returns, after its changes to the database. @raises ToolError, and then nothing was changed."""
    names: Record = dict(checked_arguments(tool, arguments))
    undone: list[tuple[str, str, Record | None]] = []
    try:
        for step in tool["steps"][:MOST_STEPS]:
            _step(step, database, names, undone)
        return _copied(evaluate(tool["returns"], names))
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, IndexError) as broken:
        _restore(database, undone)
        raise ToolError(f"{tool['name']} is broken ({type(broken).__name__})") from broken
    except ToolError:
        _restore(database, undone)
        raise


def checked_arguments(tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = tool["parameters"]
    for name in arguments:
        if name not in parameters:
            raise ToolError(f"there is no argument {name[:64]}")
    for name, parameter in parameters.items():
        if name not in arguments:
            raise ToolError(f"{name} is missing")
        value = arguments[name]
        fitting = isinstance(value, TYPES[parameter["type"]])
        if not fitting or (isinstance(value, bool) and parameter["type"] != "boolean"):
            raise ToolError(f"{name} must be a {parameter['type']}")
        _bounded(value)
    return arguments


def state_hash(database: Database) -> str:
    """Equal for equal content, whatever the order of tables, records and fields; 1 and 1.0 are the same."""
    text = json.dumps(plain_numbers(database), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def plain_numbers(value: Any) -> Any:
    """The same with whole floats as integers, so that 1 and 1.0 are written and compared alike."""
    if isinstance(value, Mapping):
        return {key: plain_numbers(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain_numbers(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def evaluate(expression: Any, names: Record, depth: int = 0) -> Any:
    if depth > MOST_DEPTH:
        raise ToolError("an expression is too deep")
    if isinstance(expression, str) and expression.startswith("$"):
        return _named(expression[1:], names)
    if not isinstance(expression, Mapping):
        return expression
    if len(expression) == 1:
        [(name, inner)] = expression.items()
        if name in ARITHMETIC:
            left, right = (evaluate(one, names, depth + 1) for one in inner)
            return _bounded(ARITHMETIC[name](_number(left), _number(right)))
        if name == "count":
            return len(evaluate(inner, names, depth + 1))
        if name in ("total", "least", "most"):
            return _over_rows(name, evaluate(inner[0], names, depth + 1), inner[1])
    return {name: evaluate(inner, names, depth + 1) for name, inner in expression.items()}


def _over_rows(name: str, rows: list[Record], field: str) -> Any:
    if name == "total":
        return sum(_number(row[field]) for row in rows)
    if not rows:
        raise ToolError("nothing was found")
    return (min if name == "least" else max)(rows, key=lambda row: _number(row[field]))


def _named(path: str, names: Record) -> Any:
    name, _, field = path.partition(".")
    return names[name][field] if field else names[name]


def _step(step: Mapping[str, Any], database: Database, names: Record, undone: list[Any]) -> None:
    do = step["do"]
    if do == "require":
        left, right = evaluate(step["left"], names), evaluate(step["right"], names)
        if not TESTS[step["test"]](left, right):
            raise ToolError(str(step["otherwise"])[:MOST_CHARACTERS])
        return
    table = database[step["table"]]
    if do == "rows":
        conditions = [(field, TESTS[test], evaluate(value, names)) for field, test, value in step["where"]]
        found = [row for row in table.values() if all(test(row[field], value) for field, test, value in conditions)]
        names[step["into"]] = found[:MOST_ROWS]
    elif do == "insert":
        record = {field: _bounded(evaluate(value, names)) for field, value in step["record"].items()}
        id = f"{step['table'][:3]}_{state_hash({'': {'': record}})[:8]}"
        if id in table:
            raise ToolError("this is already there")
        undone.append((step["table"], id, None))
        table[id] = names[step["into"]] = {"id": id, **record}
    else:
        id = evaluate(step["id"], names)
        if id not in table:
            raise ToolError(f"nothing with the id {str(id)[:64]} in {step['table']}")
        if do == "get":
            names[step["into"]] = table[id]
            return
        undone.append((step["table"], id, dict(table[id])))
        if do == "change":
            table[id][step["field"]] = _bounded(evaluate(step["value"], names))
        elif do == "remove":
            del table[id]
        else:
            raise KeyError(do)


def _restore(database: Database, undone: list[tuple[str, str, Record | None]]) -> None:
    for table, id, before in reversed(undone):
        if before is None:
            database[table].pop(id, None)
        else:
            database[table][id] = before


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ToolError("this is no number")
    return value


def _bounded(value: Any) -> Any:
    """Only plain values are stored, and small ones: a record that held another could hold itself."""
    if value is not None and not isinstance(value, str | int | float):
        raise ToolError("this is no plain value")
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        raise ToolError("a text is too long")
    if isinstance(value, int | float) and (abs(value) > LARGEST or math.isnan(value)):
        raise ToolError("a number is too large")
    return value


def _copied(value: Any) -> Any:
    return json.loads(json.dumps(value))
