#!/usr/bin/env bash
# Qwen3-8B with a thought before each call, on one machine of 8 GPUs beside a vLLM server on others.
# Not run yet. BASE: folder of the checkpoint. SHARED: seen by server and trainer.
#
# The server (its own machine or GPUs):
#   VLLM_ALLOW_RUNTIME_LORA_UPDATING=True vllm serve "$BASE" --enable-lora --max-lora-rank 32 --max-model-len 32768
set -euo pipefail
: "${BASE:?}" "${SHARED:?}" "${VLLM_URL:?}"
here=$(cd "$(dirname "$0")" && pwd)
train() { accelerate launch --config_file "$here/accelerate-8-gpus.yaml" -m orchestra_train.cli "$@"; }
common=(--base "$BASE" --contract slots-2 --rank 32 --out "$SHARED/run")

train grpo "${common[@]}" --written --thinks --most-tokens 8192 --vllm "$VLLM_URL" --adapter-folder "$SHARED" \
  --episodes 16 --learning-rate 1e-5 --steps 200
orchestra-train export "${common[@]}" --device cpu --format adapter --file "$SHARED/adapter.gguf"
