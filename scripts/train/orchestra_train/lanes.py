"""Several texts written side by side: each forward pass adds a token to every one that is still being written."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .model import Decoder, Past


class Lanes:
    """Texts that grow at their own pace over one cache of keys and values.

    `scores` [lanes, vocabulary], on the CPU, stand for the next token of each. Lanes share columns; where one has
    nothing to put, its column is filled and hidden from it for good.
    """

    @torch.no_grad()
    def __init__(self, model: Decoder, prompts: Sequence[Sequence[int]], copies: int = 1) -> None:
        """Each prompt is read once, and then stands in so many lanes side by side."""
        self._model = model
        self._pasts = [Past() for _ in model.blk]
        self._seen = torch.zeros(len(prompts), 0, dtype=torch.bool)
        self._lengths = torch.zeros(len(prompts), dtype=torch.long)
        self.scores = torch.zeros(len(prompts), model.config.vocabulary)
        self.read(prompts)
        for past in self._pasts:
            past.repeat(copies)
        self._seen, self._lengths, self.scores = (
            part.repeat_interleave(copies, 0) for part in (self._seen, self._lengths, self.scores)
        )

    @torch.no_grad()
    def read(self, pieces: Sequence[Sequence[int]]) -> None:
        """Adds a piece to each lane; those with an empty one stand still."""
        lengths = torch.tensor([len(piece) for piece in pieces])
        longest = int(lengths.max())
        if longest == 0:
            return
        tokens = torch.tensor([[*piece, *[0] * (longest - len(piece))] for piece in pieces])
        steps = torch.arange(longest)
        real = steps < lengths[:, None]
        # What fills up sees itself, since a row of nothing has no softmax.
        own = steps[:, None] >= steps
        fresh = own & (real[:, None] | torch.eye(longest, dtype=torch.bool))
        mask = torch.cat([self._seen[:, None].expand(-1, longest, -1), fresh], 2)
        device = self._model.device
        states = self._model(
            tokens.to(device), (self._lengths[:, None] + steps).to(device), mask.to(device), self._pasts
        )
        fed = lengths > 0
        last = states[fed, lengths[fed] - 1]
        self.scores[fed] = self._model.logits(last).cpu()
        self._seen = torch.cat([self._seen, real], 1)
        self._lengths = self._lengths + lengths

    def write(
        self, going: Sequence[int], choose: Callable[[list[int], Tensor], list[int]], end: int, most: int
    ) -> dict[int, list[int]]:
        """Each goes on until it wrote `end` or `most` tokens; `choose` takes lanes and scores [lanes, vocabulary]."""
        written: dict[int, list[int]] = {lane: [] for lane in going}
        active = list(going)
        while active:
            chosen = dict(zip(active, choose(active, self.scores[active]), strict=True))
            for lane, token in chosen.items():
                written[lane].append(token)
            self.read([[chosen[lane]] if lane in chosen else [] for lane in range(len(self._lengths))])
            active = [lane for lane in active if written[lane][-1] != end and len(written[lane]) < most]
        return written
