"""Words of the simulated world. Lists are split: wordings after the bar are never seen in training.

Tasks are not: of the world's own ones only the numbers are new in an evaluation, and the recorded questions as a whole.
"""

import numpy as np

Rng = np.random.Generator

# For each domain: names it goes by, and tasks. `{a}` and `{b}` are numbers, `{w}` is a word.
DOMAINS: dict[str, tuple[str, list[str]]] = {
    "arithmetic": (
        "arithmetic, word problems with numbers, sums | calculations, everyday maths",
        [
            "A shop sells {a} apples at {b} cents each. How much is that together?",
            "Divide {a} sweets among {b} children. How many are left over?",
            "A train of {a} wagons carries {b} people in each. How many people are on board?",
        ],
    ),
    "code": (
        "programming, writing code, Python | software, computer programs",
        [
            "Write a function that reverses a list of {a} strings.",
            "What does this print? for i in range({b}): print(i * {a})",
            "Fix the bug in my loop: it stops after {a} of {b} items.",
        ],
    ),
    "law": (
        "law, contracts and courts, legal questions | statutes, jurisprudence",
        [
            "May a landlord keep the deposit of {a} euros after the contract ended?",
            "Which court hears an appeal against a sentence of {b} months?",
            "A buyer cancels a contract after {a} days. Who is liable?",
        ],
    ),
    "medicine": (
        "medicine, health questions, diseases | clinical matters, patients and therapy",
        [
            "A patient of {a} years has fever for {b} days. What is the likely disease?",
            "Which vitamin is lacking when gums bleed after {a} weeks?",
            "What dose is safe for a child of {b} kilograms?",
        ],
    ),
    "history": (
        "history, past events, dates and rulers | bygone ages, chronicles",
        [
            "Which king ruled when the war of {a} years began?",
            "What treaty ended the revolt in the year 1{b}?",
            "Who was emperor {a} years after the city fell?",
        ],
    ),
    "chemistry": (
        "chemistry, reactions and molecules, the elements | compounds, laboratory science",
        [
            "How many grams of salt form from {a} grams of acid?",
            "Which element has {b} protons in its nucleus?",
            "What gas forms when {a} grams of metal meet acid?",
        ],
    ),
}

# From worst to best.
GRADES = [
    "useless at {d}; nearly always wrong in {d}; fails at {d} | hopeless when it comes to {d}",
    "weak at {d}; often wrong in {d}; has trouble with {d} | struggles with {d}",
    "middling at {d}; right about half of the time in {d}; so-so at {d} | neither good nor bad at {d}",
    "good at {d}; mostly right in {d}; solid at {d} | dependable for {d}",
    "excellent at {d}; hardly ever wrong in {d}; outstanding at {d} | a master of {d}",
]
EVERYTHING = "everything; all subjects; any question | whatever one asks"
OPENINGS = "Is {s}.; This model is {s}.; Users say it is {s}. | According to our tests it is {s}."
WISHES: dict[str, str] = {
    "quality": "It must be right.; Accuracy above all.; Take what it needs to get this right.; No mistakes, please.; "
    "I rely on this answer, so check it well.; Better correct than cheap or quick.; The best answer that can be had. "
    "| Mistakes would be terrible.; Be certain before you reply.; Lives hang on this.; Only the truth will do.",
    "cost": "Keep it cheap.; Spend as little as possible.; This is not worth much money.; The cheapest way is fine.; "
    "Go easy on the budget.; A rough answer for a few cents will do.; Price matters most here. "
    "| Our budget is tiny.; Every cent counts.; We are nearly broke.; Do it on a shoestring.",
    "latency": "I am in a hurry.; Answer quickly.; I need it right now.; Speed is what matters.; As fast as you can.; "
    "The meeting starts in a minute.; Don't make me wait. "
    "| There is no time to lose.; Every second counts.; Be quick about it.; My train leaves any moment.",
    "privacy": "This is confidential.; Keep the data in house.; No outsider may see this.; It holds private records.; "
    "Use our own machines where you can.; Please be discreet with this.; Don't send it to strangers. "
    "| Nothing may leave our building.; This is top secret.; Our eyes only.; These papers are sealed.",
}


def wordings(listed: str, unseen: bool) -> list[str]:
    """One half of a list. `unseen` asks for the half that training never shows."""
    seen, _, hidden = listed.partition("|")
    half = hidden if unseen else seen
    separator = ";" if ";" in listed else ","
    return [part.strip() for part in half.split(separator) if part.strip()]


def pick(rng: Rng, listed: str, unseen: bool) -> str:
    options = wordings(listed, unseen)
    return options[rng.integers(len(options))]


def task_text(rng: Rng, domain: str) -> str:
    templates = DOMAINS[domain][1]
    numbers = {"a": str(rng.integers(2, 99)), "b": str(rng.integers(10, 99))}
    return templates[rng.integers(len(templates))].format(**numbers)


def card_text(rng: Rng, grades: dict[str, int], general: int, unseen: bool) -> str:
    """One sentence on the whole and one a named domain, in any order."""
    spoken = [(EVERYTHING, general), *((DOMAINS[domain][0], grade) for domain, grade in grades.items())]
    sentences = []
    for names, grade in (spoken[index] for index in rng.permutation(len(spoken))):
        phrase = pick(rng, GRADES[grade], unseen).replace("{d}", pick(rng, names, unseen))
        sentence = pick(rng, OPENINGS, unseen).replace("{s}", phrase)
        sentences.append(sentence[0].upper() + sentence[1:])
    return " ".join(sentences)
