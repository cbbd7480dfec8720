// Section 4 of docs/wire-format.md: from a value to a mask. Values are written as tests/vectors does: null is absent;
// else {flag}, {text}, {texts}, {number: "3/4"} or {float: "0.3"}. A RangeError is a value that has no mask.
import { END, murmur3, positionOf, positions, stateOf, utf8OfNfc } from "./hashing.mjs";
import { add, exact, floor, fraction, isBelow, minus, ofDouble, over, times } from "./numbers.mjs";

const bit = (position) => 1n << BigInt(position);
const whole = (number) => fraction(BigInt(number));
const plain = (mask) => ({ mask, clamped: false });

const FORMS = { flag, choice, string, discovery, mean, histogram, range, set, cross };

// The keys of each form: one more would be a question that this client does not know how to answer.
export const KEYS = {
  flag: ["absent"],
  choice: ["choices", "absent"],
  string: ["num_bits", "num_hashes", "num_cohorts"],
  discovery: ["discover", "alphabet", "max_length", "lowercase", "step", "num_bits", "num_groups"],
  mean: ["low", "high", "absent", "unit", "points"],
  histogram: ["edges", "buckets_per_report", "unit"],
  range: ["low", "high", "num_leaves", "branching", "unit"],
  set: ["items", "items_per_report"],
  cross: ["of", "categories"],
};

export function encode(encoding, value, cohort, dither = 0n) {
  return FORMS[encoding.form](encoding, value, cohort, dither);
}

function flag({ absent }, value) {
  const said = value === null ? absent : value.flag;
  if (typeof said !== "boolean") throw new RangeError("must be true or false");
  return plain(said ? 1n : 0n);
}

function choice({ choices, absent }, value) {
  const said = value === null ? absent : value.text;
  if (said === null) return plain(bit(choices.length));
  const place = choices.indexOf(said);
  if (place < 0) throw new RangeError(`must be one of the ${choices.length} declared choices`);
  return plain(bit(place));
}

function string({ num_bits: numBits, num_hashes: numHashes }, value, cohort) {
  if (value === null) return plain(0n);
  const digest = murmur3(utf8OfNfc(textOf(value)));
  if (numBits === 1) return plain(BigInt(positions(digest, 2, 1, cohort)[0]));
  return plain(positions(digest, numBits, numHashes, cohort).reduce((mask, position) => mask | bit(position), 0n));
}

function discovery(encoding, value, cohort) {
  if (value === null) return plain(0n);
  const bytes = symbolsOf(encoding, textOf(value));
  const longest = encoding.max_length;
  const reach = reachOf(encoding, cohort);
  const ends = bytes.length < reach || (bytes.length === reach && reach === longest);
  const state = stateOf([...bytes.subarray(0, reach), ...(ends ? [END] : [])]);
  return { mask: bit(positionOf(state, cohort, encoding.num_bits)), clamped: bytes.length > longest };
}

export function reachOf({ num_groups: groups, step, max_length: longest }, cohort) {
  return Math.min((Math.floor(cohort / groups) + 1) * step, longest);
}

const ALPHABETS = {
  host: /^[a-z0-9+\-._]*$/u,
  ascii: /^[\u0020-\u007e]*$/u,
  bytes: /^[^\u0000-\u001f\u007f-\u009f]*$/u,
};

function symbolsOf({ alphabet, lowercase }, text) {
  let normal = utf8OfNfc(text).toString("utf8");
  if (lowercase) normal = normal.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  if (!ALPHABETS[alphabet].test(normal)) throw new RangeError(`must be of the alphabet ${alphabet}`);
  return Buffer.from(normal, "utf8");
}

function mean({ low, high, absent, points }, value, cohort, dither) {
  const { x, clamped } = within(value ?? { number: absent }, exact(low), exact(high));
  const place = times(over(minus(x, exact(low)), minus(exact(high), exact(low))), whole(points - 1));
  const point = floor(add(place, fraction(dither, 1n << 64n)));
  return { mask: points === 2 ? point : bit(point), clamped };
}

function histogram({ edges, buckets_per_report: asked }, value, cohort) {
  if (value === null) return plain(0n);
  const limits = edges.map(exact);
  const { x, clamped } = within(value, limits[0], limits.at(-1));
  const buckets = edges.length - 1;
  let bucket = 0;
  while (bucket + 1 < buckets && !isBelow(x, limits[bucket + 1])) bucket++;
  const position = (bucket - cohort + buckets) % buckets;
  return { mask: position < asked ? bit(position) : 0n, clamped };
}

function range({ low, high, num_leaves: leaves, branching }, value, cohort) {
  if (value === null) return plain(0n);
  const { x, clamped } = within(value, exact(low), exact(high));
  const place = over(times(minus(x, exact(low)), whole(leaves)), minus(exact(high), exact(low)));
  const leaf = Math.min(Number(floor(place)), leaves - 1);
  let levels = 0;
  while (branching ** levels < leaves) levels++;
  return { mask: bit(Math.floor(leaf / branching ** (levels - 1 - cohort))), clamped };
}

function set(encoding, value, cohort) {
  if (value === null) return plain(0n);
  const { items, items_per_report: asked } = encoding;
  let mask = 0n;
  for (const item of itemsOf(encoding, value)) {
    const position = (items.indexOf(item) - cohort + items.length) % items.length;
    if (position < asked) mask |= bit(position);
  }
  return plain(mask);
}

// Its value is {cell: [i, j]}: a category of each factor. Nobody records one.
function cross({ categories }, value) {
  if (!value || !("cell" in value)) throw new RangeError("must not be recorded: it follows from its factors");
  return plain(bit(value.cell[0] * categories[1] + value.cell[1]));
}

// Which category of a factor a value is; null is absent.
export function categoryOf(encoding, accumulate, value, dither) {
  if (value === null && accumulate === "sum") value = { number: "0" };
  const buckets = encoding.form === "histogram" ? encoding.edges.length - 1 : 0;
  if (buckets && value === null) return buckets;
  const { mask } = encode(buckets ? { ...encoding, buckets_per_report: buckets } : encoding, value, 0, dither);
  const oneBit = encoding.form === "flag" || (encoding.form === "mean" && encoding.points === 2);
  return oneBit ? Number(mask) : mask.toString(2).length - 1;
}

export function itemsOf({ items }, value) {
  const recorded = "text" in value ? [value.text] : value.texts;
  if (!Array.isArray(recorded) || recorded.some((item) => !items.includes(item))) {
    throw new RangeError(`must be one of the ${items.length} declared items, or several`);
  }
  return recorded;
}

function within(value, low, high) {
  const x = numberOf(value);
  if (isBelow(x, low)) return { x: low, clamped: true };
  return isBelow(high, x) ? { x: high, clamped: true } : { x, clamped: false };
}

export function numberOf(value) {
  if (typeof value.number === "string") return exact(value.number);
  const double = "float" in value ? Number(value.float) : Number.NaN;
  if (!Number.isFinite(double)) throw new RangeError("must be a finite number");
  return ofDouble(double);
}

function textOf(value) {
  if (typeof value.text !== "string") throw new RangeError("must be a text");
  return value.text;
}

// What an install keeps of a value until its epoch is over (rule 6.3 of docs/client-contract.md); null: nothing.
export function kept(encoding, value, cohort) {
  if (encoding.form === "set") {
    const { items, items_per_report: asked } = encoding;
    const mine = new Set(Array.from({ length: asked }, (_, i) => items[(cohort + i) % items.length]));
    const texts = [...new Set(itemsOf(encoding, value))].filter((item) => mine.has(item)).sort();
    return texts.length ? { texts } : null;
  }
  if (encoding.form === "discovery") {
    const reach = reachOf(encoding, cohort);
    const enough = reach + (reach === encoding.max_length ? 1 : 0);
    let found = "";
    for (const character of symbolsOf(encoding, value.text).toString("utf8")) {
      if (Buffer.byteLength(found) >= enough) break;
      found += character;
    }
    return { text: found };
  }
  return value;
}
