// docs/client-contract.md, section 8, and rule 4.5: messages, from sealing to whatever the network says to them.
import { DAY, HOUR, startOf } from "./epochs.mjs";
import { placeOf, segmentOf } from "./registry.mjs";
import { packed, renamed } from "./wire.mjs";

const MAX_AGE = 28 * DAY;
const PREFIX = "urn:hubbub:problem:";
const DROPPED = {
  malformed: 400, "version-unsupported": 400, "id-reused": 409, "epoch-closed": 410, "too-large": 413,
  "media-type-unsupported": 415, "report-impossible": 422,
};
const LATER = { "metric-unknown": 404, "epoch-in-future": 422 };

export function seal(install, every, epoch) {
  const { state, registry, chance } = install;
  const row = install.epochRow(every, epoch);
  const place = placeOf(registry, segmentOf(registry, row.segment));
  const blocks = install.askedIn(every, epoch).map((metric) => {
    const { cohort, bits } = finalReport(install, metric, epoch);
    return { hash: metric.hashes[place], epoch, twoBytes: metric.num_cohorts > 256, rows: [{ cohort, bits }] };
  });
  row.sealed = true;
  for (const kind of ["reports", "gathered"]) {
    const others = Object.entries(state[kind]).filter(([, each]) => each.every !== every || each.epoch !== epoch);
    state[kind] = Object.fromEntries(others);
  }
  if (!blocks.length) return;
  const end = startOf(every, epoch + 1);
  const window = Math.min(end - startOf(every, epoch), DAY);
  const id = chance.id({ draw: "id", every, epoch, attempt: 0 });
  const notBefore = end + window * part(install, "delay", { every, epoch }, 0);
  const body = packed(id, blocks).toString("hex");
  state.outbox.push({ id, every, epoch, reports: blocks.length, body, attempts: 0, notBefore });
}

function finalReport(install, metric, epoch) {
  const which = `${metric.metric_hash} ${epoch}`;
  const { reports } = install.state;
  if (!reports[which]) {
    const { value, isAbsent } = install.answerOf(metric, epoch);
    install.report(metric, value, epoch);
    if (isAbsent) install.count("absent");
  }
  return reports[which];
}

function part(install, draw, { every, epoch }, attempt) {
  return Number(install.chance.fresh({ draw, every, epoch, attempt })(1n << 48n)) / 2 ** 48;
}

export function dropOld(install, now) {
  const { state } = install;
  const isOld = ({ every, epoch }) => now - startOf(every, epoch + 1) > MAX_AGE;
  for (const { reports } of state.outbox.filter(isOld)) install.count("dropped_too_old", reports);
  state.outbox = state.outbox.filter((message) => !isOld(message));
  for (let size = 0, i = state.outbox.length - 1; i >= 0; i--) {
    size += state.outbox[i].body.length / 2;
    if (size <= 4 << 20 && state.outbox.length - i <= 1000) continue;
    const [dropped] = state.outbox.splice(i, 1);
    size -= dropped.body.length / 2;
    install.count("dropped_outbox_full", dropped.reports);
  }
  if (state.retryAt > now + DAY + 2 * HOUR) state.retryAt = 0;
}

// In the order in which they leave.
function sorted(state) {
  const order = (a, b) => a.notBefore - b.notBefore || (a.id < b.id ? -1 : 1);
  return state.outbox.sort(order);
}

export function waiting(install) {
  return sorted(install.state).map(({ every, epoch, notBefore }) => [every, epoch, notBefore]);
}

// When the next message leaves; never: Infinity.
export function departs(install) {
  const [next] = sorted(install.state);
  return next ? Math.max(next.notBefore, install.state.retryAt) : Infinity;
}

// The message to send now, if there is one.
export function due(install, now) {
  dropOld(install, now);
  return departs(install) <= now ? sorted(install.state)[0] : null;
}

// What became of an attempt. `answer` is {status, headers, body}, or null if there was none.
export function settle(install, message, answer, now) {
  const { state } = install;
  const verdict = judged(answer, message.id);
  if (verdict.kind === "failed") {
    state.failures += 1;
    const pause = Math.max(Math.min(6 * HOUR, 30 * 2 ** (state.failures - 1)), Math.min(verdict.retryAfter, DAY));
    state.retryAt = fullHourAfter(now + pause) + HOUR * part(install, "pause", message, state.failures);
  } else {
    Object.assign(state, { failures: 0, retryAt: 0 });
    if (verdict.kind === "later") putOff(install, message, verdict, now);
    else {
      state.outbox = state.outbox.filter(({ id }) => id !== message.id);
      install.count(verdict.kind === "delivered" ? "sent" : `dropped_${verdict.reason}`, message.reports);
    }
  }
  install.save(state);
}

function putOff(install, message, { reason, serverTime }, now) {
  const { every, epoch } = message;
  message.attempts += 1;
  const lasts = reason === "epoch-in-future" && serverTime !== null ? startOf(every, epoch + 1) - serverTime : DAY;
  const until = fullHourAfter(now + Math.min(DAY, Math.max(HOUR, lasts)));
  message.notBefore = Math.max(message.notBefore, until + HOUR * part(install, "later", message, message.attempts));
  if (reason !== "metric-unknown") return;
  message.id = install.chance.id({ draw: "id", every, epoch, attempt: message.attempts });
  message.body = renamed(Buffer.from(message.body, "hex"), message.id).toString("hex");
}

const fullHourAfter = (moment) => (Math.floor(moment / HOUR) + 1) * HOUR;

export function judged(answer, id) {
  if (answer === null) return { kind: "failed", retryAfter: 0 };
  const headers = Object.fromEntries(Object.entries(answer.headers).map(([name, value]) => [name.toLowerCase(), value]));
  const serverTime = seconds(headers.date);
  const said = parsed(answer.body);
  if (answer.status === 200 && ["stored", "duplicate"].includes(said.status) && said.batch_id === id) {
    return { kind: "delivered" };
  }
  const type = typeof said.type === "string" && said.type.startsWith(PREFIX) ? said.type.slice(PREFIX.length) : "";
  if (DROPPED[type] === answer.status) return { kind: "refused", reason: type };
  if (LATER[type] === answer.status) return { kind: "later", reason: type, serverTime };
  return { kind: "failed", retryAfter: retryAfter(headers["retry-after"], serverTime) };
}

function parsed(body) {
  try {
    const said = JSON.parse(body);
    return typeof said === "object" && said !== null ? said : {};
  } catch {
    return {};
  }
}

function retryAfter(wanted, serverTime) {
  if (wanted === undefined) return 0;
  if (/^\d+$/.test(wanted.trim())) return Number(wanted);
  const until = seconds(wanted);
  return until === null || serverTime === null ? 0 : Math.max(0, until - serverTime);
}

function seconds(date) {
  const found = date === undefined ? Number.NaN : Date.parse(date);
  return Number.isNaN(found) ? null : found / 1000;
}
