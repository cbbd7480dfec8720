// docs/compiled-registry.md: reading what `hubbub compile` wrote, and what a yes to it covers.
import { readFileSync } from "node:fs";
import { KEYS } from "./encoding.mjs";
import { knownHistories, knownSorts } from "./noise.mjs";

export function readRegistry(path) {
  return checked(JSON.parse(readFileSync(path, "utf8")));
}

// A metric that this client cannot ask is no metric to leave out: people agreed to all of them.
export function checked(registry) {
  if (registry.format !== "hubbub.compiled" || registry.version !== 1) {
    throw new Error(`must be hubbub.compiled, version 1, got ${registry.format}, version ${registry.version}`);
  }
  for (const { name, encoding, noise } of registry.metrics) {
    const sorts = noise.history ? [noise.history.sort] : [noise.permanent.sort, noise.instantaneous.sort];
    const known = noise.history ? knownHistories : knownSorts;
    if (!(encoding.form in KEYS)) throw new Error(`metric ${name} has a form unknown here: ${encoding.form}`);
    for (const key of Object.keys(encoding)) {
      if (key !== "form" && !KEYS[encoding.form].includes(key)) throw new Error(`metric ${name} has a key unknown here: ${key}`);
    }
    for (const sort of sorts) if (!known.includes(sort)) throw new Error(`metric ${name} has noise unknown here: ${sort}`);
  }
  return registry;
}

export function covers(old, now) {
  return (
    Object.entries(now.same).every(([key, fact]) => key in old.same && old.same[key] === fact) &&
    Object.entries(now.at_most).every(([key, number]) => key in old.at_most && number <= old.at_most[key])
  );
}

// The segment of a build with these facts, as this registry tells them apart.
export function segmentOf({ segments }, facts) {
  const known = (key, values) => (values.includes(facts[key]) ? facts[key] : "other");
  return Object.fromEntries(Object.entries(segments.values).map(([key, values]) => [key, known(key, values)]));
}

export function placeOf({ segments }, segment) {
  return segments.combinations.findIndex((each) => Object.keys(each).every((key) => each[key] === segment[key]));
}
