// docs/client-contract.md, sections 1 to 7: one install. Reads no clock, no disk and no network; its state is one plain
// object, which `save` makes durable. Messages are in outbox.mjs.
import { hmac } from "./chance.mjs";
import { categoryOf, encode, itemsOf, kept, numberOf } from "./encoding.mjs";
import { CADENCES, DAY, epochOf, startOf } from "./epochs.mjs";
import { crossed, drawnFlags, flagged } from "./noise.mjs";
import { add, hexOf, isBelow, ofHex, text } from "./numbers.mjs";
import { dropOld, seal } from "./outbox.mjs";
import { covers, segmentOf } from "./registry.mjs";

const LOOK_EVERY = 900;
const LONGEST_WAIT = 900;

export function freshState(home) {
  return {
    home, key: null, number: null, answer: null, agreed: null, answeredAt: 0, reservedFor: null, lifetime: null,
    carried: 0, cohorts: [], ledger: {}, memos: {}, epochs: {}, reports: {}, gathered: {}, outbox: [], counts: {},
    failures: 0, retryAt: 0,
  };
}

export class Install {
  constructor({ state, home, chance, save = () => {} }) {
    this.state = state ?? freshState(home);
    this.chance = chance;
    this.isKept = state != null; // without an answer nothing is stored
    this.save = (kept) => this.isKept && save(kept);
    if (this.state.home !== home) this.goOnAsCopy(home);
  }

  // --- modes and answers

  start(registry, { segments = {}, environ = {}, endpoint }, now) {
    Object.assign(this, { registry, environ, endpoint, build: segmentOf(registry, segments), waiting: new Map() });
    this.decide(now);
  }

  decide(now) {
    [this.mode, this.reason] = this.ruled();
    if (this.mode !== "on") this.discardUnsent();
    else if (!this.endpoint) [this.mode, this.reason] = ["local", "no_endpoint"];
    else if (!this.mayGoTo(this.endpoint)) [this.mode, this.reason] = ["local", "wrong_endpoint"];
    if (this.mode === "on") return this.look(now);
    this.closePast(now);
    this.save(this.state);
  }

  ruled() {
    const { answer, agreed } = this.state;
    const wish = (this.environ.DO_NOT_TRACK ?? "").trim().toLowerCase();
    if (answer === "no") return ["off", "declined"];
    if (!["", "0", "false"].includes(wish)) return ["off", "do_not_track"];
    if (answer === null) return ["local", "not_asked"];
    return covers(agreed, this.registry.agreement) ? ["on", "agreed"] : ["local", "asks_more"];
  }

  mayGoTo(endpoint) {
    const { protocol, hostname } = new URL(endpoint);
    const here = ["127.0.0.1", "localhost", "[::1]"].includes(hostname);
    const recipient = endpoint.replace(/\/$/, "") === this.registry.recipient.url;
    return here || (recipient && protocol === "https:");
  }

  consent(agreed, now) {
    const { state, registry } = this;
    this.isKept = true;
    if (!agreed) {
      state.answer = "no";
    } else if (state.answer !== "yes" || !covers(state.agreed, registry.agreement)) {
      Object.assign(state, { answer: "yes", agreed: registry.agreement, answeredAt: Math.floor(now / DAY) * DAY });
    }
    this.decide(now);
  }

  discardUnsent() {
    Object.assign(this.state, { outbox: [], reports: {}, gathered: {} });
    for (const epoch of Object.values(this.state.epochs)) epoch.sealed = true;
    this.waiting?.clear();
  }

  closePast(now) {
    const isOver = ({ every, epoch }) => epoch < epochOf(every, now);
    for (const epoch of Object.values(this.state.epochs)) epoch.sealed ||= isOver(epoch);
    const reports = Object.entries(this.state.reports).filter(([, row]) => !isOver(row));
    this.state.reports = Object.fromEntries(reports);
    this.dropGathered(now);
  }

  dropGathered(now) {
    const present = Object.entries(this.state.gathered).filter(([, row]) => row.epoch === epochOf(row.every, now));
    this.state.gathered = Object.fromEntries(present);
  }

  forget(now) {
    const { home, ledger, lifetime, carried } = this.state;
    const asked = Object.values(ledger).filter((row) => row.askedIn !== null);
    const spent = asked.reduce((sum, row) => sum + row.slots * row.micro, carried);
    this.state = { ...freshState(home), answer: "no", carried: spent, lifetime };
    this.decide(now);
  }

  goOnAsCopy(home) {
    this.discardUnsent();
    this.state.home = home;
    if (this.state.answer === "yes") this.state.answer = null;
  }

  // --- the budget

  reserve() {
    const { state, registry } = this;
    if (state.reservedFor === registry.fingerprint) return;
    state.reservedFor = registry.fingerprint;
    state.lifetime = Math.min(registry.lifetime_micro_epsilon, state.lifetime ?? Infinity);
    for (const metric of registry.metrics) {
      const row = state.ledger[metric.metric_hash] ?? { slots: 0, micro: metric.micro_epsilon, askedIn: null };
      const cost = (metric.slots - row.slots) * metric.micro_epsilon;
      const cohorts = [...new Set([...state.cohorts, metric.num_cohorts])];
      const groups = pieces(cohorts) * registry.segments.combinations.length;
      const fits = cost <= state.lifetime - this.setAside() && groups <= 2 ** registry.max_identifying_bits;
      if (metric.slots <= row.slots || !fits) continue;
      Object.assign(row, { slots: metric.slots, micro: metric.micro_epsilon });
      if (metric.noise.history) row.askedIn ??= epochOf(metric.every, state.answeredAt) + 1;
      state.ledger[metric.metric_hash] = row;
      state.cohorts = cohorts;
    }
  }

  setAside() {
    return Object.values(this.state.ledger).reduce((sum, row) => sum + row.slots * row.micro, this.state.carried);
  }

  spent() {
    const memos = Object.entries(this.state.memos);
    return memos.reduce((sum, [hash, kept]) => sum + kept.length * this.state.ledger[hash].micro, this.state.carried);
  }

  // --- looks and epochs

  look(now) {
    const { state, registry } = this;
    if (state.key === null) Object.assign(state, this.chance.identity());
    this.reserve();
    for (const every of CADENCES) {
      const over = Object.entries(state.epochs).filter(([, row]) => row.every === every && !row.sealed);
      const past = over.map(([, row]) => row.epoch).filter((epoch) => epoch < epochOf(every, now));
      for (const epoch of past.sort((a, b) => a - b)) seal(this, every, epoch);
    }
    this.dropGathered(now);
    const asked = CADENCES.filter((every) => registry.metrics.some((metric) => metric.every === every));
    for (const every of asked) this.open(every, epochOf(every, now));
    for (const { metric, value, epoch, since } of this.waiting.values()) {
      if (Math.abs(now - since) <= LONGEST_WAIT && this.epochRow(metric.every, epoch)) this.take(metric, value, epoch);
    }
    this.waiting.clear();
    dropOld(this, now);
    this.lookedAt = now;
    this.looksAt = Math.min(now + LOOK_EVERY, (Math.floor(now / DAY) + 1) * DAY);
    this.save(state);
  }

  open(every, epoch) {
    if (!this.isAfterYes(every, epoch)) return;
    const row = (this.state.epochs[`${every} ${epoch}`] ??= { every, epoch, sealed: false, segment: this.build });
    if (row.sealed) return;
    for (const metric of this.askedIn(every, epoch)) {
      this.state.ledger[metric.metric_hash].askedIn ??= epoch;
      if (metric.noise.history) this.flagsOf(metric);
    }
  }

  epochRow(every, epoch) {
    return this.state.epochs[`${every} ${epoch}`];
  }

  isAfterYes(every, epoch) {
    return epoch > epochOf(every, this.state.answeredAt);
  }

  askedIn(every, epoch) {
    return this.registry.metrics.filter((metric) => metric.every === every && this.isAsked(metric, epoch));
  }

  isAsked(metric, epoch) {
    const row = this.state.ledger[metric.metric_hash];
    if (!row || !this.isAfterYes(metric.every, epoch) || this.isExpired(metric, epoch)) return false;
    if (metric.every === "once" && row.askedIn !== null && row.askedIn !== epoch) return false;
    return !metric.noise.history || this.isTurn(metric, epoch);
  }

  isExpired(metric, epoch) {
    return startOf(metric.every, epoch) >= metric.expires_at;
  }

  // --- records

  record(name, value, now) {
    const metric = this.registry.metrics.find((each) => each.name === name);
    if (!metric) throw new RangeError(`${name} is no metric of this registry`);
    encode(metric.encoding, value, 0); // a wrong value is one, whatever becomes of it; a cross has no other
    if (metric.accumulate === "sum" && numberOf(value).n < 0n) throw new RangeError("must be at least 0 to be added");
    if (this.mode !== "on") return;
    const epoch = epochOf(metric.every, now);
    if ([metric, ...this.crossesOf(metric)].every((each) => this.isExpired(each, epoch))) this.count("expired");
    else if (this.epochRow(metric.every, epoch)) this.take(metric, value, epoch);
    else if (this.isAfterYes(metric.every, epoch)) this.wait(metric, value, epoch, now);
    this.save(this.state);
  }

  wait(metric, value, epoch, now) {
    const before = this.waiting.get(metric.name);
    if (!before || before.epoch !== epoch) this.waiting.set(metric.name, { metric, value, epoch, since: now });
    else if (metric.accumulate !== "first") before.value = combined(metric, before.value, value);
  }

  take(metric, value, epoch) {
    if (this.epochRow(metric.every, epoch).sealed) return;
    const { reports, gathered } = this.state;
    const which = `${metric.metric_hash} ${epoch}`;
    const asked = this.isAsked(metric, epoch);
    const isCrossed = this.crossesOf(metric).some((cross) => this.isAsked(cross, epoch));
    if (metric.accumulate === "first") {
      const row = () => ({ every: metric.every, epoch, value: { category: this.category(metric, value) } });
      if (isCrossed) gathered[which] ??= row();
      if (asked && !reports[which]) this.report(metric, value, epoch);
      return;
    }
    if (!asked && !isCrossed) return;
    const part = kept(metric.encoding, value, this.cohort(metric));
    if (part === null) return;
    const sum = gathered[which] ? combined(metric, gathered[which].value, part) : part;
    gathered[which] = { every: metric.every, epoch, value: sum };
  }

  // What the epoch comes to: null is absent.
  answerOf(metric, epoch) {
    if (metric.encoding.form === "cross") return this.cellOf(metric, epoch);
    const kept = metric.accumulate === "first" ? undefined : this.state.gathered[`${metric.metric_hash} ${epoch}`];
    const value = kept ? kept.value : metric.silence;
    return { value, isAbsent: value === null };
  }

  crossesOf({ name }) {
    return this.registry.metrics.filter(({ encoding }) => encoding.form === "cross" && encoding.of.includes(name));
  }

  cellOf(cross, epoch) {
    const factors = cross.encoding.of.map((name) => this.registry.metrics.find((metric) => metric.name === name));
    const kept = factors.map(({ metric_hash: hash }) => this.state.gathered[`${hash} ${epoch}`]?.value ?? null);
    const cell = factors.map((factor, i) => kept[i]?.category ?? this.category(factor, kept[i]));
    return { value: { cell }, isAbsent: kept.every((each) => each === null) };
  }

  category(metric, value) {
    return categoryOf(metric.encoding, metric.accumulate, value, this.dither(metric));
  }

  report(metric, value, epoch) {
    const encoded = encode(metric.encoding, value, this.cohort(metric), this.dither(metric));
    const bits = metric.noise.history ? this.said(metric, encoded.mask, epoch) : this.noised(metric, encoded.mask, epoch);
    const row = { every: metric.every, epoch, cohort: this.cohort(metric), bits: this.hex(metric, bits) };
    this.state.reports[`${metric.metric_hash} ${epoch}`] = row;
    this.count("made");
    if (encoded.clamped) this.count("clamped");
  }

  count(name, number = 1) {
    this.state.counts[name] = (this.state.counts[name] ?? 0) + number;
  }

  // --- who it is

  cohort(metric) {
    return Number((BigInt(this.state.number) * BigInt(metric.num_cohorts)) >> 62n);
  }

  width(metric) {
    return metric.widths[metric.widths.length > 1 ? this.cohort(metric) : 0];
  }

  hex(metric, bits) {
    return hexOf(bits, Math.ceil(this.width(metric) / 8));
  }

  byKey(metric, name, over) {
    const what = `${name.draw} ${metric.metric_hash} ${over}`;
    return this.chance.byKey(this.state.key, what, { ...name, metric: metric.name });
  }

  dither(metric) {
    return metric.encoding.form === "mean" ? this.byKey(metric, { draw: "dither" }, "")(1n << 64n) : 0n;
  }

  // --- kept answers

  noised(metric, sent, epoch) {
    const memo = this.memo(metric, sent);
    const take = this.chance.fresh({ draw: "bits", metric: metric.name, epoch });
    return crossed(metric.noise.instantaneous, memo, this.width(metric), take);
  }

  memo(metric, sent) {
    const all = (1n << BigInt(this.width(metric))) - 1n;
    const parts = metric.keeps_by_bit ? [[all, sent], [0n, all & ~sent]].filter(([, where]) => where) : [[sent, all]];
    const found = parts.map(([drawnFor, where]) => ({ where, ...this.keptOrDrawn(metric, drawnFor) }));
    if (found.some((part) => part.old)) this.count("overflowed");
    return found.reduce((bits, part) => bits | (part.bits & part.where), 0n);
  }

  keptOrDrawn(metric, sent) {
    const mask = this.hex(metric, sent);
    const memos = (this.state.memos[metric.metric_hash] ??= []);
    const over = `${this.cohort(metric)} ${mask}`;
    const fingerprint = this.fingerprint(metric, `memo ${over}`);
    const known = memos.find((each) => each.fingerprint === fingerprint);
    if (known) return { bits: ofHex(known.bits), old: false };
    if (memos.length < Math.min(metric.max_values, this.state.ledger[metric.metric_hash].slots)) {
      const take = this.byKey(metric, { draw: "memo", mask }, over);
      const bits = crossed(metric.noise.permanent, sent, this.width(metric), take);
      memos.push({ fingerprint, bits: this.hex(metric, bits) });
      return { bits, old: false };
    }
    const slot = this.byKey(metric, { draw: "overflow", mask }, over)(BigInt(memos.length));
    return { bits: ofHex(memos[Number(slot)].bits), old: true };
  }

  fingerprint(metric, what) {
    return hmac(this.state.key, `fingerprint ${metric.metric_hash} ${what}`).toString("hex").slice(0, 32);
  }

  // --- histories

  periodOf(metric, epoch) {
    const { hold } = metric.noise.history;
    return Math.floor(epoch / hold);
  }

  answerNumber(metric, epoch) {
    return this.periodOf(metric, epoch) - this.periodOf(metric, this.state.ledger[metric.metric_hash].askedIn);
  }

  isTurn(metric, epoch) {
    const { hold, answers } = metric.noise.history;
    const number = this.answerNumber(metric, epoch);
    if (number < 0 || number >= answers) return false;
    const period = this.periodOf(metric, epoch);
    return BigInt(epoch - period * hold) === this.byKey(metric, { draw: "turn", period }, period)(BigInt(hold));
  }

  flagsOf(metric) {
    const law = metric.noise.history;
    const began = this.periodOf(metric, this.state.ledger[metric.metric_hash].askedIn);
    const memos = (this.state.memos[metric.metric_hash] ??= []);
    if (!memos.length) {
      const flags = drawnFlags(law, this.byKey(metric, { draw: "flags" }, began));
      const size = Math.ceil((law.answers * law.flags_per_answer) / 8);
      memos.push({ fingerprint: this.fingerprint(metric, `flags ${began}`), bits: hexOf(flags, size) });
    }
    return ofHex(memos[0].bits);
  }

  said(metric, sent, epoch) {
    const law = metric.noise.history;
    const each = BigInt(law.flags_per_answer);
    const flags = (this.flagsOf(metric) >> (BigInt(this.answerNumber(metric, epoch)) * each)) & ((1n << each) - 1n);
    const over = `${epoch} ${this.cohort(metric)} ${this.hex(metric, sent)}`;
    const take = law.sort === "bits" ? null : this.byKey(metric, { draw: "said", epoch }, over);
    return flagged(law, sent, this.width(metric), flags, take);
  }
}

export function combined(metric, before, value) {
  switch (metric.accumulate) {
    case "last":
      return value;
    case "sum":
      return { number: text(add(numberOf(before), numberOf(value))) };
    case "max":
      return isBelow(numberOf(before), numberOf(value)) ? value : before;
  }
  if ("flag" in value) return { flag: before.flag || value.flag };
  const items = [...itemsOf(metric.encoding, before), ...itemsOf(metric.encoding, value)];
  return { texts: [...new Set(items)].sort() };
}

// Into how many pieces the cuts k/n of all these n divide a line: in lowest terms, phi(d) cuts for every divisor d.
export function pieces(cohorts) {
  const divisors = new Set([1]);
  for (const n of cohorts) for (let d = 1; d * d <= n; d++) if (n % d === 0) divisors.add(d).add(n / d);
  return [...divisors].reduce((sum, d) => sum + phi(d), 0);
}

function phi(n) {
  let result = n;
  for (let p = 2; p * p <= n; p++) {
    if (n % p === 0) result -= result / p;
    while (n % p === 0) n /= p;
  }
  return n > 1 ? result - result / n : result;
}
