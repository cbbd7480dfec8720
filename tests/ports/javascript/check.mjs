// Puts this client through tests/vectors: `node check.mjs bytes` for the wire format, `node check.mjs behaviour` for the
// scenarios. Says what is wrong; exit status 1 if anything is.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { categoryOf, encode } from "./encoding.mjs";
import { epochOf, startOf, textOf } from "./epochs.mjs";
import { murmur3, positionOf, positions, stateOf, utf8OfNfc } from "./hashing.mjs";
import { crossed, drawnFlags } from "./noise.mjs";
import { combinations, exact, hexOf, ofHex } from "./numbers.mjs";
import { replay } from "./replay.mjs";
import { crc32, packed } from "./wire.mjs";

const read = (name) => JSON.parse(readFileSync(new URL(`../../vectors/${name}.json`, import.meta.url), "utf8"));
const hex64 = (number) => number.toString(16).padStart(16, "0");
const units = (share) => Number((exact(share).n << 24n) / exact(share).d);

// Definitions as the compiled registry would have them: the vectors of the wire format have none.
const definitions = new Map(read("definitions").map((row) => [row.definition.name, row]));

function encodingOf({ kind, shape }) {
  if (kind === "cross") return { form: kind, factors: shape.factors, categories: shape.factors.map(numCategories) };
  const form = kind === "string" && shape.discover ? "discovery" : kind;
  return { form, ...(kind === "mean" ? { points: 2 } : {}), ...shape };
}

// The compiled format, version 1, has no place for lists that grow, nor for means with absence apart.
const isCompiled = ({ shape }) => !shape.reserve && shape.absent !== "apart";

function numCategories({ kind, shape, accumulate }) {
  if (kind === "flag") return 2;
  if (kind === "mean") return shape.points ?? 2;
  if (kind === "choice") return shape.choices.length + (shape.absent === null ? 1 : 0);
  return shape.edges.length - (accumulate === "sum" ? 1 : 0);
}

function cellOf({ factors }, value, dither) {
  const values = value === null ? [null, null] : value.factors;
  return { cell: factors.map((each, i) => categoryOf(encodingOf(each), each.accumulate, values[i], dither)) };
}

function channelOf(channel) {
  if ("size" in channel) {
    const { categories: d, size: w, held, other } = channel;
    const all = combinations(d - 1, w - 1) * BigInt(held) + combinations(d - 1, w) * BigInt(other);
    return { sort: "subset", ...channel, units: Number(all) };
  }
  if ("categories" in channel) return { sort: "category", categories: channel.categories, other: units(channel.other) };
  return { sort: "bits", when_one: units(channel.when_one), when_zero: units(channel.when_zero) };
}

function widthOf({ definition, widths_of_first_and_last_cohort: [first] }, cohort) {
  return definition.kind === "range" ? definition.shape.branching ** (cohort + 1) : first;
}

// Random bytes as section 10 cuts them: 24 runs of digits for bits, three bytes for a category, six for a subset.
function numbersOf(channel, width, bytes) {
  if (channel.sort !== "bits") return [ofHex(bytes.toString("hex"))];
  const size = Math.ceil(width / 8);
  const digit = (i, j) => BigInt((bytes[j * size + (i >> 3)] >> (i & 7)) & 1) << BigInt(j);
  return Array.from({ length: width }, (_, i) => Array.from({ length: 24 }, (_, j) => digit(i, j)).reduce((a, b) => a + b));
}

const given = (numbers) => () => numbers.shift();

const CHECKS = {
  epochs({ every, moment, epoch, start, text }) {
    assert.deepEqual([epochOf(every, moment), startOf(every, epoch), textOf(every, epoch)], [epoch, start, text]);
  },
  cohorts({ number, num_cohorts: cohorts, cohort }) {
    assert.equal(Number((BigInt(number) * BigInt(cohorts)) >> 62n), cohort);
  },
  hash({ text, utf8_of_nfc: utf8, h1_h2: halves, positions: rows }) {
    const digest = murmur3(utf8OfNfc(text));
    assert.deepEqual([utf8OfNfc(text).toString("hex"), digest.map(hex64)], [utf8, halves]);
    for (const row of rows) assert.deepEqual(positions(digest, row.num_bits, row.num_hashes, row.cohort), row.positions);
  },
  prefixes({ bytes, ends, state, positions: rows }) {
    const found = stateOf([...Buffer.from(bytes, "hex"), ...(ends ? [256] : [])]);
    assert.equal(hex64(found), state);
    for (const row of rows) assert.equal(positionOf(found, row.cohort, row.num_bits), row.position);
  },
  masks({ metric, value, cohort, dither, mask, clamped }) {
    const { definition } = definitions.get(metric);
    if (!isCompiled(definition)) return;
    const encoding = encodingOf(definition);
    const given = definition.kind === "cross" ? cellOf(encoding, value, BigInt(dither)) : value;
    const found = encode(encoding, given, cohort, BigInt(dither));
    assert.deepEqual([hexOf(found.mask, mask.length / 2), found.clamped], [mask, clamped]);
  },
  bad_values({ metric, value }) {
    if (!isCompiled(definitions.get(metric).definition)) return;
    const text = value?.utf16 && [...Buffer.from(value.utf16, "hex").swap16()];
    const given = text ? { text: Buffer.from(text).toString("utf16le") } : value;
    assert.throws(() => encode(encodingOf(definitions.get(metric).definition), given, 0), RangeError);
  },
  responses(row) {
    const { definition } = definitions.get(row.metric);
    const width = widthOf(definitions.get(row.metric), row.cohort);
    let sent = ofHex(row.mask);
    for (const [stage, chance, wanted] of [
      ["permanent", row.random_of_memo, row.memo],
      ["instantaneous", row.random_of_bits, row.bits],
    ]) {
      const channel = channelOf(definition[stage]);
      sent = crossed(channel, sent, width, given(numbersOf(channel, width, Buffer.from(chance, "hex"))));
      assert.equal(hexOf(sent, wanted.length / 2), wanted, stage);
    }
  },
  histories({ metric, random, flags }) {
    const { history, shape } = definitions.get(metric).definition;
    const chance = exact(history.chance ?? `1/${history.categories}`);
    const law = { ...history, above: units(history.above), flags_per_answer: shape.items_per_report ?? 1 };
    Object.assign(law, { hit: `${chance.n}`, miss: `${chance.d - chance.n}` });
    assert.equal(drawnFlags(law, fromBytes(Buffer.from(random, "hex"))), BigInt(flags));
  },
  batches({ packed: wanted, json }) {
    const blocks = new Map();
    for (const { metric, metric_hash: hash, epoch, cohort, bits } of json.reports) {
      const twoBytes = definitions.get(metric).num_cohorts > 256;
      const key = `${hash} ${epoch}`;
      if (!blocks.has(key)) blocks.set(key, { hash, epoch, twoBytes, rows: [] });
      blocks.get(key).rows.push({ cohort, bits });
    }
    assert.equal(packed(json.batch_id, [...blocks.values()]).toString("hex"), wanted);
  },
};

// "A number below n" of section 10, from bytes that are given.
function fromBytes(bytes) {
  let at = 0;
  return (limit) => {
    const bits = limit === 1n ? 0 : (limit - 1n).toString(2).length;
    const size = Math.ceil(bits / 8);
    for (;;) {
      const number = ofHex(bytes.subarray(at, (at += size)).toString("hex")) >> BigInt(8 * size - bits);
      if (number < limit) return number;
    }
  };
}

function bytes() {
  let wrong = 0;
  assert.equal(crc32(Buffer.from("123456789")).toString(16), "cbf43926");
  for (const [name, check] of Object.entries(CHECKS)) {
    const rows = read(name);
    for (const [number, row] of rows.entries()) {
      try {
        check(row);
      } catch (error) {
        wrong += 1;
        console.log(`WRONG   ${name}.json, case ${number}: ${error.message}`);
      }
    }
    console.log(`checked ${name}.json: ${rows.length} cases`);
  }
  return wrong;
}

const wrong = { bytes, behaviour: replay }[process.argv[2]]();
process.exitCode = wrong ? 1 : 0;
