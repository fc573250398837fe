"""Words of a text as buckets of a hash: twin of src/router/policies/words.ts."""

import re

import numpy as np
from scipy import sparse

# Of FNV-1a, 32 bits.
FNV_OFFSET = 0x811C9DC5
FNV_PRIME = 0x01000193
WORD = re.compile(r"[a-z0-9]+|[^\x00-\x20a-z0-9]")


def buckets_of(text: str, buckets: int) -> list[int]:
    """Each bucket once, in order of appearance."""
    return list(dict.fromkeys(hash_of(word) % buckets for word in WORD.findall(text.lower())))


def hash_of(text: str) -> int:
    value = FNV_OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * FNV_PRIME) & 0xFFFFFFFF
    return value


def bags_of(texts: list[str], buckets: int) -> sparse.csr_matrix:
    """A unit vector a text, the same in every bucket that it touches."""
    found = [buckets_of(text, buckets) for text in texts]
    rows = np.repeat(np.arange(len(texts)), [len(row) for row in found])
    values = np.concatenate([np.full(len(row), max(1, len(row)) ** -0.5) for row in found])
    columns = np.concatenate([np.array(row, int) for row in found])
    return sparse.csr_matrix((values, (rows, columns)), shape=(len(texts), buckets))
