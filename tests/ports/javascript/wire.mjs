// Section 7 of docs/wire-format.md: the bytes of a message of one install.

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let i = 0; i < 8; i++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
  return byte >>> 0;
});

export function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = (crc >>> 8) ^ TABLE[(crc ^ byte) & 255];
  return (crc ^ 0xffffffff) >>> 0;
}

// `blocks` are {hash, epoch, twoBytes, rows: [{cohort, bits}]}, bits in hex as they lie in a block.
export function packed(batchId, blocks) {
  const parts = [];
  for (const { hash, epoch, rows } of blocks) {
    const entry = Buffer.alloc(16);
    entry.write(hash.slice(0, 16), "hex");
    entry.writeInt32LE(epoch, 8);
    entry.writeUInt32LE(rows.length, 12);
    parts.push(entry);
  }
  for (const { twoBytes, rows } of blocks) {
    for (const { cohort } of rows) parts.push(Buffer.from(twoBytes ? [cohort & 255, cohort >> 8] : [cohort]));
    for (const { bits } of rows) parts.push(Buffer.from(bits, "hex"));
  }
  const body = Buffer.concat(parts);
  const head = Buffer.alloc(32);
  head.write("HUBB\x01\x00", "latin1");
  head.writeUInt16LE(blocks.length, 6);
  head.writeUInt32LE(body.length, 24);
  return renamed(Buffer.concat([head, body]), batchId);
}

// The same message under another id.
export function renamed(message, batchId) {
  const changed = Buffer.from(message);
  changed.write(batchId, 8, "hex");
  changed.writeUInt32LE(0, 28);
  changed.writeUInt32LE(crc32(changed), 28);
  return changed;
}
