"""Ten domains in words: who comes, what there is, what is made. Everything else follows from these."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DomainWords:
    name: str
    person: str
    people: str
    thing: str
    things: str
    record: str
    records: str
    # What is done to a thing, as a tool's name begins and as people say it.
    verb: str
    saying: str
    # Two things that a thing is described by, with their values.
    attributes: dict[str, tuple[str, ...]]
    # What can be written on a record.
    note: str
    note_values: tuple[str, ...]
    balance: str = "balance"


DOMAINS = (
    DomainWords(
        "finance",
        "client",
        "clients",
        "fund",
        "funds",
        "holding",
        "holdings",
        "buy",
        "buy shares of",
        {"sector": ("energy", "health", "housing", "technology", "water"), "risk": ("low", "medium", "high")},
        "dividend_choice",
        ("reinvest", "pay_out"),
    ),
    DomainWords(
        "sport",
        "fan",
        "fans",
        "match",
        "matches",
        "ticket",
        "tickets",
        "book",
        "get tickets for",
        {"team": ("Harriers", "Comets", "Badgers", "Rovers", "Herons"), "stand": ("north", "south", "family")},
        "entry_gate",
        ("gate_a", "gate_b", "gate_c"),
        "credit",
    ),
    DomainWords(
        "e-commerce",
        "customer",
        "customers",
        "product",
        "products",
        "order",
        "orders",
        "order",
        "order",
        {"category": ("lamps", "chairs", "kettles", "rugs", "clocks"), "colour": ("red", "green", "grey", "oak")},
        "delivery_option",
        ("doorstep", "pickup_point", "neighbour"),
        "store_credit",
    ),
    DomainWords(
        "medicine",
        "patient",
        "patients",
        "session",
        "sessions",
        "appointment",
        "appointments",
        "book",
        "book",
        {
            "speciality": ("dermatology", "cardiology", "eye care", "physiotherapy", "dentistry"),
            "day": ("Monday", "Tuesday", "Thursday", "Friday"),
        },
        "visit_reason",
        ("check_up", "follow_up", "new_complaint"),
        "prepayment",
    ),
    DomainWords(
        "entertainment",
        "viewer",
        "viewers",
        "screening",
        "screenings",
        "seat",
        "seats",
        "reserve",
        "reserve seats for",
        {"genre": ("comedy", "western", "animation", "thriller", "musical"), "hall": ("blue hall", "attic", "garden")},
        "snack_choice",
        ("popcorn", "nachos", "none"),
        "voucher",
    ),
    DomainWords(
        "railway",
        "passenger",
        "passengers",
        "train",
        "trains",
        "booking",
        "bookings",
        "book",
        "book places on",
        {
            "destination": ("Arlen", "Brookmouth", "Castel", "Dunmere", "Eastholt"),
            "class": ("first", "second", "quiet"),
        },
        "seat_wish",
        ("window", "aisle", "table"),
        "credit",
    ),
    DomainWords(
        "restaurant",
        "guest",
        "guests",
        "sitting",
        "sittings",
        "reservation",
        "reservations",
        "reserve",
        "reserve",
        {"room": ("terrace", "cellar", "winter garden", "bar", "library"), "menu": ("tasting", "vegan", "seafood")},
        "occasion",
        ("birthday", "business", "anniversary"),
        "deposit",
    ),
    DomainWords(
        "education",
        "student",
        "students",
        "course",
        "courses",
        "enrolment",
        "enrolments",
        "join",
        "enrol in",
        {
            "subject": ("statistics", "pottery", "Latin", "robotics", "botany"),
            "term": ("autumn", "spring", "summer"),
        },
        "grading_choice",
        ("graded", "pass_fail", "audit"),
        "fee_account",
    ),
    DomainWords(
        "travel",
        "traveller",
        "travellers",
        "tour",
        "tours",
        "trip",
        "trips",
        "book",
        "book",
        {"country": ("Norway", "Portugal", "Japan", "Kenya", "Peru"), "style": ("hiking", "city", "cycling")},
        "meal_wish",
        ("vegetarian", "halal", "no_wish"),
        "points",
    ),
    DomainWords(
        "weather",
        "subscriber",
        "subscribers",
        "station",
        "stations",
        "alert",
        "alerts",
        "subscribe",
        "subscribe to",
        {"region": ("coast", "highlands", "valley", "lakes", "plain"), "sensor": ("wind", "rain", "frost", "pollen")},
        "alert_channel",
        ("text_message", "email", "siren"),
        "credit",
    ),
)
