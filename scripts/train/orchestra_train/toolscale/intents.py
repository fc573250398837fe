"""What people want, in many wordings, with the calls that do it. A harder form knows less or asks for more."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .domain_words import DomainWords
from .environment import Call, Domain, Environment
from .operations import Record

Rng = np.random.Generator


@dataclass(frozen=True)
class Want:
    """A wish of one person as a clause ("cancel my order ord_1003"), the calls after the person was found, what the
    agent must tell, and what a reader can check in words.

    Of calls that only look, those are golden without which it cannot be done: where two tools show the same, none is.
    """

    clause: str
    calls: tuple[Call, ...]
    told: tuple[str, ...]
    assertion: str


@dataclass(frozen=True)
class Scene:
    words: DomainWords
    environment: Environment
    person: Record
    rng: Rng

    def one_of(self, *wordings: str) -> str:
        return wordings[int(self.rng.integers(len(wordings)))]

    def do(self, name: str, **arguments: Any) -> tuple[Call, Any]:
        """Calls at once, so that what comes later is true after it. @raises ToolError"""
        call = {"name": name, "arguments": arguments}
        return call, self.environment.call(name, arguments)

    def table(self, name: str) -> list[Record]:
        return list(self.environment.database[name].values())

    def things(self) -> list[Record]:
        return [thing for thing in self.table(self.words.things) if thing["left"] >= 3]

    def own_records(self) -> list[Record]:
        """Those that the person had before this conversation: of a later one they cannot know the number."""
        known = self.environment.domain.database[self.words.records]
        rows = [row for row in self.table(self.words.records) if row["id"] in known]
        return [row for row in rows if row["owner"] == self.person["id"] and row["status"] == "active"]

    def pick(self, rows: list[Record]) -> Record:
        if not rows:
            raise NothingToDo
        return rows[int(self.rng.integers(len(rows)))]

    def balance(self) -> int:
        return self.environment.database[self.words.people][self.person["id"]]["balance_cents"]


class NothingToDo(Exception):
    """This person cannot want this."""


Intent = Callable[[Scene], Want]


def amount(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"


def start_scene(words: DomainWords, domain: Domain, rng: Rng) -> tuple[Scene, Call]:
    """Any person, and the call that finds them."""
    environment = Environment(domain)
    people = list(environment.database[words.people].values())
    scene = Scene(words, environment, people[int(rng.integers(len(people)))], rng)
    call, _ = scene.do(f"find_{words.person}_by_email", email=scene.person["email"])
    return scene, call


def reserve(scene: Scene) -> Want:
    words = scene.words
    thing, quantity = scene.pick(scene.things()), int(scene.rng.integers(1, 4))
    call, made = _reserve(scene, thing, quantity)
    clause = scene.one_of(
        f"{words.saying} {words.thing} {thing['id']}, {quantity} of them",
        f"{words.saying} {quantity} times {thing['id']}",
        f"have {quantity} of the {words.thing} with the number {thing['id']}",
    )
    return Want(clause, (call,), (amount(made["paid_cents"]),), f"Tells what {quantity} of {thing['id']} cost.")


def reserve_cheapest(scene: Scene) -> Want:
    """Harder: the thing must be found first."""
    words = scene.words
    attribute = next(iter(words.attributes))
    value = scene.one_of(*words.attributes[attribute])
    _, thing = scene.do(f"cheapest_{words.thing}", **{attribute: value})
    call, made = _reserve(scene, thing, 1)
    clause = scene.one_of(
        f"{words.saying} the cheapest {words.thing} whose {attribute} is {value}, just one",
        f"get one {words.thing} ({attribute}: {value}), the least expensive that is still to be had",
        f"find what costs least among the {words.things} with {attribute} {value} and {words.saying} one",
    )
    return Want(clause, (call,), (amount(made["paid_cents"]),), f"Takes the cheapest {words.thing} of {value}.")


def reserve_or_else(scene: Scene) -> Want:
    """Harder: the first wish is sold out, which only a look at the data tells."""
    words = scene.words
    gone = scene.pick([thing for thing in scene.table(words.things) if thing["left"] == 0])
    scene.do(f"get_{words.thing}", **{f"{words.thing}_id": gone["id"]})
    other = scene.pick(scene.things())
    call, made = _reserve(scene, other, 1)
    clause = scene.one_of(
        f"{words.saying} {gone['id']}, or if nothing is left of it, {other['id']} instead, one in any case",
        f"take one of {gone['id']} if it can still be had, otherwise one of {other['id']}",
    )
    return Want(clause, (call,), (amount(made["paid_cents"]),), f"Says that {gone['id']} was sold out.")


def _reserve(scene: Scene, thing: Record, quantity: int) -> tuple[Call, Any]:
    words = scene.words
    owner, item = {f"{words.person}_id": scene.person["id"]}, {f"{words.thing}_id": thing["id"]}
    return scene.do(f"{words.verb}_{words.thing}", **owner, **item, quantity=quantity)


def cancel(scene: Scene) -> Want:
    words = scene.words
    record = scene.pick(scene.own_records())
    call, done = scene.do(f"cancel_{words.record}", **{f"{words.record}_id": record["id"]})
    clause = scene.one_of(
        f"cancel my {words.record} {record['id']}",
        f"get rid of {words.record} {record['id']} and have the money back",
        f"undo {record['id']}; I no longer need it",
    )
    return Want(clause, (call,), (amount(done["refund_cents"]),), "Tells how much is refunded.")


def cancel_by_thing(scene: Scene) -> Want:
    """Harder: the number of the record is unknown."""
    words = scene.words
    record = scene.pick(scene.own_records())
    same = [row for row in scene.own_records() if row["item"] == record["item"]]
    if len(same) > 1:
        raise NothingToDo
    look, _ = scene.do(f"list_{words.records}_of_{words.person}", **{f"{words.person}_id": scene.person["id"]})
    call, done = scene.do(f"cancel_{words.record}", **{f"{words.record}_id": record["id"]})
    clause = scene.one_of(
        f"cancel what I have for {words.thing} {record['item']} (I have lost the number)",
        f"give back my {words.record} for {record['item']}",
    )
    return Want(clause, (look, call), (amount(done["refund_cents"]),), "Tells how much is refunded.")


def move(scene: Scene) -> Want:
    words = scene.words
    record = scene.pick(scene.own_records())
    thing = scene.pick([thing for thing in scene.things() if thing["id"] != record["item"]])
    arguments = {f"{words.record}_id": record["id"], f"{words.thing}_id": thing["id"]}
    call, _ = scene.do(f"change_{words.record}", **arguments)
    clause = scene.one_of(
        f"change {words.record} {record['id']} to {thing['id']} and hear what my {_plain(words.balance)} is then",
        f"switch {record['id']} over to {thing['id']}, and know what is left of my {_plain(words.balance)}",
    )
    return Want(clause, (call,), (amount(scene.balance()),), "Tells the balance after the change.")


def contact(scene: Scene) -> Want:
    words = scene.words
    phone = f"555-{int(scene.rng.integers(1000, 10000))}"
    owner = {f"{words.person}_id": scene.person["id"]}
    call, _ = scene.do(f"update_{words.person}_phone", **owner, phone=phone)
    clause = scene.one_of(
        f"have {phone} as my phone number from now on",
        f"replace my old phone number by {phone}",
        f"be reached under {phone}",
    )
    return Want(clause, (call,), (phone,), "Confirms the new number.")


def note(scene: Scene) -> Want:
    words = scene.words
    record, value = scene.pick(scene.own_records()), scene.one_of(*words.note_values)
    call, _ = scene.do(f"set_{words.note}", **{f"{words.record}_id": record["id"]}, value=value)
    wish, chosen = _plain(words.note), _plain(value)
    clause = scene.one_of(
        f"set the {wish} of {record['id']} to {chosen}", f"have {chosen} as {wish} for my {words.record} {record['id']}"
    )
    return Want(clause, (call,), (chosen,), f"Confirms the {wish}.")


def total(scene: Scene) -> Want:
    words = scene.words
    scene.pick(scene.own_records())
    call, found = scene.do(f"total_of_{words.person}", **{f"{words.person}_id": scene.person["id"]})
    clause = scene.one_of(
        f"know what all my active {words.records} cost together",
        f"hear the sum that I have in running {words.records}",
    )
    return Want(clause, (call,), (amount(found["total_cents"]),), "Tells the sum.")


def transfer(scene: Scene) -> Want:
    words = scene.words
    other = scene.pick([one for one in scene.table(words.people) if one["id"] != scene.person["id"]])
    cents = int(scene.rng.integers(1, 20)) * 100 + 50
    look, _ = scene.do(f"find_{words.person}_by_email", email=other["email"])
    parties = {"from_id": scene.person["id"], "to_id": other["id"]}
    call, after = scene.do(f"transfer_{words.balance}", **parties, amount_cents=cents)
    clause = scene.one_of(
        f"send {amount(cents)} of my {_plain(words.balance)} to {other['email']}",
        f"give {other['email']} an amount of {amount(cents)} out of my {_plain(words.balance)}",
    )
    return Want(clause, (look, call), (amount(after["from_balance_cents"]),), "Tells what is left.")


def _plain(name: str) -> str:
    return name.replace("_", " ")


SIMPLE: dict[str, Intent] = {
    "reserve": reserve,
    "cancel": cancel,
    "move": move,
    "contact": contact,
    "note": note,
    "total": total,
    "transfer": transfer,
}
# What each becomes when a task is made harder; the others are joined with a second wish.
HARDER: dict[str, Intent] = {"reserve": reserve_cheapest, "cancel": cancel_by_thing}
WITH_FALLBACK: Intent = reserve_or_else
