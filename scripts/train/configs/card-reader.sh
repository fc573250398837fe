#!/usr/bin/env bash
# A card reader from SmolLM2 alone: lists; cards and wishes, growing; then a problem and a wish a step, of every kind.
# At last the adapter and the exam.
# A rerun goes on where it was killed. BASE: the GGUF. OUT: a folder. Recorded outcomes are read from ORCHESTRA_REPLAY.
# COMPILE= leaves the C++ compiler out (a sixth slower).
set -euo pipefail
: "${BASE:?}" "${OUT:?}" "${SEED:=1}" "${LISTS:=300}" "${STEPS:=2250}" "${MORE:=4800}" "${EPISODES:=150}"
: "${OUTCOMES:=0.1}" "${FEWER_OUTCOMES:=0.08}"
cards() { orchestra-train cards --base "$BASE" --half ${COMPILE---compile} "$@"; }

cards --out "$OUT/first" --seed "$SEED" --lists-first "$LISTS" --steps "$STEPS" --learning-rate 3.5e-4 \
  --outcomes "$OUTCOMES"
cards --from "$OUT/first/cards.pt" --out "$OUT/second" --seed "1$SEED" --start 1 --steps "$MORE" \
  --wishes 1 --lists 0 --learning-rate 5e-4 --outcomes "$FEWER_OUTCOMES"
orchestra-train cards-report --base "$BASE" --out "$OUT/second" --episodes "$EPISODES" --items 0 --adapter "$OUT/adapter.gguf"
