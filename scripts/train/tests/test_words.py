import json

import numpy as np
import pytest

from orchestra_train.contract.load import REPOSITORY
from orchestra_train.words import bags_of, buckets_of

VECTORS = json.loads((REPOSITORY / "test/golden/words.json").read_text("utf-8"))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_words_fall_into_the_gateways_buckets(vector):
    assert buckets_of(**vector["input"]) == vector["expected"]


def test_a_bag_has_length_one_and_nothing_of_an_empty_text():
    bags = bags_of(["two words", ""], 4096).toarray()
    assert np.linalg.norm(bags, axis=1).tolist() == pytest.approx([1, 0])
