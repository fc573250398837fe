#!/usr/bin/env bash
# A card reader from SmolLM2 alone: lists; then a problem with its cards and a wish a step, growing. Adapter and exam.
# A rerun goes on where it was killed. BASE: the GGUF. OUT: a folder. Recorded outcomes are read from ORCHESTRA_REPLAY.
# COMPILE= leaves the C++ compiler out (a sixth slower).
set -euo pipefail
: "${BASE:?}" "${OUT:?}" "${SEED:=1}" "${LISTS:=300}" "${STEPS:=6000}" "${OUTCOMES:=0.08}" "${EPISODES:=150}"

orchestra-train cards --base "$BASE" --out "$OUT" --half ${COMPILE---compile} --seed "$SEED" --lists-first "$LISTS" \
  --steps "$STEPS" --learning-rate 5e-4 --problems 1 --wishes 1 --lists 0 --outcomes "$OUTCOMES"
orchestra-train cards-report --base "$BASE" --out "$OUT" --episodes "$EPISODES" --items 0 --adapter "$OUT/adapter.gguf"
