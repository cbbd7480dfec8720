// Lives through every scenario of tests/vectors/behaviour.json, as section 12 of docs/client-contract.md says.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { ScriptedChance } from "./chance.mjs";
import { Install } from "./install.mjs";
import { departs, due, settle, waiting } from "./outbox.mjs";
import { checked } from "./registry.mjs";

const COUNTED = ["made", "absent", "clamped", "overflowed", "expired", "sent"];

class World {
  constructor(scenario, registries) {
    this.scenario = scenario;
    this.registries = registries;
    this.chance = new ScriptedChance(scenario);
    this.install = new Install({ home: "here", chance: this.chance });
    this.sent = [];
    this.wake = Infinity;
    this.running = false;
  }

  passUntil(moment) {
    while (this.wake <= moment) {
      this.now = Math.max(this.now, this.wake);
      this.step();
    }
    this.now = moment;
  }

  step() {
    const { install } = this;
    this.wake = Infinity;
    if (install.mode !== "on") return;
    if (!(install.lookedAt <= this.now && this.now < install.looksAt)) install.look(this.now);
    const message = due(install, this.now);
    if (message) settle(install, message, this.post(message), this.now);
    this.wake = Math.min(install.looksAt, departs(install));
  }

  post({ id, body }) {
    const { answer } = this.scenario.messages[this.sent.length];
    this.sent.push({ at: this.now, body, answer });
    return answer.fails ? null : { ...answer, body: answer.body.replaceAll("{batch_id}", id) };
  }

  act(step) {
    const { install } = this;
    switch (step.do) {
      case "start":
        install.start(this.registries.get(step.registry), step, this.now);
        this.running = true;
        break;
      case "stop":
        this.running = false;
        this.wake = Infinity;
        break;
      case "consent":
        install.consent(step.agreed, this.now);
        break;
      case "forget":
        install.forget(this.now);
        break;
      case "record":
      case "add":
        this.record(step);
        break;
      case "sleep":
        this.wake += step.until - step.at;
        break;
      case "copy":
        this.install = new Install({ state: structuredClone(install.state), home: "elsewhere", chance: this.chance });
        break;
    }
    if (["start", "consent", "forget"].includes(step.do)) this.step();
  }

  record({ metric, value }) {
    try {
      this.install.record(metric, value, this.now);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error; // a wrong value records nothing
    }
  }

  seen() {
    const { mode, reason, state } = this.install;
    const told = Object.entries(state.counts).filter(([name]) => COUNTED.includes(name) || name.startsWith("dropped_"));
    return {
      mode,
      reason,
      spent: this.install.spent(),
      set_aside: this.install.setAside(),
      waiting: waiting(this.install),
      counts: Object.fromEntries(told.filter(([, number]) => number)),
    };
  }

  run() {
    for (const [number, step] of this.scenario.steps.entries()) {
      if (step.do === "clock" || this.now === undefined) this.now = step.at;
      else this.passUntil(step.at);
      this.act(step);
      if (step.then) assert.deepEqual(this.seen(), step.then, `step ${number}: ${step.do}`);
    }
    assert.deepEqual(this.sent, this.scenario.messages, "what left, and when");
    assert.deepEqual([...this.chance.once.keys()], [], "what was not drawn");
  }
}

const read = (name) => JSON.parse(readFileSync(new URL(`../../vectors/${name}.json`, import.meta.url), "utf8"));

export function replay() {
  const registries = new Map(
    read("compiled").map(({ about, compiled }) => [about, checked({ ...compiled, fingerprint: about })]),
  );
  let wrong = 0;
  for (const scenario of read("behaviour")) {
    try {
      new World(scenario, registries).run();
      console.log(`ok      ${scenario.about}`);
    } catch (error) {
      wrong += 1;
      console.log(`WRONG   ${scenario.about}\n${error.message}`);
    }
  }
  return wrong;
}
