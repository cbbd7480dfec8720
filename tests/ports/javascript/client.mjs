// A whole client: an install in a state file, a timer, HTTP. Nothing that the disk or the network does reaches the app, and
// `record` never sends anything.
import { request as overPlain } from "node:http";
import { request as overTls } from "node:https";
import { SystemChance } from "./chance.mjs";
import { Install } from "./install.mjs";
import { departs, due, settle } from "./outbox.mjs";
import { StateFile } from "./state_file.mjs";

const TIMEOUT = 10_000;
const LONGEST_SLEEP = 900;

export class Client {
  constructor(registry, { endpoint, directory, segments = {}, environ = process.env, clock = () => Date.now() / 1000 }) {
    this.clock = clock;
    this.sending = null;
    this.safely(() => {
      this.file = new StateFile(directory);
      const save = (state) => this.file.write(state);
      this.install = new Install({ state: this.file.read(), home: this.file.home, chance: new SystemChance(), save });
      this.install.start(registry, { endpoint, segments, environ }, clock());
      this.sleep();
    });
  }

  get mode() {
    return this.broken ? "off" : this.install.mode;
  }

  get reason() {
    return this.broken ? `unusable: ${this.broken.message}` : this.install.reason;
  }

  // A wrong value is the programmer's mistake, and thrown.
  record(name, value) {
    const said = written(value);
    this.safely(() => this.install.record(name, said, this.clock()));
  }

  consent(agreed) {
    this.safely(() => {
      this.install.consent(agreed, this.clock());
      this.sleep();
    });
  }

  forget() {
    this.safely(() => this.install.forget(this.clock()));
  }

  // Send all that is due, and wait for it.
  async flush() {
    while (await this.step());
  }

  async close() {
    clearTimeout(this.timer);
    this.closed = true;
    await this.sending;
    try {
      this.file?.close();
    } catch {
      // the lock of a process that is gone is no lock
    }
  }

  // A state that cannot be kept must send nothing: from the first error of the disk on the client is off.
  safely(act) {
    if (this.broken) return undefined;
    try {
      return act();
    } catch (error) {
      if (error instanceof RangeError) throw error;
      this.broken = error;
      return undefined;
    }
  }

  sleep() {
    clearTimeout(this.timer);
    if (this.closed || this.mode !== "on") return;
    const wait = Math.min(this.install.looksAt, departs(this.install)) - this.clock();
    const seconds = Math.min(Math.max(wait, 0), LONGEST_SLEEP);
    this.timer = setTimeout(() => this.step().then(() => this.sleep()), 1000 * seconds);
    this.timer.unref(); // telemetry keeps no app alive
  }

  // Look if it is time, send one message at most. True if there was one and others may follow.
  async step() {
    if (this.mode !== "on" || this.sending) return false;
    const message = this.safely(() => {
      const now = this.clock();
      if (!(this.install.lookedAt <= now && now < this.install.looksAt)) this.install.look(now);
      return due(this.install, now);
    });
    if (!message || this.broken) return false;
    this.sending = this.post(Buffer.from(message.body, "hex"));
    const answer = await this.sending;
    this.sending = null;
    if (answer === "withheld") return false;
    this.safely(() => settle(this.install, message, answer, this.clock()));
    return answer !== null;
  }

  // The answer, or null if there was none. Once the connection stands the person's answer is read again (rule 2.5).
  post(body) {
    const url = new URL(`${this.install.endpoint.replace(/\/$/, "")}/v1/reports`);
    const secure = url.protocol === "https:";
    return new Promise((resolve) => {
      const headers = { "Content-Type": "application/vnd.hubbub.reports", "Content-Length": body.length };
      const sent = (secure ? overTls : overPlain)(url, { method: "POST", headers, agent: false }, (response) => {
        const parts = [];
        response.on("data", (part) => parts.push(part));
        response.on("error", () => resolve(null));
        response.on("end", () => {
          resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(parts).toString("utf8") });
        });
      });
      const giveUp = setTimeout(() => sent.destroy(new Error("too slow")), TIMEOUT);
      sent.on("close", () => clearTimeout(giveUp));
      sent.on("error", () => resolve(null));
      sent.on("socket", (socket) => {
        socket.once(secure ? "secureConnect" : "connect", () => {
          if (this.install.state.answer === "yes") return sent.end(body);
          resolve("withheld");
          sent.destroy();
        });
      });
    });
  }
}

// What an app records, as the contract writes values.
function written(value) {
  if (typeof value === "boolean") return { flag: value };
  if (typeof value === "string") return { text: value };
  if (typeof value === "number") return { float: String(value) };
  if (typeof value === "bigint") return { number: `${value}` };
  if (Array.isArray(value)) return { texts: value };
  throw new RangeError(`must be true or false, a text, a number or a list of texts, got ${typeof value}`);
}
