"""What the rows without a gateway share: what train says of the models, and what a text says of its domain."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from .recorded import Table

Made = tuple[np.ndarray, np.ndarray]
Setting = Callable[[np.ndarray], Made]
SHRINK = 10.0
COST_WEIGHTS = np.concatenate([[0.0], np.logspace(-3, 1.5, 40)])


@dataclass(frozen=True)
class Fitted:
    """What all methods share. mean_right, mean_usd: [models] on train; `text` [items, words]."""

    table: Table
    train: np.ndarray
    validation: np.ndarray
    strongest: int
    mean_right: np.ndarray
    mean_usd: np.ndarray
    names: list[str]
    # What the text of each item says of its domain. [items]
    told: np.ndarray
    text: object


def fit(table: Table) -> Fitted:
    train, validation = table.rows("train"), table.rows("validation")
    mean_right = table.right[train].mean(0)
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2, max_features=60_000)
    prompts = [item["prompt"] for item in table.items]
    vectorizer.fit([prompts[row] for row in train])
    text = vectorizer.transform(prompts)
    teller = LogisticRegression(C=30.0, max_iter=300).fit(text[train], table.domains[train])
    return Fitted(
        table,
        train,
        validation,
        int(mean_right.argmax()),
        mean_right,
        table.usd[train].mean(0),
        sorted(set(table.domains)),
        teller.predict(text),
        text,
    )


def single(table: Table, model: int) -> Setting:
    return lambda rows: (table.right[rows, model], table.usd[rows, model])


def picked(table: Table, rows: np.ndarray, models: np.ndarray) -> Made:
    return table.right[rows, models], table.usd[rows, models]
