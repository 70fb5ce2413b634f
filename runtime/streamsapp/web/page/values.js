// Numbers, times and bytes as people read them. Pure.

const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function number(value) {
  if (value === null || value === undefined) return "–";
  return value > 0 && value < 0.1 ? "< 0.1" : SHORT.format(value);
}

export function rate(value) {
  return value === null || value === undefined ? "–" : `${number(value)}/s`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const seconds = ms / 1000;
  if (seconds < 1) return `${Math.round(ms)} ms`;
  if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

// The timestamp of a record, which is data: in UTC.
export function time(ms) {
  const moment = new Date(ms);
  return ms >= 0 && !Number.isNaN(moment.getTime()) ? moment.toISOString().replace("T", " ") : "–";
}

// Moments in the viewer's own time: of the day, with the day, and the name of their zone.
export function clock(ms, seconds = false) {
  return new Date(ms).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...(seconds && { second: "2-digit" }) });
}

export function day(ms) {
  return `${new Date(ms).toLocaleDateString("sv-SE")} ${clock(ms, true)}`;
}

export function zone() {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  return timeZone ?? "the time of this browser";
}

// Bytes in base64 as text if they are text, else as hexadecimal digits.
export function decoded(base64) {
  if (base64 === null || base64 === undefined) return "null";
  const bytes = Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
  try {
    const found = new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: true });
    if (!/[\u0000-\u0008\u000e-\u001f\u007f]/.test(found)) return found;
  } catch {
    // not text
  }
  return `0x ${[...bytes].map((each) => each.toString(16).padStart(2, "0")).join(" ")}`;
}

// JSON whose large integers keep every digit.
export function parsed(json) {
  return JSON.parse(json, (key, value, context) =>
    typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "")
      ? BigInt(context.source) : value);
}

export function shown(value) {
  if (typeof value === "string") return value;
  return JSON.stringify(value, (key, each) => (typeof each === "bigint" ? `${each}` : each), 1)
    ?.replace(/\n\s*/g, " ");
}
