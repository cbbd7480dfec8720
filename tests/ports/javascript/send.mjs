// So many installs agree three days ago, record two days ago, and send now what they said:
//     node send.mjs METRICS.JSON URL DIRECTORY INSTALLS '{"theme": true}'
import { join } from "node:path";
import { Client } from "./client.mjs";
import { readRegistry } from "./registry.mjs";

const [path, endpoint, directory, installs, values] = process.argv.slice(2);
const registry = readRegistry(path);
const DAYS = [3, 2, 0];

for (let number = 0; number < Number(installs); number++) {
  for (const days of DAYS) {
    const clock = () => Date.now() / 1000 - 86400 * days;
    const client = new Client(registry, { endpoint, directory: join(directory, String(number)), environ: {}, clock });
    if (days === 3) client.consent(true);
    if (days === 2) for (const [name, value] of Object.entries(JSON.parse(values))) client.record(name, value);
    if (days === 0) await client.flush();
    await client.close();
    if (days === 0) console.log(JSON.stringify({ mode: client.mode, counts: client.install.state.counts }));
  }
}
