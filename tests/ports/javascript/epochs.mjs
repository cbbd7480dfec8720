// Section 6 of docs/wire-format.md: days, weeks and months as numbers, in UTC whatever the device's zone.

export const DAY = 86400;
export const HOUR = 3600;
export const CADENCES = ["once", "day", "week", "month"];
const LAST_DAY = 2932892;

export function epochOf(every, moment) {
  const day = Math.min(Math.max(Math.floor(moment / DAY), 0), LAST_DAY);
  if (every === "day") return day;
  if (every === "week") return Math.floor((day + 3) / 7);
  const date = new Date(day * DAY * 1000);
  return 12 * (date.getUTCFullYear() - 1970) + date.getUTCMonth();
}

export function startOf(every, epoch) {
  if (every === "day") return DAY * epoch;
  if (every === "week") return DAY * (7 * epoch - 3);
  return Date.UTC(1970, epoch, 1) / 1000;
}

export function textOf(every, epoch) {
  if (every === "day") return new Date(epoch * DAY * 1000).toISOString().slice(0, 10);
  if (every === "week") {
    const thursday = new Date(7 * epoch * DAY * 1000);
    const year = thursday.getUTCFullYear();
    const week = Math.floor((7 * epoch - Date.UTC(year, 0, 1) / 1000 / DAY) / 7) + 1;
    return `${year}-W${String(week).padStart(2, "0")}`;
  }
  return new Date(startOf("month", epoch) * 1000).toISOString().slice(0, 7);
}
