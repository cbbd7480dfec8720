// Section 10 of docs/wire-format.md: from the numbers that chance gives to what arrives. `take(limit)` is a source of
// numbers, each even below its limit; masks are BigInts.
import { combinations } from "./numbers.mjs";

const UNITS = 1n << 24n;
const bit = (position) => 1n << BigInt(position);
const lowest = (mask) => mask.toString(2).length - 1;

export const knownSorts = ["bits", "category", "subset"];
export const knownHistories = ["bits", "category", "position"];

export function crossed(channel, sent, width, take) {
  if (channel.sort === "category") return category(sent, width, BigInt(channel.other), take(UNITS));
  if (channel.sort === "subset") return subset(channel, sent, take(BigInt(channel.units)));
  return bits(sent, width, BigInt(channel.when_one), BigInt(channel.when_zero), take);
}

function bits(sent, width, whenOne, whenZero, take) {
  let arrived = 0n;
  for (let i = 0; i < width; i++) {
    const v = UNITS - 1n - take(UNITS);
    const one = (sent & bit(i)) !== 0n;
    const arrives = whenOne + whenZero === UNITS ? one !== v < whenZero : v < (one ? whenOne : whenZero);
    if (arrives) arrived |= bit(i);
  }
  return arrived;
}

function category(sent, width, other, u) {
  if (u >= BigInt(width - 1) * other) return sent;
  return another(sent, u / other);
}

// The category of this number among those that were not sent, in ascending order.
function another(sent, number) {
  return bit(number < BigInt(lowest(sent)) ? number : number + 1n);
}

function subset({ categories, size, held, other }, sent, u) {
  const holding = combinations(categories - 1, size - 1) * BigInt(held);
  const holds = u < holding;
  const rank = holds ? u / BigInt(held) : (u - holding) / BigInt(other);
  const rest = maskOfRank(rank, holds ? size - 1 : size, categories - 1);
  const below = rest & (sent - 1n);
  return below | ((rest ^ below) << 1n) | (holds ? sent : 0n);
}

// Masks of so many bits set, in ascending order from 0: C(i, size) of them have all their bits below bit i.
function maskOfRank(rank, size, width) {
  let mask = 0n;
  for (let i = width - 1; i >= 0 && size > 0; i--) {
    const below = combinations(i, size);
    if (rank >= below) {
      rank -= below;
      mask |= bit(i);
      size--;
    }
  }
  return mask;
}

// The truth flags of a whole history, flag i as bit i.
export function drawnFlags(law, take) {
  const flags = law.answers * law.flags_per_answer;
  const above = take(UNITS) < BigInt(law.above);
  const counts = Array.from({ length: flags + 1 }, (_, k) => k).filter((k) => k >= law.threshold === above);
  const weight = (k) => BigInt(law.hit) ** BigInt(k) * BigInt(law.miss) ** BigInt(flags - k);
  const weights = counts.map((k) => combinations(flags, k) * weight(k));
  let rank = take(weights.reduce((sum, each) => sum + each, 0n));
  for (const [i, k] of counts.entries()) {
    if (rank < weights[i]) return maskOfRank(rank / weight(k), k, flags);
    rank -= weights[i];
  }
  throw new Error("unreachable: the number is below the weight of the side");
}

// One answer of a history, given its own flags.
export function flagged(law, sent, width, flags, take) {
  if (law.sort === "bits") return (sent ^ ~flags) & (bit(width) - 1n);
  if (law.sort === "category") {
    const other = take(BigInt(width - 1));
    return flags ? sent : another(sent, other);
  }
  const noise = bits(0n, width, BigInt(law.chance), BigInt(law.chance), take);
  return (noise & ~sent) | (flags ? sent : 0n);
}
