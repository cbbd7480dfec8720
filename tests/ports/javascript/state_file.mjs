// Rules 9.1 to 9.3 of docs/client-contract.md: the state as one file, written whole or not at all, for one process at a
// time and one user.
import { closeSync, existsSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, unlinkSync, writeSync } from "node:fs";
import { hostname } from "node:os";
import { join, resolve } from "node:path";

export class StateFile {
  constructor(directory) {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    this.path = join(directory, "state.json");
    this.home = `${machine()} ${resolve(this.path)}`; // a copy lies elsewhere
    this.lock = `${this.path}.lock`;
    this.take();
  }

  take() {
    try {
      const file = openSync(this.lock, "wx", 0o600);
      writeSync(file, String(process.pid));
      closeSync(file);
    } catch (error) {
      if (error.code !== "EEXIST" || isAlive(Number(readFileSync(this.lock, "utf8")))) throw error;
      unlinkSync(this.lock); // of a process that was killed
      this.take();
    }
  }

  // Throws for a damaged file: what it had spent is unknown, so nothing may go on from here.
  read() {
    return existsSync(this.path) ? JSON.parse(readFileSync(this.path, "utf8")) : null;
  }

  write(state) {
    const beside = `${this.path}.new`;
    const file = openSync(beside, "w", 0o600);
    writeSync(file, JSON.stringify(state));
    fsyncSync(file);
    closeSync(file);
    renameSync(beside, this.path);
  }

  close() {
    unlinkSync(this.lock);
  }
}

function machine() {
  return existsSync("/etc/machine-id") ? readFileSync("/etc/machine-id", "utf8").trim() : hostname();
}

function isAlive(pid) {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error.code === "EPERM";
  }
}
