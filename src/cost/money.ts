/** Integer nano-dollars. Safe as a number up to nine million dollars; products are taken in big integers. */
export type NanoUsd = number & { readonly __unit: 'nanoUsd' };

export const zeroUsd = 0 as NanoUsd;

export function nanoUsd(value: number): NanoUsd {
  if (!Number.isSafeInteger(value)) throw new RangeError(`not a whole number of nano-dollars: ${value}`);
  return value as NanoUsd;
}

export function addUsd(...amounts: readonly NanoUsd[]): NanoUsd {
  return nanoUsd(amounts.reduce((sum: number, amount) => sum + amount, 0));
}

/** For JSON only: the number of dollars nearest to the exact amount. */
export function toUsdNumber(amount: NanoUsd): number {
  return amount / 1e9;
}

/** Exact decimal text, at least two digits behind the point: `0.0132`. */
export function formatUsd(amount: NanoUsd): string {
  const sign = amount < 0 ? '-' : '';
  const digits = Math.abs(amount).toString().padStart(10, '0');
  const fraction = digits.slice(-9).replace(/0+$/, '').padEnd(2, '0');
  return `${sign}${digits.slice(0, -9)}.${fraction}`;
}

/**
 * Reads a decimal (as people write prices) exactly and scales it by a power of ten.
 * @throws RangeError when it is negative, not a decimal, or finer than the scale can hold.
 */
export function decimalToInteger(value: string | number, scale: number): bigint {
  const text = typeof value === 'number' ? plainDecimal(value) : value.trim();
  const match = /^(\d+)(?:\.(\d+))?$/.exec(text);
  if (!match) throw new RangeError(`not a decimal number: ${value}`);
  const fraction = (match[2] ?? '').replace(/0+$/, '');
  if (fraction.length > scale) throw new RangeError(`more than ${scale} digits behind the point: ${value}`);
  return BigInt(`${match[1]}${fraction.padEnd(scale, '0')}`);
}

/** Dollars as written by a person (number or decimal string) to nano-dollars, exactly. */
export function usdToNano(value: string | number): NanoUsd {
  return nanoUsd(Number(decimalToInteger(value, 9)));
}

/** The same for limits: what is finer than a nano-dollar is dropped, so that a limit is never read too high. */
export function floorUsdToNano(value: number): NanoUsd {
  const [whole = '0', fraction = ''] = plainDecimal(value).split('.');
  return usdToNano(`${whole}.${fraction.slice(0, 9)}0`);
}

function plainDecimal(value: number): string {
  const text = String(value);
  return text.includes('e') ? value.toFixed(20).replace(/0+$/, '').replace(/\.$/, '') : text;
}
