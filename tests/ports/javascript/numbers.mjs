// Exact numbers: fractions of BigInts, always in lowest terms. Nothing here is computed in floating point.

export function fraction(n, d = 1n) {
  if (d < 0n) [n, d] = [-n, -d];
  const common = gcd(n < 0n ? -n : n, d);
  return { n: n / common, d: d / common };
}

function gcd(a, b) {
  while (b) [a, b] = [b, a % b];
  return a || 1n;
}

// "3", "-7", "3/4", "0.25", "1e+23": texts of the compiled registry and of doubles.
export function exact(text) {
  const whole = /^(-?\d+)(?:\/(\d+))?$/.exec(text);
  if (whole) return fraction(BigInt(whole[1]), BigInt(whole[2] ?? "1"));
  const decimal = /^(-?)(\d*)\.?(\d*)(?:e([+-]?\d+))?$/i.exec(text);
  if (!decimal) throw new RangeError("must be a finite number");
  const digits = BigInt(decimal[2] + decimal[3] || "0") * (decimal[1] ? -1n : 1n);
  const exponent = Number(decimal[4] ?? 0) - decimal[3].length;
  return exponent < 0 ? fraction(digits, 10n ** BigInt(-exponent)) : fraction(digits * 10n ** BigInt(exponent));
}

// A double is the shortest decimal that reads back as it, which is what String gives.
export const ofDouble = (x) => exact(String(x));

export const text = (x) => (x.d === 1n ? `${x.n}` : `${x.n}/${x.d}`);
export const add = (x, y) => fraction(x.n * y.d + y.n * x.d, x.d * y.d);
export const minus = (x, y) => fraction(x.n * y.d - y.n * x.d, x.d * y.d);
export const times = (x, y) => fraction(x.n * y.n, x.d * y.d);
export const over = (x, y) => fraction(x.n * y.d, x.d * y.n);
export const isBelow = (x, y) => x.n * y.d < y.n * x.d;

export function floor(x) {
  const down = x.n / x.d;
  return x.n < 0n && down * x.d !== x.n ? down - 1n : down;
}

export function combinations(n, k) {
  let found = 1n;
  for (let i = 0n; i < k; i++) found = (found * (BigInt(n) - i)) / (i + 1n);
  return k > n ? 0n : found;
}

export function hexOf(number, size) {
  const bytes = [];
  for (let i = 0; i < size; i++) bytes.push(Number((number >> BigInt(8 * i)) & 255n));
  return Buffer.from(bytes).toString("hex");
}

export function ofHex(hex) {
  return [...Buffer.from(hex, "hex")].reduce((sum, byte, i) => sum | (BigInt(byte) << BigInt(8 * i)), 0n);
}
