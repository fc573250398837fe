/** Chance that is the same for the same seed. */
export interface Dice {
  /** A whole number, both ends included. */
  readonly between: (least: number, most: number) => number;
  readonly oneOf: <Item>(items: readonly [Item, ...Item[]]) => Item;
  readonly shuffled: <Item>(items: readonly Item[]) => Item[];
}

export function rollFrom(seed: number): Dice {
  // Weyl steps through a 32-bit mixer: plenty for picking questions.
  let state = seed >>> 0;
  const chance = () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  };
  const between = (least: number, most: number) => least + Math.floor(chance() * (most - least + 1));
  return {
    between,
    oneOf: (items) => items[between(0, items.length - 1)] ?? items[0],
    shuffled: (items) =>
      items
        .map((item) => ({ item, at: chance() }))
        .sort((left, right) => left.at - right.at)
        .map(({ item }) => item),
  };
}
