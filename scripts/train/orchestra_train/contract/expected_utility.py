"""Expected-utility search of depth two: twin of the gateway's, over floats or over numbers with a gradient (`traced`).

Answers and deliveries stand for themselves, a preparation for the best answer after it, an attempt for what it and one
more attempt may show by agreeing or not. Prices and waits add up along the path, whatever came of them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .agreement import Agreement, Chances, Number, ProblemPrior, weigh_agreement

# A certain right answer is worth as much as this many natural-log units of price at full cost weight.
QUALITY_SCALE = 8
DISLIKES = {"answer": 0.0, "deliver": 0.0, "attempt": 0.005, "prepare": 0.05}


@dataclass(frozen=True)
class UtilityOption:
    """One admissible choice; `kind` is answer, attempt (with `chances`), prepare (with `gain`) or deliver."""

    id: str
    kind: str
    cost_usd: float
    latency_ms: float
    privacy: float
    selector_weight: float = 0.0
    chances: Chances = ()
    gain: Number = 1.0


@dataclass(frozen=True)
class MadeAttempt:
    id: str
    slot: str
    chances: Chances
    agrees_with: str | None
    comparable: bool


@dataclass(frozen=True)
class SearchState:
    prior: ProblemPrior
    attempts: Sequence[MadeAttempt]
    comparable: float
    turns_left: int
    attempts_left: int


@dataclass(frozen=True)
class Outlook:
    """Expected, of the best path that begins with an option."""

    utility: Number
    p_right: Number


@dataclass(frozen=True)
class _Path:
    cost_usd: float = 0.0
    latency_ms: float = 0.0
    privacy: float = 1.0
    selector_weight: float = 0.0
    dislike: float = 0.0

    def along(self, option: UtilityOption) -> "_Path":
        return _Path(
            self.cost_usd + option.cost_usd,
            self.latency_ms + option.latency_ms,
            min(self.privacy, option.privacy),
            self.selector_weight + option.selector_weight,
            self.dislike + DISLIKES[option.kind],
        )


@dataclass(frozen=True)
class _AttemptGroup:
    id: str | None
    members: tuple[Chances, ...]


@dataclass(frozen=True)
class _Node:
    groups: tuple[_AttemptGroup, ...]
    loose: tuple[_AttemptGroup, ...]
    # Slots that wrote an attempt, with the id of its group; empty for one that is only imagined.
    tried: dict[str, str]
    path: _Path
    turns_left: int
    attempts_left: int


@dataclass(frozen=True)
class _Search:
    prior: ProblemPrior
    comparable: float
    answers: list[UtilityOption]
    attempts: list[UtilityOption]
    outlook: Callable[[Number, _Path], Outlook]

    def weigh(self, node: _Node) -> Agreement:
        return weigh_agreement([group.members for group in node.groups], self.prior)


NOWHERE = Outlook(-math.inf, 0.0)


def expected_utility(
    options: Sequence[UtilityOption], state: SearchState, weights: dict[str, float], scales: dict[str, float]
) -> list[Outlook]:
    """One entry an option, in order; what nothing can follow gets utility -inf."""
    search = _Search(
        state.prior,
        state.comparable if all(attempt.comparable for attempt in state.attempts) else 0.0,
        [option for option in options if option.kind == "answer"],
        [option for option in options if option.kind == "attempt"],
        lambda p_right, path: Outlook(_utility(p_right, path, weights, scales), p_right),
    )
    root = _root(state)
    agreement = search.weigh(root)
    return [_outlook_of(option, root, agreement, search) for option in options]


def _outlook_of(option: UtilityOption, root: _Node, agreement: Agreement, search: _Search) -> Outlook:
    path = root.path.along(option)
    if option.kind == "deliver":
        return search.outlook(_chance_of_delivery(option.id, root, agreement), path)
    made = root.tried.get(option.id)
    if option.kind == "answer":
        # Whoever wrote an attempt would write it again: a second answer of theirs is no second opinion.
        first = made is None
        chance = _expected(option.chances, agreement.levels) if first else _chance_of_delivery(made, root, agreement)
        return search.outlook(chance, path)
    if root.turns_left < 2:
        return NOWHERE
    if option.kind == "prepare":
        return _after_preparing(option.gain, path, agreement, search)
    # What can be compared with nothing teaches nothing: answering is the same for one turn less.
    return _after_attempt(root, option, search, 1) if made is None and search.comparable else NOWHERE


def _utility(p_right: Number, path: _Path, weights: dict[str, float], scales: dict[str, float]) -> Number:
    money = -weights["cost"] * math.log1p(path.cost_usd / scales["costUsd"])
    time = -weights["latency"] * math.log1p(path.latency_ms / scales["latencyMs"])
    soft_limits = scales["lambda"] * (money + time + weights["privacy"] * path.privacy)
    return QUALITY_SCALE * weights["quality"] * p_right + soft_limits + path.selector_weight - path.dislike


def _root(state: SearchState) -> _Node:
    def group(first: MadeAttempt) -> _AttemptGroup:
        followers = [attempt for attempt in state.attempts if attempt.agrees_with == first.id]
        return _AttemptGroup(first.id, tuple(attempt.chances for attempt in [first, *followers]))

    firsts = [attempt for attempt in state.attempts if attempt.agrees_with is None]
    return _Node(
        tuple(group(attempt) for attempt in firsts if attempt.comparable),
        tuple(group(attempt) for attempt in firsts if not attempt.comparable),
        {attempt.slot: attempt.agrees_with or attempt.id for attempt in state.attempts},
        _Path(),
        state.turns_left,
        state.attempts_left,
    )


def _expected(chances: Chances, levels: Sequence[Number]) -> Number:
    return sum(weight * chance for weight, chance in zip(levels, chances, strict=True))


def _chance_of_delivery(attempt_id: str, node: _Node, agreement: Agreement) -> Number:
    for place, group in enumerate(node.groups):
        if group.id == attempt_id:
            return agreement.right[place]
    loose = next((group.members[0] for group in node.loose if group.id == attempt_id), None)
    return 0.0 if loose is None else _expected(loose, agreement.levels)


def _after_preparing(gain: Number, path: _Path, agreement: Agreement, search: _Search) -> Outlook:
    return _best(
        NOWHERE,
        [
            search.outlook(_at_most_one(gain * _expected(answer.chances, agreement.levels)), path.along(answer))
            for answer in search.answers
        ],
    )


def _after_attempt(node: _Node, option: UtilityOption, search: _Search, ahead: int) -> Outlook:
    """The attempt agrees with a group, differs from all, or cannot be compared; each branch goes on as is best."""
    child = replace(
        node,
        tried={**node.tried, option.id: ""},
        path=node.path.along(option),
        turns_left=node.turns_left - 1,
        attempts_left=node.attempts_left - 1,
    )
    fresh = _AttemptGroup(None, (option.chances,))
    told = [
        replace(child, groups=(*node.groups[:at], _joined(group, option), *node.groups[at + 1 :]))
        for at, group in enumerate(node.groups)
    ]
    told.append(replace(child, groups=(*node.groups, fresh)))
    agreements = [search.weigh(branch) for branch in told]
    total = sum(agreement.likelihood for agreement in agreements)
    branches = [
        (search.comparable * agreement.likelihood / total, branch, agreement, ahead)
        for branch, agreement in zip(told, agreements, strict=True)
    ]
    if search.comparable < 1:
        # Where answers cannot be compared, further attempts would teach nothing either.
        apart = replace(child, loose=(*node.loose, fresh))
        branches.append((1 - search.comparable, apart, search.weigh(apart), 0))
    outlooks = [
        (chance, _best_from(branch, agreement, search, more))
        for chance, branch, agreement, more in branches
        if chance > 0
    ]
    return Outlook(
        sum(chance * outlook.utility for chance, outlook in outlooks),
        sum(chance * outlook.p_right for chance, outlook in outlooks),
    )


def _joined(group: _AttemptGroup, option: UtilityOption) -> _AttemptGroup:
    return replace(group, members=(*group.members, option.chances))


def _best_from(node: _Node, agreement: Agreement, search: _Search, ahead: int) -> Outlook:
    stopped = _best_end(node, agreement, search)
    if ahead == 0 or node.turns_left < 2 or node.attempts_left < 1:
        return stopped
    further = [option for option in search.attempts if option.id not in node.tried]
    return _best(stopped, [_after_attempt(node, option, search, ahead - 1) for option in further])


def _best_end(node: _Node, agreement: Agreement, search: _Search) -> Outlook:
    """Deliver the best attempt, or have somebody else answer for good."""
    loose = [_expected(group.members[0], agreement.levels) for group in node.loose]
    delivered = search.outlook(max([0.0, *agreement.right, *loose]), node.path)
    answers = [
        search.outlook(_expected(answer.chances, agreement.levels), node.path.along(answer))
        for answer in search.answers
        if answer.id not in node.tried
    ]
    return _best(delivered, answers)


def _best(first: Outlook, others: Sequence[Outlook]) -> Outlook:
    for other in others:
        if other.utility > first.utility:
            first = other
    return first


def _at_most_one(value: Number) -> Number:
    return value if value < 1 else 1.0


def choice_probabilities(utilities: Sequence[float], temperature: float) -> list[float]:
    """Softmax over utilities: the policy's probabilities."""
    top = max(utilities)
    raised = [math.exp((utility - top) / temperature) for utility in utilities]
    total = sum(raised)
    return [value / total for value in raised]
