-- Batches for wrk, each with an id of its own. Arguments: a file with one message, the path, a header or "-".

local ffi = require("ffi")
local bit = require("bit")
local bxor, band, rshift = bit.bxor, bit.band, bit.rshift

local crc_table = ffi.new("uint32_t[256]")
for i = 0, 255 do
  local crc = i
  for _ = 1, 8 do
    crc = band(crc, 1) == 1 and bxor(rshift(crc, 1), 0xEDB88320) or rshift(crc, 1)
  end
  crc_table[i] = crc
end

local buffer, length, path, headers, number

function init(arguments)
  local file = assert(io.open(arguments[1], "rb"))
  local message = file:read("*a")
  file:close()
  length = #message
  buffer = ffi.new("uint8_t[?]", length)
  ffi.copy(buffer, message, length)
  path = arguments[2]
  headers = { ["Content-Type"] = "application/vnd.hubbub.reports" }
  if arguments[3] ~= "-" then
    headers["Authorization"] = arguments[3]
  end
  math.randomseed(tonumber(arguments[4]))
  for at = 8, 15 do
    buffer[at] = math.random(0, 255)
  end
  number = 0
end

function request()
  number = number + 1
  for at = 0, 3 do
    buffer[16 + at] = band(rshift(number, 8 * at), 255)
    buffer[28 + at] = 0
  end
  local crc = 0xFFFFFFFF
  for at = 0, length - 1 do
    crc = bxor(rshift(crc, 8), crc_table[band(bxor(crc, buffer[at]), 255)])
  end
  crc = bxor(crc, 0xFFFFFFFF)
  for at = 0, 3 do
    buffer[28 + at] = band(rshift(crc, 8 * at), 255)
  end
  return wrk.format("POST", path, headers, ffi.string(buffer, length))
end

function done(summary, latency, _)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format("answered %d failed %d p99 %d\n", summary.requests, failed, latency:percentile(99)))
end
