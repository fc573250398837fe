#!/usr/bin/env bash
# A card reader from SmolLM2 alone: lists and cards; all kinds of cards and more wishes; the same at half the
# rate; then adapter and exam. A rerun goes on where it was killed. BASE: the GGUF. OUT: a folder. Recorded outcomes are
# read from ORCHESTRA_REPLAY. COMPILE= leaves the C++ compiler out (a sixth slower).
set -euo pipefail
: "${BASE:?}" "${OUT:?}" "${SEED:=1}" "${LISTS:=300}" "${STEPS:=2800}" "${MORE:=1500}" "${LAST:=1150}"
: "${OUTCOMES:=0.1}" "${FEWER_OUTCOMES:=0.05}" "${EPISODES:=150}"
cards() { orchestra-train cards --base "$BASE" --half ${COMPILE---compile} "$@"; }
go_on() { cards --from "$OUT/$1/cards.pt" --out "$OUT/$2" --start 1 "${@:3}"; }

cards --out "$OUT/first" --seed "$SEED" --lists-first "$LISTS" --steps "$STEPS" --outcomes "$OUTCOMES"
go_on first second --seed "1$SEED" --steps "$MORE" --wishes 0.3 --outcomes "$OUTCOMES"
go_on second third --seed "2$SEED" --steps "$LAST" --wishes 0.4 --outcomes "$FEWER_OUTCOMES" --learning-rate 2.5e-4
orchestra-train cards-report --base "$BASE" --out "$OUT/third" --episodes "$EPISODES" --items 0 --adapter "$OUT/adapter.gguf"
