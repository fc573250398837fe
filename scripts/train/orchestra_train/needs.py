"""Made-up requests in many wordings that say which evidence they call for. Nobody recorded such data for us."""

import itertools

NEEDS = ("facts", "documents", "calculation", "code")

TOPICS = [
    "the euro exchange rate",
    "the football world cup",
    "the Tokyo weather",
    "Node.js",
    "the housing market",
    "the French government",
    "electric cars",
    "SpaceX launches",
    "the oil price",
    "Python",
    "the stock of a chip maker",
    "the flu season",
    "air fares",
    "a mobile phone",
    "interest rates",
    "the climate summit",
    "a film festival",
]
OWN = [
    "travel expenses",
    "vacation days",
    "onboarding",
    "the release process",
    "security incidents",
    "our API keys",
    "the deployment",
    "customer refunds",
    "the backup schedule",
    "parental leave",
    "code reviews",
    "the configuration file",
    "rate limits",
    "the architecture",
    "support hours",
    "the style guide",
]
AMOUNTS = [
    "17.5% of 2,340",
    "348 * 27 - 1290",
    "the mean of 12, 15, 18 and 40",
    "2 to the power of 31",
    "15 factorial",
    "the monthly payment on 250000 at 3.1% over 20 years",
    "the days between 3 March 2019 and 9 May 2024",
    "the sum of all primes below 2000",
    "the roots of 3x^2 - 8x + 2",
    "0.0375 times 88,200",
    "1/7 + 3/11 - 2/5",
    "how many ways 8 people can sit around a table",
    "the standard deviation of 4, 8, 15, 16, 23, 42",
]
PROGRAMS = [
    "reverses a linked list",
    "parses a CSV file",
    "finds duplicate lines",
    "sorts dictionaries by a key",
    "retries a request with backoff",
    "merges two sorted arrays",
    "validates an e-mail address",
    "counts words in a text",
    "renders a table in HTML",
    "reads a JSON file and prints a field",
    "computes a Fibonacci number",
    "walks a directory tree",
]
LANGUAGES = ["Python", "JavaScript", "TypeScript", "Go", "Rust", "Java", "SQL", "Bash", "C++"]

WORDINGS = {
    "facts": [
        "What is the latest news about {t}?",
        "What happened to {t} this week?",
        "{t}: what is the current state?",
        "Look up {t} on the web.",
        "Who leads in {t} right now?",
        "What changed for {t} since last year?",
        "How much is {t} today?",
        "Find recent sources on {t}.",
        "Is there anything new about {t}?",
    ],
    "documents": [
        "What do our documents say about {t}?",
        "According to the handbook, how is {t} handled?",
        "Where in our docs is {t} described?",
        "Which of our pages covers {t}?",
        "What is our policy on {t}?",
        "How do I set up {t} in this project?",
        "Summarise our internal rules for {t}.",
        "Which option in the manual controls {t}?",
        "Please check the wiki for {t}.",
    ],
    "calculation": [
        "Calculate {t}.",
        "What is {t}?",
        "Work out {t} exactly.",
        "How much is {t}?",
        "Compute {t} for me.",
        "I need the exact value of {t}.",
        "Please evaluate {t}, to four decimals.",
        "Give me {t}.",
    ],
    "code": [
        "Write a {l} function that {t}.",
        "How do I write {l} code that {t}?",
        "My {l} program that {t} crashes, why?",
        "Refactor this {l} script that {t}.",
        "Show me {l} code which {t}.",
        "Review my {l} function that {t}.",
        "Add tests to a {l} module that {t}.",
    ],
}
PLAIN = [
    "Hello!",
    "Hi there",
    "Thanks, that helped.",
    "Good morning",
    "Tell me a joke.",
    "Write a poem about {t}.",
    "Translate 'I like {t}' into French.",
    "Rewrite this politely: I hate {t}.",
    "Explain {t} to a child.",
    "Give me five names for a blog about {t}.",
    "What do you think about {t}?",
    "Make this shorter: {t} is a wide field.",
    "Write an e-mail to a friend about {t}.",
    "Summarise this paragraph about {t}.",
    "Correct my grammar: {t} are nice.",
    "Why do people like {t}?",
    "Tell me a story with {t} in it.",
]
CALM = ["music", "gardening", "friendship", "the sea", "old books", "cooking", "mountains", "a cat", "winter", "chess"]


def made_requests() -> list[tuple[str, set[str]]]:
    """Each request with the needs that it has."""
    requests = [
        (wording.format(t=topic, l=language), {need})
        for need, topics in (("facts", TOPICS), ("documents", OWN), ("calculation", AMOUNTS), ("code", PROGRAMS))
        for wording, (index, topic) in itertools.product(WORDINGS[need], enumerate(topics))
        for language in [LANGUAGES[(index + len(wording)) % len(LANGUAGES)]]
    ]
    plain = [(wording.format(t=topic), set()) for wording in PLAIN for topic in CALM if "{t}" in wording]
    return requests + plain + [(wording, set()) for wording in PLAIN if "{t}" not in wording]
