"""Ten domains in words: who comes, what there is, what is made. Everything else follows from these."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
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
        name="finance",
        person="client",
        people="clients",
        thing="fund",
        things="funds",
        record="holding",
        records="holdings",
        verb="buy",
        saying="buy shares of",
        attributes={
            "sector": ("energy", "health", "housing", "technology", "water"),
            "risk": ("low", "medium", "high"),
        },
        note="dividend_choice",
        note_values=("reinvest", "pay_out"),
    ),
    DomainWords(
        name="sport",
        person="fan",
        people="fans",
        thing="match",
        things="matches",
        record="ticket",
        records="tickets",
        verb="book",
        saying="get tickets for",
        attributes={
            "team": ("Harriers", "Comets", "Badgers", "Rovers", "Herons"),
            "stand": ("north", "south", "family"),
        },
        note="entry_gate",
        note_values=("gate_a", "gate_b", "gate_c"),
        balance="credit",
    ),
    DomainWords(
        name="e-commerce",
        person="customer",
        people="customers",
        thing="product",
        things="products",
        record="order",
        records="orders",
        verb="order",
        saying="order",
        attributes={
            "category": ("lamps", "chairs", "kettles", "rugs", "clocks"),
            "colour": ("red", "green", "grey", "oak"),
        },
        note="delivery_option",
        note_values=("doorstep", "pickup_point", "neighbour"),
        balance="store_credit",
    ),
    DomainWords(
        name="medicine",
        person="patient",
        people="patients",
        thing="session",
        things="sessions",
        record="appointment",
        records="appointments",
        verb="book",
        saying="book",
        attributes={
            "speciality": ("dermatology", "cardiology", "eye care", "physiotherapy", "dentistry"),
            "day": ("Monday", "Tuesday", "Thursday", "Friday"),
        },
        note="visit_reason",
        note_values=("check_up", "follow_up", "new_complaint"),
        balance="prepayment",
    ),
    DomainWords(
        name="entertainment",
        person="viewer",
        people="viewers",
        thing="screening",
        things="screenings",
        record="seat",
        records="seats",
        verb="reserve",
        saying="reserve seats for",
        attributes={
            "genre": ("comedy", "western", "animation", "thriller", "musical"),
            "hall": ("blue hall", "attic", "garden"),
        },
        note="snack_choice",
        note_values=("popcorn", "nachos", "none"),
        balance="voucher",
    ),
    DomainWords(
        name="railway",
        person="passenger",
        people="passengers",
        thing="train",
        things="trains",
        record="booking",
        records="bookings",
        verb="book",
        saying="book places on",
        attributes={
            "destination": ("Arlen", "Brookmouth", "Castel", "Dunmere", "Eastholt"),
            "class": ("first", "second", "quiet"),
        },
        note="seat_wish",
        note_values=("window", "aisle", "table"),
        balance="credit",
    ),
    DomainWords(
        name="restaurant",
        person="guest",
        people="guests",
        thing="sitting",
        things="sittings",
        record="reservation",
        records="reservations",
        verb="reserve",
        saying="reserve",
        attributes={
            "room": ("terrace", "cellar", "winter garden", "bar", "library"),
            "menu": ("tasting", "vegan", "seafood"),
        },
        note="occasion",
        note_values=("birthday", "business", "anniversary"),
        balance="deposit",
    ),
    DomainWords(
        name="education",
        person="student",
        people="students",
        thing="course",
        things="courses",
        record="enrolment",
        records="enrolments",
        verb="join",
        saying="enrol in",
        attributes={
            "subject": ("statistics", "pottery", "Latin", "robotics", "botany"),
            "term": ("autumn", "spring", "summer"),
        },
        note="grading_choice",
        note_values=("graded", "pass_fail", "audit"),
        balance="fee_account",
    ),
    DomainWords(
        name="travel",
        person="traveller",
        people="travellers",
        thing="tour",
        things="tours",
        record="trip",
        records="trips",
        verb="book",
        saying="book",
        attributes={
            "country": ("Norway", "Portugal", "Japan", "Kenya", "Peru"),
            "style": ("hiking", "city", "cycling"),
        },
        note="meal_wish",
        note_values=("vegetarian", "halal", "no_wish"),
        balance="points",
    ),
    DomainWords(
        name="weather",
        person="subscriber",
        people="subscribers",
        thing="station",
        things="stations",
        record="alert",
        records="alerts",
        verb="subscribe",
        saying="subscribe to",
        attributes={
            "region": ("coast", "highlands", "valley", "lakes", "plain"),
            "sensor": ("wind", "rain", "frost", "pollen"),
        },
        note="alert_channel",
        note_values=("text_message", "email", "siren"),
        balance="credit",
    ),
)
