"""The people, things and records of a domain, drawn from a seed."""

import numpy as np

from .domain_words import DomainWords
from .environment import Domain
from .operations import Database, Record
from .patterns import domain_tools

FIRST = ("Ada", "Bela", "Cem", "Dara", "Edo", "Fay", "Gus", "Hana", "Ivo", "June", "Kofi", "Lena", "Milo", "Nia")
LAST = ("Abara", "Brandt", "Costa", "Dunn", "Egli", "Falk", "Grant", "Haas", "Ito", "Jensen", "Kerr", "Lund", "Moss")
PEOPLE, THINGS, RECORDS = 60, 45, 80


def make_domain(words: DomainWords, seed: int) -> Domain:
    rng = np.random.default_rng([seed, *words.name.encode()])
    return Domain(words.name, policy_of(words), tuple(domain_tools(words)), make_database(words, rng))


def policy_of(words: DomainWords) -> str:
    return (
        f"You help {words.people}. Find the {words.person} by e-mail address before anything else. "
        f"Prices and balances are in cents in the data; tell people amounts as 12.34. "
        f"Do what was asked and nothing more; cancelled {words.records} stay as they are. "
        f"If something cannot be done, say so."
    )


def make_database(words: DomainWords, rng: np.random.Generator) -> Database:
    people = {one["id"]: one for one in (_person(words, n, rng) for n in range(PEOPLE))}
    things = {one["id"]: one for one in (_thing(words, n, rng) for n in range(THINGS))}
    records: dict[str, Record] = {}
    owners = list(people)
    for n in range(RECORDS):
        item = list(things.values())[int(rng.integers(THINGS))]
        quantity = int(rng.integers(1, 4))
        id = f"{words.record[:3]}_{1000 + n}"
        records[id] = {
            "id": id,
            "owner": owners[int(rng.integers(PEOPLE))],
            "item": item["id"],
            "quantity": quantity,
            "paid_cents": item["price_cents"] * quantity,
            "status": "active" if rng.random() < 0.8 else "cancelled",
            "note": "",
        }
    return {words.people: people, words.things: things, words.records: records}


def _person(words: DomainWords, n: int, rng: np.random.Generator) -> Record:
    first, last = FIRST[n % len(FIRST)], LAST[(n // len(FIRST) + n) % len(LAST)]
    return {
        "id": f"{words.person[:3]}_{int(rng.integers(100, 1000))}{n:02}",
        "name": f"{first} {last}",
        "email": f"{first}.{last}{n}@example.org".lower(),
        "phone": f"555-{int(rng.integers(1000, 10000))}",
        "balance_cents": int(rng.integers(40, 900)) * 100,
    }


def _thing(words: DomainWords, n: int, rng: np.random.Generator) -> Record:
    attributes = {name: values[int(rng.integers(len(values)))] for name, values in words.attributes.items()}
    return {
        "id": f"{words.thing[:3]}_{int(rng.integers(100, 1000))}{n:02}",
        **attributes,
        # No two alike, so that the cheapest is one.
        "price_cents": int(rng.integers(5, 90)) * 100 + n,
        "left": 0 if rng.random() < 0.2 else int(rng.integers(3, 30)),
    }
