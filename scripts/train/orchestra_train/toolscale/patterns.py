"""The kinds of tools that every domain has, in its own words. Money is in whole cents."""

from collections.abc import Sequence
from typing import Any

from .domain_words import DomainWords
from .operations import Tool


def domain_tools(words: DomainWords) -> list[Tool]:
    person, thing, record = words.person, words.thing, words.record
    return [
        _get(words.people, person),
        _get(words.things, thing),
        _get(words.records, record),
        _find_person(words),
        *(_search(words, attribute) for attribute in words.attributes),
        _records_of(words),
        _spent(words),
        _most_affordable(words),
        _update_contact(words, "email"),
        _update_contact(words, "phone"),
        _reserve(words),
        _cancel(words),
        _move(words),
        _note(words),
        _transfer(words),
    ]


def _tool(name: str, description: str, parameters: dict[str, str], steps: Sequence[Any], returns: Any) -> Tool:
    """`parameters`: type and description of each, as `type: description`."""
    told = {}
    for parameter, words in parameters.items():
        type_name, _, text = words.partition(": ")
        told[parameter] = {"type": type_name, "description": text}
    return {"name": name, "description": description, "parameters": told, "steps": list(steps), "returns": returns}


def _fetch(table: str, id: str, into: str) -> dict[str, Any]:
    return {"do": "get", "table": table, "id": id, "into": into}


def _require(left: Any, test: str, right: Any, otherwise: str) -> dict[str, Any]:
    return {"do": "require", "left": left, "test": test, "right": right, "otherwise": otherwise}


def _change(table: str, id: str, field: str, value: Any) -> dict[str, Any]:
    return {"do": "change", "table": table, "id": id, "field": field, "value": value}


def _rows(table: str, where: Sequence[Any], into: str = "found") -> dict[str, Any]:
    return {"do": "rows", "table": table, "where": list(where), "into": into}


def _less(left: Any, right: Any) -> dict[str, Any]:
    return {"difference": [left, right]}


def _more(left: Any, right: Any) -> dict[str, Any]:
    return {"sum": [left, right]}


def _get(table: str, one: str) -> Tool:
    id = f"{one}_id"
    return _tool(
        f"get_{one}", f"One {one} by its id.", {id: "string: its id"}, [_fetch(table, f"${id}", one)], f"${one}"
    )


def _find_person(words: DomainWords) -> Tool:
    return _tool(
        f"find_{words.person}_by_email",
        f"All {words.people} with this e-mail address.",
        {"email": "string: the whole address"},
        [_rows(words.people, [["email", "==", "$email"]])],
        "$found",
    )


def _search(words: DomainWords, attribute: str) -> Tool:
    return _tool(
        f"list_{words.things}_by_{attribute}",
        f"All {words.things} of one {attribute}, with price in cents and what is left.",
        {attribute: f"string: the {attribute}, as written in the data"},
        [_rows(words.things, [[attribute, "==", f"${attribute}"]])],
        "$found",
    )


def _records_of(words: DomainWords) -> Tool:
    id = f"{words.person}_id"
    return _tool(
        f"list_{words.records}_of_{words.person}",
        f"The {words.records} of one {words.person}, cancelled ones too.",
        {id: f"string: id of the {words.person}"},
        [_fetch(words.people, f"${id}", "owner"), _rows(words.records, [["owner", "==", f"${id}"]])],
        "$found",
    )


def _spent(words: DomainWords) -> Tool:
    id = f"{words.person}_id"
    return _tool(
        f"total_of_{words.person}",
        f"How many active {words.records} a {words.person} has and what they cost together, in cents.",
        {id: f"string: id of the {words.person}"},
        [
            _fetch(words.people, f"${id}", "owner"),
            _rows(words.records, [["owner", "==", f"${id}"], ["status", "==", "active"]]),
        ],
        {"number": {"count": "$found"}, "total_cents": {"total": ["$found", "paid_cents"]}},
    )


def _most_affordable(words: DomainWords) -> Tool:
    attribute = next(iter(words.attributes))
    return _tool(
        f"cheapest_{words.thing}",
        f"The cheapest {words.thing} of one {attribute} that is not sold out.",
        {attribute: f"string: the {attribute}, as written in the data"},
        [_rows(words.things, [[attribute, "==", f"${attribute}"], ["left", ">", 0]])],
        {"least": ["$found", "price_cents"]},
    )


def _update_contact(words: DomainWords, field: str) -> Tool:
    id = f"{words.person}_id"
    return _tool(
        f"update_{words.person}_{field}",
        f"Replaces the {field} of a {words.person}.",
        {id: f"string: id of the {words.person}", field: f"string: the new {field}"},
        [
            _fetch(words.people, f"${id}", "owner"),
            _require(f"${field}", "!=", "", f"the {field} is empty"),
            _change(words.people, f"${id}", field, f"${field}"),
        ],
        {"updated": f"${id}", field: f"${field}"},
    )


def _reserve(words: DomainWords) -> Tool:
    owner, item = f"{words.person}_id", f"{words.thing}_id"
    cost = {"product": ["$thing.price_cents", "$quantity"]}
    return _tool(
        f"{words.verb}_{words.thing}",
        f"Makes a {words.record} and pays for it from the balance.",
        {
            owner: f"string: id of the {words.person}",
            item: f"string: id of the {words.thing}",
            "quantity": "integer: how many, 1 to 9",
        },
        [
            _fetch(words.people, f"${owner}", "owner"),
            _fetch(words.things, f"${item}", "thing"),
            _require("$quantity", ">=", 1, "the quantity is at least 1"),
            _require("$quantity", "<=", 9, "the quantity is at most 9"),
            _require("$thing.left", ">=", "$quantity", f"this {words.thing} is sold out"),
            _require("$owner.balance_cents", ">=", cost, "the balance is too low"),
            {
                "do": "insert",
                "table": words.records,
                "record": {
                    "owner": f"${owner}",
                    "item": f"${item}",
                    "quantity": "$quantity",
                    "paid_cents": cost,
                    "status": "active",
                    "note": "",
                },
                "into": "made",
            },
            _change(words.things, f"${item}", "left", _less("$thing.left", "$quantity")),
            _change(words.people, f"${owner}", "balance_cents", _less("$owner.balance_cents", cost)),
        ],
        {"id": "$made.id", "paid_cents": "$made.paid_cents"},
    )


def _active_record(words: DomainWords, id: str) -> list[dict[str, Any]]:
    return [
        _fetch(words.records, f"${id}", "record"),
        _require("$record.status", "==", "active", f"this {words.record} is cancelled"),
        _fetch(words.people, "$record.owner", "owner"),
        _fetch(words.things, "$record.item", "thing"),
    ]


def _cancel(words: DomainWords) -> Tool:
    id = f"{words.record}_id"
    return _tool(
        f"cancel_{words.record}",
        f"Cancels an active {words.record}; what was paid goes back to the balance.",
        {id: f"string: id of the {words.record}"},
        [
            *_active_record(words, id),
            _change(words.records, f"${id}", "status", "cancelled"),
            _change(words.things, "$record.item", "left", _more("$thing.left", "$record.quantity")),
            _change(
                words.people, "$record.owner", "balance_cents", _more("$owner.balance_cents", "$record.paid_cents")
            ),
        ],
        {"cancelled": f"${id}", "refund_cents": "$record.paid_cents"},
    )


def _move(words: DomainWords) -> Tool:
    """The difference is paid or paid back; the balance after the refund must cover the new price."""
    id, item = f"{words.record}_id", f"{words.thing}_id"
    cost = {"product": ["$new.price_cents", "$record.quantity"]}
    refunded = _more("$owner.balance_cents", "$record.paid_cents")
    return _tool(
        f"change_{words.record}",
        f"Moves an active {words.record} to another {words.thing} and settles the difference.",
        {id: f"string: id of the {words.record}", item: f"string: id of the new {words.thing}"},
        [
            *_active_record(words, id),
            _require("$record.item", "!=", f"${item}", f"this is the same {words.thing}"),
            _fetch(words.things, f"${item}", "new"),
            _require("$new.left", ">=", "$record.quantity", f"this {words.thing} is sold out"),
            _require(refunded, ">=", cost, "the balance is too low"),
            _change(words.people, "$record.owner", "balance_cents", _less(refunded, cost)),
            _change(words.things, "$record.item", "left", _more("$thing.left", "$record.quantity")),
            _change(words.things, f"${item}", "left", _less("$new.left", "$record.quantity")),
            _change(words.records, f"${id}", "item", f"${item}"),
            _change(words.records, f"${id}", "paid_cents", cost),
        ],
        {"changed": f"${id}", "paid_cents": "$record.paid_cents"},
    )


def _note(words: DomainWords) -> Tool:
    id = f"{words.record}_id"
    return _tool(
        f"set_{words.note}",
        f"Writes the {words.note.replace('_', ' ')} of an active {words.record}.",
        {id: f"string: id of the {words.record}", "value": f"string: one of {', '.join(words.note_values)}"},
        [
            *_active_record(words, id),
            _require(list(words.note_values), "contains", "$value", "this value is unknown"),
            _change(words.records, f"${id}", "note", "$value"),
        ],
        {"updated": f"${id}", words.note: "$value"},
    )


def _transfer(words: DomainWords) -> Tool:
    return _tool(
        f"transfer_{words.balance}",
        f"Moves {words.balance} from one {words.person} to another, in cents.",
        {
            "from_id": f"string: id of the {words.person} who gives",
            "to_id": f"string: id of the {words.person} who gets",
            "amount_cents": "integer: how much, in cents",
        },
        [
            _fetch(words.people, "$from_id", "giver"),
            _require("$from_id", "!=", "$to_id", "both are the same"),
            _fetch(words.people, "$to_id", "taker"),
            _require("$amount_cents", ">", 0, "the amount must be positive"),
            _require("$giver.balance_cents", ">=", "$amount_cents", "the balance is too low"),
            _change(words.people, "$from_id", "balance_cents", _less("$giver.balance_cents", "$amount_cents")),
            _change(words.people, "$to_id", "balance_cents", _more("$taker.balance_cents", "$amount_cents")),
        ],
        {"from_balance_cents": "$giver.balance_cents"},
    )
