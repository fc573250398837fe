"""Subjects in words: what a card calls them, and tasks of theirs. After the bar stands what training never shows."""

from dataclasses import dataclass

from .more_subjects import MORE_TEXTS

# name (group): names on cards; then those that training never shows; then tasks, unseen ones after a bar.
# {a} and {b} are numbers.
TEXTS = """
arithmetic (mathematics): arithmetic; sums and everyday calculations; word problems with numbers; mental maths
unseen: reckoning with figures; school sums
A shop sells {a} apples at {b} cents each. What do they cost together?
Divide {a} sweets evenly among {b} children. How many are left over?
A train has {a} wagons with {b} seats each. How many people can sit?
Tom had {b} marbles, lost {a} and then doubled the rest. How many has he now?
Work out {a} times {b} minus 17.
What is 15 percent of {b}0?
| A baker fills {a} trays with {b} rolls each and burns nine. How many rolls can she sell?
| Anna saves {a} dollars a week. After how many weeks does she own {b}00 dollars?
algebra (mathematics): algebra; equations and polynomials; competition mathematics; number theory
unseen: solving for unknowns; olympiad maths
Solve x^2 - {a}x + {b} = 0 over the reals.
For which integers n does {a} divide n^3 - n?
Let f(x) = {a}x + {b}. Find f(f(2)).
Find the remainder of {a}^{b} divided by 7.
Factor the polynomial x^3 - {a}x completely.
Prove that the sum of {a} consecutive odd numbers is a square.
| If 3x + {a} = 5x - {b}, what is x?
| How many positive divisors does {a}! have?
geometry (mathematics): geometry; angles and areas; triangles, circles and solids
unseen: shapes in the plane and in space; Euclid's subject
A triangle has sides {a}, {b} and an angle of 60 degrees between them. Find its area.
What is the volume of a cone of radius {a} and height {b}?
Two circles of radius {a} touch. How long is their common tangent?
A rectangle's diagonal is {b} and one side is {a}. What is the other side?
How many diagonals has a polygon with {a} corners?
| A ladder of {b} feet leans on a wall, its foot {a} feet away. How high does it reach?
| Find the angle between the hands of a clock at {a} past three.
statistics (mathematics): statistics; probability and chance; analysing samples
unseen: data and uncertainty; stochastics
Two dice are thrown {a} times. How likely is at least one double six?
Test whether a coin that fell heads {b} times in 100 is fair.
The mean of {a} values is {b}. What happens to it when one value doubles?
An urn holds {a} red and {b} blue balls. Two are drawn. Probability of equal colours?
What sample size gives a margin of error of {a} percent?
| A survey of {b}0 voters has a standard error of what size?
| Explain why the median is {a} but the mean is {b} in skewed data.
programming (computing): programming; writing code; Python functions; software development
unseen: coding; building computer programs
Write a function that reverses a list of {a} strings.
Implement a queue with two stacks in Python.
Fix my loop: it stops after {a} of {b} items.
def is_sorted(values): complete the body and handle empty lists.
Write a TypeScript class that caches up to {b} results.
Refactor this method so that it no longer needs {a} parameters.
| Write a script that renames {b} files by their date.
| My recursive function overflows the stack after {b}00 calls. How do I rewrite it?
tracing (computing): reading code; predicting what a program prints; tracing programs by hand
unseen: working out a program's output; executing code in one's head
What does this print? for i in range({a}): print(i * {b})
def f(s): return s[::-1] + str({a})  What is f('ab{b}')?
Given x = [{a}, {b}], what is the value of x * 2 + [1]?
def g(n): return n if n < 2 else g(n-1) + g(n-2)  assert g({a}) == ??
What is the result of sorted({{{a}: 'b', {b}: 'a'}}.items())?
| def h(t): return ''.join(c for c in t if c.isdigit())  Complete: assert h('a{a}b{b}') == ??
| After x = {a}; x ^= {b}; x <<= 1, what does x hold?
databases (computing): databases; SQL queries; data modelling
unseen: relational stores; tables, joins and indexes
Write a query for the {a} customers with most orders since 20{b}.
Why is this join over {a} million rows slow, and which index helps?
Normalise a table of invoices with {a} columns to third normal form.
How do I delete duplicate rows but keep the newest in PostgreSQL?
| SELECT returns {a} rows instead of {b} after my LEFT JOIN. Why?
| Design tables for a library with loans and reservations.
networks (computing): computer networks; system administration; servers and operating systems
unseen: infrastructure and devops; keeping machines running
My Linux server refuses ssh on port {a}22. What should I check?
How many hosts fit into a /2{a} subnet?
Nginx returns 502 after {b} seconds. Where is the timeout set?
Write a systemd unit that restarts a service after {a} seconds.
Which process uses port 80{b} on this machine?
| Containers on one host can't resolve names of the other. What is wrong?
| Explain what happens in a TCP handshake when {a} packets are lost.
law (humanities): law; contracts and courts; legal questions; statutes
unseen: jurisprudence; what lawyers do
May a landlord keep the deposit of {a}00 euros after the lease ended?
Which court hears an appeal against a sentence of {b} months?
A buyer cancels a contract after {a} days. Who is liable for the damage?
Is an oral promise to sell a house for {b}0,000 binding?
A witness refuses to testify against her brother. Is that allowed?
Can an employer dismiss somebody during {a} weeks of sick leave?
| My neighbour's tree fell on my car. Can I claim compensation?
| Draft a clause that limits liability to {a} thousand.
medicine (natural sciences): medicine; health questions; diseases and treatment; anatomy
unseen: clinical matters; what doctors know
A patient of {a} years has had fever for {b} days. What is the likely cause?
Which vitamin is lacking when gums bleed?
What dose of paracetamol is safe for a child of {a} kilograms?
Which nerve is hurt when the wrist drops?
Does this drug interact with blood thinners?
How is an infected wound treated after {a} days?
| My father's blood pressure is 1{b} over 95. Is that dangerous?
| What are early signs of a stroke?
history (humanities): history; past events and rulers; dates and eras
unseen: bygone ages; what chronicles tell
Which king ruled when the war of {a} years began?
What treaty ended the revolt in the year 1{b}0?
Why did the empire fall after {a} decades?
Who led the first crusade, and with how many men?
Describe daily life in a medieval town around 1{b}0.
What caused the famine of 18{b}?
| Which events of 17{b} led to the revolution?
| When was the wall built that divided the capital?
geography (humanities): geography; countries, capitals and rivers; maps and places
unseen: where things lie on earth; lands and landscapes
Which river flows through {a} countries to the Black Sea?
What is the capital of the country south of the equator with {b} provinces?
Which mountain range separates the two peninsulas?
Name {a} islands in the Pacific with over {b} thousand people.
Why is the western coast at latitude {b} milder than the eastern?
| Which African states have no access to the sea?
| How far is it by road from Lisbon to Warsaw?
chemistry (natural sciences): chemistry; reactions and molecules; the elements
unseen: compounds and solutions; laboratory science
How many grams of salt form from {a} grams of acid?
Which element has {b} protons in its nucleus?
What gas forms when {a} grams of zinc meet hydrochloric acid?
Balance the equation for the burning of propane.
What is the pH of a buffer with {a} millimoles of acetate?
| Which isomer of butanol boils at the higher temperature?
| What mass of copper is deposited by {a} amperes in {b} minutes?
physics (natural sciences): physics; forces, energy and waves; mechanics
unseen: how matter moves; electromagnetism and heat
A ball is thrown up at {a} metres per second. How high does it fly?
What current flows through {b} ohms at {a} volts?
At which angle does light leave a prism of index 1.{b}?
How much energy does a spring store when pressed by {a} centimetres?
Why does a spinning skater speed up with arms drawn in?
| A car of {a}00 kilograms brakes from {b} km/h. What force acts on it?
| What wavelength has sound of {b}0 hertz in air?
biology (natural sciences): biology; cells and genes; life sciences; plants and animals
unseen: living things; heredity and organisms
Which organelle makes the energy of a cell?
A pea plant with two recessive genes is crossed {a} times. Which ratio results?
How do bats find their prey in the dark?
What happens during the second division of meiosis?
Why do populations of {b} animals lose variety?
| Which enzyme unwinds DNA before it is copied?
| How do salmon survive in both salt and fresh water?
astronomy (natural sciences): astronomy; stars and planets; the night sky
unseen: celestial bodies; what telescopes see
How long does light take from a star {a} parsecs away?
Why has Venus phases like the moon?
What is left when a star of {a} solar masses dies?
At what distance does a satellite circle earth once in {b} hours?
| Which planet has {b} known moons and a great red storm?
| Why do we always see the same side of the moon?
"""


@dataclass(frozen=True)
class Subject:
    """`names` and `tasks` each as (seen, unseen)."""

    name: str
    group: str
    names: tuple[tuple[str, ...], tuple[str, ...]]
    tasks: tuple[tuple[str, ...], tuple[str, ...]]


# Whole subjects that training never shows, neither on cards nor as problems.
HIDDEN = ("astronomy", "databases", "cooking", "psychology", "sport", "translation")

# What a card may call a whole group: seen | unseen.
GROUPS = {
    "mathematics": "mathematics; maths of any kind; quantitative subjects | all mathematical fields",
    "computing": "computing; everything about computers; technical IT subjects | computer science as a whole",
    "natural sciences": "the sciences; natural science; scientific subjects | the study of nature",
    "humanities": "the humanities; history, law and the like | liberal arts",
    "commerce": "business and money; commercial subjects; economic affairs | the world of commerce",
    "writing": "language and writing; work with words; texts of all kinds | everything literary",
    "everyday life": "everyday matters; daily life; practical questions at home | ordinary life",
    "technology": "technology; technical subjects; machines and electronics | technical fields",
    "thinking": "reasoning; abstract thinking | hard thinking",
}


def halves(listed: str, separator: str = ";") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """`a; b | c` as (seen, unseen)."""
    seen, _, unseen = listed.partition("|")

    def parts(text: str) -> tuple[str, ...]:
        return tuple(part.strip() for part in text.split(separator) if part.strip())

    return parts(seen), parts(unseen)


def _subject(block: list[str]) -> Subject:
    head, _, names = block[0].partition("): ")
    name, _, group = head.partition(" (")
    seen = tuple(line for line in block[2:] if not line.startswith("|"))
    unseen = tuple(line[1:].strip() for line in block[2:] if line.startswith("|"))
    return Subject(name, group, halves(f"{names} | {block[1].removeprefix('unseen: ')}"), (seen, unseen))


def read_subjects(text: str) -> dict[str, Subject]:
    """A subject begins with the line that has `(group): ` in it."""
    blocks: list[list[str]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if any(f"({group}): " in line for group in GROUPS):
            blocks.append([])
        blocks[-1].append(line)
    return {subject.name: subject for subject in map(_subject, blocks)}


SUBJECTS = read_subjects(TEXTS + MORE_TEXTS)
"""By name."""
