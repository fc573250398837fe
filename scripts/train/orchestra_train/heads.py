"""Small heads over the sentence embedding: what a problem is about, how hard it is, which evidence it calls for."""

import base64
import hashlib
import json
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.optimize import minimize, minimize_scalar
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from .domains import DESCRIPTIONS
from .embedding import FILE_NAME, fetch_source
from .gist import gist_of
from .needs import NEEDS, made_requests
from .replay import PACKS, Pack, read_split
from .words import bags_of

HEADS_FILE = "estimate-heads.json"
SEED = 1
DOMAIN_INVERSE_PENALTY = 10.0
# Of hashed words beside the embedding: how many buckets, and how loud they are.
WORD_BUCKETS = 4096
WORD_SCALE = 2.0
PIECE = 700
NEEDS_INVERSE_PENALTY = 10.0
DIFFICULTY_PENALTY = 30.0
# Five points of Gauss-Hermite quadrature: levels of difficulty beside what the text shows.
LEVELS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
LEVEL_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


class Vectors:
    """Unit vectors of texts, kept in a file between runs because encoding the packs takes a quarter of an hour."""

    def __init__(self, cache: Path | None) -> None:
        self.file = cache / "vectors.npz" if cache else None
        self.known: dict[str, np.ndarray] = {}
        if self.file and self.file.exists():
            stored = np.load(self.file)
            self.known = dict(zip(stored["keys"].tolist(), stored["vectors"], strict=True))

    def of(self, texts: list[str]) -> np.ndarray:
        gists = [gist_of(text) for text in texts]
        keys = [hashlib.sha256(gist.encode()).hexdigest() for gist in gists]
        missing = {key: gist for key, gist in zip(keys, gists, strict=True) if key not in self.known}
        if missing:
            encoded = fetch_source().encoder().encode(list(missing.values()), most_tokens=256, batch_tokens=1024)
            self.known.update(zip(missing, encoded, strict=True))
            self._save()
        return np.stack([self.known[key] for key in keys]).astype(np.float64)

    def learn(self, texts: list[str]) -> None:
        """In pieces, so that a run that was killed goes on where it stood."""
        for at in range(0, len(texts), PIECE):
            self.of(texts[at : at + PIECE])

    def _save(self) -> None:
        if self.file:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            np.savez(self.file, keys=np.array(list(self.known)), vectors=np.stack(list(self.known.values())))


def train_heads(models: Path, cache: Path | None) -> None:
    vectors = Vectors(cache)
    packs = [read_split(name, "train") for name in PACKS]
    vectors.learn([*DESCRIPTIONS.values(), *(text for text, _ in made_requests())])
    vectors.learn([prompt for pack in packs for prompt in pack.prompts])
    encoded = [vectors.of(pack.prompts) for pack in packs]
    spread, difficulty = train_difficulty(packs, encoded)
    heads = {
        "version": 2,
        "provenance": provenance(packs),
        "embeddingSha256": hashlib.sha256((models / FILE_NAME).read_bytes()).hexdigest(),
        "domains": train_domains(packs, encoded, vectors),
        "difficulty": {**difficulty, "levels": round_all(LEVELS * spread), "levelWeights": round_all(LEVEL_WEIGHTS)},
        "needs": train_needs(packs, vectors),
        "coincidence": coincidences(packs),
    }
    (models / HEADS_FILE).write_text(json.dumps(heads, indent=1) + "\n")


def provenance(packs: list[Pack]) -> dict:
    counts = {pack.name: len(pack.ids) for pack in packs}
    return {
        "madeBy": "orchestra-train heads",
        "trainedOn": f"train split of the replay packs, items: {counts}; "
        f"needs: {len(made_requests())} made-up requests",
        "seed": SEED,
    }


def train_domains(packs: list[Pack], encoded: list[np.ndarray], vectors: Vectors) -> dict:
    embedded = np.concatenate(encoded)
    gists = [gist_of(prompt) for pack in packs for prompt in pack.prompts]
    features = sparse.hstack([embedded, WORD_SCALE * bags_of(gists, WORD_BUCKETS)]).tocsr()
    labels = np.concatenate([pack.domains for pack in packs])
    model = LogisticRegression(C=DOMAIN_INVERSE_PENALTY, max_iter=500, random_state=SEED).fit(features, labels)
    names = model.classes_.tolist()
    described = vectors.of([DESCRIPTIONS[name] for name in names])
    # On items that the head has seen it is surer than it may be.
    folds = StratifiedKFold(5, shuffle=True, random_state=SEED)
    logits = cross_val_predict(model, features, labels, cv=folds, method="decision_function")
    dimensions = embedded.shape[1]
    return {
        "names": names,
        "weights": packed(model.coef_[:, :dimensions]),
        "words": {"buckets": WORD_BUCKETS, **packed_in_bytes(WORD_SCALE * model.coef_[:, dimensions:])},
        "bias": round_all(model.intercept_),
        "descriptions": packed(described),
        "zeroShot": fit_zero_shot(logits, np.searchsorted(names, labels), embedded @ described.T),
    }


def fit_zero_shot(logits: np.ndarray, target: np.ndarray, similarity: np.ndarray) -> dict:
    """Scale and offset that make similarity to a description comparable with the logits of trained domains."""
    rows = np.arange(len(target))

    def loss(parameters: np.ndarray) -> float:
        total = 0.0
        for left_out in range(logits.shape[1]):
            tried = logits.copy()
            tried[:, left_out] = parameters[0] * similarity[:, left_out] + parameters[1]
            chosen = tried[rows, target] - np.logaddexp.reduce(tried, axis=1)
            total -= chosen.mean()
        return total

    found = minimize(loss, np.array([10.0, 0.0]), method="Nelder-Mead", options={"maxiter": 60})
    return {"scale": round(float(found.x[0]), 4), "bias": round(float(found.x[1]), 4)}


def logit(chances: np.ndarray) -> np.ndarray:
    return np.log(chances / (1 - chances))


def sigmoid(values: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-values))


def domain_skills(pack: Pack) -> np.ndarray:
    """Each item's row: how often every model is right in the item's domain, shrunk to its overall rate."""
    known = pack.correct >= 0
    right = pack.correct * known
    overall = right.sum(0) / known.sum(0)
    rows = np.zeros(pack.correct.shape)
    for domain in np.unique(pack.domains):
        of_domain = pack.domains == domain
        rows[of_domain] = (right[of_domain].sum(0) + 10 * overall) / (known[of_domain].sum(0) + 10)
    return np.clip(rows, 0.02, 0.98)


def train_difficulty(packs: list[Pack], encoded: list[np.ndarray]) -> tuple[float, dict]:
    """A shift of all models' log-odds, linear in the embedding, and the spread of what the text does not show."""
    offsets = [logit(domain_skills(pack)) for pack in packs]
    features = np.concatenate(encoded)
    centre = features.mean(0)

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        value = 0.5 * DIFFICULTY_PENALTY * float(weights @ weights)
        gradient = DIFFICULTY_PENALTY * weights
        for pack, offset, part in zip(packs, offsets, encoded, strict=True):
            known = pack.correct >= 0
            chance = sigmoid(offset + ((part - centre) @ weights)[:, None])
            likely = np.where(pack.correct == 1, chance, 1 - chance)
            # One item is one observation, however many models answered it: their errors go together.
            share = known / known.sum(1, keepdims=True)
            value -= float((share * np.log(np.clip(likely, 1e-9, 1))).sum())
            gradient = gradient - (part - centre).T @ (share * (pack.correct - chance) * known).sum(1)
        return value, gradient

    weights = minimize(loss, np.zeros(features.shape[1]), jac=True, method="L-BFGS-B").x
    shifted = [offset + ((part - centre) @ weights)[:, None] for offset, part in zip(offsets, encoded, strict=True)]

    def unlikelihood(spread: float) -> float:
        return -sum(
            float(np.log(item_likelihoods(pack, logits, spread)).sum())
            for pack, logits in zip(packs, shifted, strict=True)
        )

    spread = minimize_scalar(unlikelihood, bounds=(0.1, 4.0), method="bounded").x
    return float(spread), {"weights": packed(weights), "bias": round(float(-centre @ weights), 6)}


def item_likelihoods(pack: Pack, logits: np.ndarray, spread: float) -> np.ndarray:
    total = np.zeros(len(pack.ids))
    widened = logits * np.sqrt(1 + np.pi / 8 * spread**2)
    for level, weight in zip(LEVELS, LEVEL_WEIGHTS, strict=True):
        chance = sigmoid(widened + spread * level)
        likely = np.where(pack.correct == 1, chance, np.where(pack.correct == 0, 1 - chance, 1.0))
        total += weight * np.prod(likely, axis=1)
    return total


def coincidences(packs: list[Pack]) -> dict:
    """How often two wrong answers are equal: to questions with options, and to open ones."""
    rates = {}
    for pack in packs:
        if pack.answers is None:
            continue
        equal = pairs = 0
        for left in range(pack.correct.shape[1]):
            for right in range(left):
                wrong = (pack.correct[:, left] == 0) & (pack.correct[:, right] == 0)
                told = wrong & (pack.answers[:, left] >= 0) & (pack.answers[:, right] >= 0)
                pairs += int(told.sum())
                equal += int((told & (pack.answers[:, left] == pack.answers[:, right])).sum())
        rates[pack.name] = round(equal / pairs, 4)
    return {"options": rates["mmlu_pro"], "open": rates["zeroeval"]}


def train_needs(packs: list[Pack], vectors: Vectors) -> dict:
    requests = made_requests()
    # Examination questions need no documents of the caller's and nothing fresh.
    exam = [prompt for pack in packs for prompt in pack.prompts[:: max(1, len(pack.prompts) // 150)]]
    features = np.concatenate([vectors.of([text for text, _ in requests]), vectors.of(exam)])
    weights, bias = [], []
    for need in NEEDS:
        labels = np.array([need in needs for _, needs in requests])
        if need in ("facts", "documents"):
            known, target = features, np.concatenate([labels, np.zeros(len(exam), bool)])
        else:
            known, target = features[: len(requests)], labels
        model = LogisticRegression(C=NEEDS_INVERSE_PENALTY, max_iter=500, random_state=SEED).fit(known, target)
        weights.append(model.coef_[0])
        bias.append(model.intercept_[0])
    return {"names": list(NEEDS), "weights": packed(np.stack(weights)), "bias": round_all(np.array(bias))}


def packed(values: np.ndarray) -> str:
    """32-bit floats, little endian, row by row, in base64."""
    return base64.b64encode(values.astype("<f4").tobytes()).decode()


def packed_in_bytes(values: np.ndarray) -> dict:
    """Signed bytes, row by row, in base64, and what one step of them is worth."""
    step = float(np.abs(values).max()) / 127
    return {"weights": base64.b64encode(np.round(values / step).astype(np.int8).tobytes()).decode(), "step": step}


def round_all(values: np.ndarray) -> list[float]:
    return [round(float(value), 6) for value in values]
