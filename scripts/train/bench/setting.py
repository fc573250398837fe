"""What the benches share: our tiny policy, an equal model of transformers', and groups of fresh runs."""

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from orchestra_train.contract.load import Contract
from orchestra_train.gguf_file import GgufModel, tiny_model
from orchestra_train.model import Decoder
from orchestra_train.rollout import Rollout
from orchestra_train.tokenizer import tiny_tokenizer
from orchestra_train.world.episode import Run, fresh_episode
from orchestra_train.world.roster import WorldShape

EPISODES, ROLLOUTS = 4, 8
SHAPE = WorldShape(slots=(4, 4), helpers=False, failures=0, limited=0)


def bench_model(layers: int, width: int) -> GgufModel:
    rng = np.random.default_rng(0)
    words = [slot.quality for _ in range(100) for slot in fresh_episode(rng, SHAPE).slots]
    shape = {"layers": layers, "width": width, "feed_forward": 3 * width}
    return tiny_model("llama", tiny_tokenizer(words, 2000), seed=1, heads=4, kv_heads=4, head_width=width // 4, **shape)


def stock_model(model: Decoder) -> LlamaForCausalLM:
    """Transformers' model with the same shape and weights."""
    config = model.config
    stock = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=config.vocabulary,
            hidden_size=config.width,
            intermediate_size=config.feed_forward,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            head_dim=config.head_width,
            max_position_embeddings=config.context,
            rope_parameters={"rope_type": "default", "rope_theta": config.rope_base},
            rms_norm_eps=config.norm_epsilon,
            tie_word_embeddings=True,
        )
    )
    weights = {stock_name(name): unpaired(name, value, config.head_width) for name, value in model.state_dict().items()}
    stock.load_state_dict(weights, strict=False)
    return stock.eval()


def stock_name(name: str) -> str:
    """What transformers calls a tensor of ours."""
    if not name.startswith("blk."):
        return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[name]
    _, layer, part, weight = name.split(".")
    parts = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_output": "self_attn.o_proj"}
    kind, _, what = part.partition("_")
    inside = "self_attn" if kind == "attn" else "mlp"
    return f"model.layers.{layer}.{parts.get(part, f'{inside}.{what}_proj')}.{weight}"


def unpaired(name: str, value: torch.Tensor, head_width: int) -> torch.Tensor:
    """Rotary pairs lie side by side in a GGUF, and half a head apart in transformers."""
    if not name.endswith(("attn_q.weight", "attn_k.weight")):
        return value
    return value.view(-1, head_width // 2, 2, value.shape[1]).transpose(1, 2).reshape(value.shape)


def fresh_groups(policy_rules: Contract, rng: np.random.Generator) -> list[list[Rollout]]:
    episodes = [fresh_episode(rng, SHAPE) for _ in range(EPISODES)]
    return [
        [Rollout(number, Run(one.again(rng), policy_rules, rng)) for _ in range(ROLLOUTS)]
        for number, one in enumerate(episodes)
    ]
