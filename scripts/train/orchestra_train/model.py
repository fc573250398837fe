"""Llama and Qwen3 in plain torch. Parameters are named and laid out as in a GGUF, so that nothing is permuted."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

# Queries that attend together.
PART = 256


@dataclass(frozen=True)
class ModelConfig:
    """Shape of a decoder; `architecture` is `llama` (interleaved rotary pairs) or `qwen3` (halves, normed q and k)."""

    architecture: str
    vocabulary: int
    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_width: int
    rope_base: float
    norm_epsilon: float
    context: int
    tied: bool = True


class Linear(nn.Module):
    """A projection without bias; with an adapter the weight is frozen and only `lora_a`, `lora_b` learn."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.lora_a: nn.Parameter | None = None
        self.lora_b: nn.Parameter | None = None
        self.scale = 1.0

    def adapt(self, rank: int, alpha: float) -> None:
        outputs, inputs = self.weight.shape
        self.weight.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.randn(rank, inputs) / inputs**0.5)
        self.lora_b = nn.Parameter(torch.zeros(outputs, rank))
        self.scale = alpha / rank

    def forward(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.weight)
        if self.lora_a is None or self.lora_b is None:
            return y
        return torch.add(y, F.linear(F.linear(x, self.lora_a), self.lora_b), alpha=self.scale)

    def merged(self) -> Tensor:
        if self.lora_a is None or self.lora_b is None:
            return self.weight
        return self.weight + self.lora_b @ self.lora_a * self.scale


class Past:
    """Keys and values that one block computed for what it was fed before; only where no gradients are kept."""

    def __init__(self) -> None:
        self._columns = 0
        self._held: Tensor | None = None

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """[B, kv_heads, T, head_width] each -> all so far, [B, kv_heads, columns, head_width] each"""
        fresh = torch.stack([keys, values])
        end = self._columns + keys.shape[2]
        if self._held is None or end > self._held.shape[3]:
            # Twice as much room as needed, so that a token at a time is not copied along with all before it.
            grown = fresh.new_zeros(*fresh.shape[:3], 2 * end, fresh.shape[4])
            if self._held is not None:
                grown[:, :, :, : self._columns] = self._held[:, :, :, : self._columns]
            self._held = grown
        self._held[:, :, :, self._columns : end] = fresh
        self._columns = end
        return self._held[0, :, :, :end], self._held[1, :, :, :end]

    def repeat(self, times: int) -> None:
        """Each row so many times, side by side."""
        if self._held is not None:
            self._held = self._held.repeat_interleave(times, 1)


class Block(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width, head = config.width, config.head_width
        self.config = config
        self.attn_norm = nn.RMSNorm(width, config.norm_epsilon)
        self.attn_q = Linear(width, config.heads * head)
        self.attn_k = Linear(width, config.kv_heads * head)
        self.attn_v = Linear(width, config.kv_heads * head)
        self.attn_output = Linear(config.heads * head, width)
        if config.architecture == "qwen3":
            self.attn_q_norm = nn.RMSNorm(head, config.norm_epsilon)
            self.attn_k_norm = nn.RMSNorm(head, config.norm_epsilon)
        self.ffn_norm = nn.RMSNorm(width, config.norm_epsilon)
        self.ffn_gate = Linear(width, config.feed_forward)
        self.ffn_up = Linear(width, config.feed_forward)
        self.ffn_down = Linear(config.feed_forward, width)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor, past: Past | None = None) -> Tensor:
        """x: [B, T, width]; turn: cosines and sines [B, 1, T, head/2]; mask: [B, 1, T, T], 0 where seen, else -inf."""
        x = x + self._attention(self.attn_norm(x), turn, mask, past)
        y = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(y)) * self.ffn_up(y))

    def _attention(self, x: Tensor, turn: tuple[Tensor, Tensor], mask: Tensor, past: Past | None) -> Tensor:
        batch, length, _ = x.shape

        def heads(y: Tensor) -> Tensor:
            return y.view(batch, length, -1, self.config.head_width).transpose(1, 2)

        q, k, v = heads(self.attn_q(x)), heads(self.attn_k(x)), heads(self.attn_v(x))
        interleaved = self.config.architecture == "llama"
        if not interleaved:
            q, k = self.attn_q_norm(q), self.attn_k_norm(k)
        q, k = _rotate(q, turn, interleaved), _rotate(k, turn, interleaved)
        if past is not None:
            k, v = past.extend(k, v)
        seen = _attend(q, k, v, mask)
        return self.attn_output(seen.transpose(1, 2).reshape(batch, length, -1))


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    if q.is_cuda:
        # The kernel that keeps no scores wants as many heads of k and v; with fewer, torch builds every score.
        k, v = (part.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for part in (k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    if not torch.is_autocast_enabled("cpu"):
        return _attend_in_parts(q, k, v, mask)
    # In half precision on a CPU two plain products take half the time of the fused kernel.
    batch, heads, length, width = q.shape
    kv_heads = k.shape[1]
    grouped = q.reshape(batch, kv_heads, heads // kv_heads * length, width)
    columns = k.shape[2]
    scores = (grouped @ k.transpose(-1, -2)).view(batch, kv_heads, -1, length, columns) * width**-0.5
    shares = (scores + mask[:, None].to(scores.dtype)).softmax(-1)
    return (shares.view(batch, kv_heads, -1, columns) @ v).view(batch, heads, length, width)


def _attend_in_parts(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """The kernel computes what a mask hides as well: nothing sees ahead, so nearly half need not be asked for."""
    past = k.shape[2] - q.shape[2]
    parts = []
    for first in range(0, q.shape[2], PART):
        rows, columns = slice(first, first + PART), slice(0, past + first + PART)
        seen = mask[..., rows, columns]
        part = F.scaled_dot_product_attention(
            q[:, :, rows], k[:, :, columns], v[:, :, columns], attn_mask=seen, enable_gqa=True
        )
        parts.append(part)
    return parts[0] if len(parts) == 1 else torch.cat(parts, 2)


def _rotate(x: Tensor, turn: tuple[Tensor, Tensor], interleaved: bool) -> Tensor:
    cos, sin = turn
    first, second = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    turned = first * cos - second * sin, second * cos + first * sin
    return (torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)).to(x.dtype)


class Decoder(nn.Module):
    """`precision` is what products are computed in; weights keep their own.

    Where it `recomputes`, a backward pass makes what lies inside a block again instead of having kept it.
    """

    precision: torch.dtype = torch.float32
    recomputes: bool = False

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embd = nn.Embedding(config.vocabulary, config.width)
        self.blk = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.output_norm = nn.RMSNorm(config.width, config.norm_epsilon)
        if not config.tied:
            self.output = Linear(config.width, config.vocabulary)

    @property
    def device(self) -> torch.device:
        return self.token_embd.weight.device

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        pasts: Sequence[Past] | None = None,
    ) -> Tensor:
        """tokens, positions: [B, T]; mask: [B, T, T], true where seen, never ahead; causal by default.

        -> states [B, T, width]. With `pasts`, one a block, the mask is [B, T, columns so far and T].
        """
        return self.midway(tokens, positions, mask, (), pasts)[0]

    def midway(
        self,
        tokens: Tensor,
        positions: Tensor | None,
        mask: Tensor | None,
        layers: Collection[int],
        pasts: Sequence[Past] | None = None,
        depth: int | None = None,
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """The states, and what the residual stream holds behind each of the named layers, as it is.

        With a `depth` only so many layers are computed, and the states are theirs.
        """
        if self.precision == torch.float32:
            return self._midway(tokens, positions, mask, layers, pasts, depth)
        with torch.autocast(tokens.device.type, self.precision):
            return self._midway(tokens, positions, mask, layers, pasts, depth)

    def _midway(
        self,
        tokens: Tensor,
        positions: Tensor | None,
        mask: Tensor | None,
        layers: Collection[int],
        pasts: Sequence[Past] | None,
        depth: int | None,
    ) -> tuple[Tensor, dict[int, Tensor]]:
        length = tokens.shape[1]
        if positions is None:
            positions = torch.arange(length, device=tokens.device).expand_as(tokens)
        if mask is None:
            mask = torch.ones(length, length, dtype=torch.bool, device=tokens.device).tril().unsqueeze(0)
        half = torch.arange(0, self.config.head_width, 2, device=tokens.device)
        angles = positions[:, None, :, None] * self.config.rope_base ** (-half / self.config.head_width)
        x = self.token_embd(tokens)
        hidden = torch.zeros_like(mask, dtype=x.dtype).masked_fill(~mask, float("-inf"))[:, None]
        turn = angles.cos(), angles.sin()
        seen = {}
        stack = list(zip(self.blk, pasts or [None] * len(self.blk), strict=True))[:depth]
        for number, (block, past) in enumerate(stack, 1):
            # What is kept of the past must not be added twice.
            again = self.recomputes and past is None
            x = checkpoint(block, x, turn, hidden, use_reentrant=False) if again else block(x, turn, hidden, past)
            if number in layers:
                seen[number] = x
        return self.output_norm(x), seen

    def logits(self, states: Tensor, among: list[int] | None = None) -> Tensor:
        """[..., width] -> [..., vocabulary], or only of the tokens `among`; call it on the few states that need it."""
        head = self.token_embd.weight if self.config.tied else self.output.weight
        if among is not None:
            return F.linear(states.float(), head[among].float())
        return F.linear(states.to(head.dtype), head).float()

    def projections(self) -> dict[str, Linear]:
        """Every projection of the blocks by its GGUF name."""
        return {name: part for name, part in self.blk.named_modules(prefix="blk") if isinstance(part, Linear)}


def random_model(config: ModelConfig, seed: int) -> Decoder:
    """Small normal weights, deeper projections scaled down."""
    torch.manual_seed(seed)
    model = Decoder(config)
    for name, parameter in model.named_parameters():
        if parameter.dim() > 1:
            down = (2 * config.layers) ** 0.5 if "output" in name or "down" in name else 1
            nn.init.normal_(parameter, std=0.05 / down if "embd" in name else config.width**-0.5 / down)
    return model


def freeze_adapters(model: Decoder, layers: int) -> None:
    """The first layers learn no more; nothing is carried back through them, which saves their part of the time."""
    for block in model.blk[:layers]:
        block.requires_grad_(False)


def compile_blocks(model: Decoder) -> None:
    """For rows of any length; parameters keep their names."""
    for block in model.blk:
        block.compile(dynamic=True)


def add_adapter(model: Decoder, rank: int, alpha: float) -> None:
    """Freezes everything and gives each projection of the blocks a low-rank adapter."""
    model.requires_grad_(False)
    for projection in model.projections().values():
        projection.adapt(rank, alpha)
