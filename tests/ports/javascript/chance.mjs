// Rules 3.1 to 3.5 of docs/client-contract.md: where numbers come from. A source is a function from a limit (a BigInt) to
// a number below it, each as likely.
import { createHmac, randomBytes } from "node:crypto";

export class SystemChance {
  identity() {
    return { key: randomBytes(32).toString("hex"), number: `${randomBytes(8).readBigUInt64LE() >> 2n}` };
  }

  // By key: HMAC-SHA-256, counting up, over what names the draw.
  byKey(key, over) {
    let count = 0;
    return below((size) => {
      const blocks = [];
      for (let drawn = 0; drawn < size; drawn += 32) blocks.push(hmac(key, `${over} ${count++}`));
      return Buffer.concat(blocks).subarray(0, size);
    });
  }

  fresh() {
    return below(randomBytes);
  }

  id() {
    return randomBytes(16).toString("hex");
  }
}

export const hmac = (key, text) => createHmac("sha256", Buffer.from(key, "hex")).update(text, "utf8").digest();

function below(random) {
  return (limit) => {
    const bits = limit === 1n ? 0 : (limit - 1n).toString(2).length;
    const size = Math.ceil(bits / 8);
    for (;;) {
      const number = BigInt(`0x0${random(size).toString("hex")}`) >> BigInt(8 * size - bits);
      if (number < limit) return number;
    }
  };
}

// The numbers of a scenario, by name. Fresh ones serve once.
export class ScriptedChance {
  constructor({ identities, draws }) {
    this.identities = identities.map(({ key, number }) => ({ key, number }));
    this.keyed = new Map(identities.map((life) => [life.key, byName(life.draws)]));
    this.once = byName(draws);
  }

  identity() {
    return this.identities.shift();
  }

  byKey(key, over, name) {
    return source(this.keyed.get(key).get(nameOf(name)), nameOf(name));
  }

  fresh(name) {
    return source(this.take(name), nameOf(name));
  }

  id(name) {
    return this.take(name)[0];
  }

  take(name) {
    const numbers = this.once.get(nameOf(name));
    this.once.delete(nameOf(name));
    return numbers;
  }
}

const nameOf = (name) => JSON.stringify(Object.entries(name).filter(([key]) => key !== "numbers").sort());
const byName = (draws) => new Map(draws.map((row) => [nameOf(row), row.numbers]));

function source(numbers, name) {
  if (!numbers) throw new Error(`the scenario has no such draw, or had it already: ${name}`);
  let at = 0;
  return (limit) => {
    if (at === numbers.length) throw new Error(`the scenario has fewer numbers: ${name}`);
    const number = BigInt(numbers[at++]);
    if (number >= limit) throw new Error(`${number} is not below ${limit}: ${name}`);
    return number;
  };
}
