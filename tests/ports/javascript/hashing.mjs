// Section 5 of docs/wire-format.md: MurmurHash3 x64 128, SplitMix64, positions of texts and of their beginnings.

const M64 = (1n << 64n) - 1n;
const rotl = (x, r) => ((x << r) | (x >> (64n - r))) & M64;
const times = (x, y) => (x * y) & M64;

export function utf8OfNfc(text) {
  if (!text.isWellFormed()) throw new RangeError("must be valid Unicode, got a lone surrogate");
  return Buffer.from(text.normalize("NFC"), "utf8");
}

export function murmur3(bytes) {
  const C1 = 0x87c37b91114253d5n;
  const C2 = 0x4cf5ad432745937fn;
  let h1 = 0n;
  let h2 = 0n;
  const whole = bytes.length - (bytes.length % 16);
  const padded = Buffer.alloc(whole + 16);
  bytes.copy(padded);
  for (let at = 0; at < whole; at += 16) {
    h1 ^= times(rotl(times(padded.readBigUInt64LE(at), C1), 31n), C2);
    h1 = (times(rotl(h1, 27n) + h2, 5n) + 0x52dce729n) & M64;
    h2 ^= times(rotl(times(padded.readBigUInt64LE(at + 8), C2), 33n), C1);
    h2 = (times(rotl(h2, 31n) + h1, 5n) + 0x38495ab5n) & M64;
  }
  h2 ^= times(rotl(times(padded.readBigUInt64LE(whole + 8), C2), 33n), C1);
  h1 ^= times(rotl(times(padded.readBigUInt64LE(whole), C1), 31n), C2);
  const n = BigInt(bytes.length);
  h1 = ((h1 ^ n) + (h2 ^ n)) & M64;
  h2 = ((h2 ^ n) + h1) & M64;
  h1 = fmix(h1);
  h2 = fmix(h2);
  h1 = (h1 + h2) & M64;
  return [h1, (h2 + h1) & M64];
}

function fmix(k) {
  k = times(k ^ (k >> 33n), 0xff51afd7ed558ccdn);
  k = times(k ^ (k >> 33n), 0xc4ceb9fe1a85ec53n);
  return k ^ (k >> 33n);
}

export function mix(z) {
  z &= M64;
  z = times(z ^ (z >> 30n), 0xbf58476d1ce4e5b9n);
  z = times(z ^ (z >> 27n), 0x94d049bb133111ebn);
  return z ^ (z >> 31n);
}

export function positions([h1, h2], numBits, numHashes, cohort) {
  const words = Math.ceil(numHashes / 2);
  const taken = [];
  for (let i = 0; i < numHashes; i++) {
    const word = mix(h1 + BigInt(cohort * words + (i >> 1) + 1) * (h2 | 1n));
    const half = i % 2 ? word & 0xffffffffn : word >> 32n;
    let position = Number((half * BigInt(numBits - i)) >> 32n);
    for (const before of [...taken].sort((a, b) => a - b)) if (position >= before) position++;
    taken.push(position);
  }
  return taken;
}

export const END = 256;

export function stateOf(symbols) {
  return symbols.reduce((state, symbol) => mix(state + BigInt(symbol + 1) * 0xd1342543de82ef95n), 0n);
}

export function positionOf(state, cohort, numBits) {
  return Number(((mix(state + BigInt(cohort + 1) * 0x9e3779b97f4a7c15n) >> 32n) * BigInt(numBits)) >> 32n);
}
