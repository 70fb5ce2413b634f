// The moments of the last hour, as the server keeps them, put on one axis of time. Pure.

// The most moments of an instance that are kept.
const MOST = 400;

export const SPANS = [300_000, 900_000, 3_600_000];

export class History {
  constructor() {
    this.instances = new Map();
    this.step = 10_000;
    this.span = SPANS.at(-1);
  }

  // What arrives replaces what is known from its first moment on: the clock of a server may have gone back.
  take({ fields, stepMs, spanMs, instances }) {
    this.step = stepMs;
    this.span = spanMs;
    for (const [name, moments] of Object.entries(instances)) {
      const found = moments.slice(-MOST).map((figures) => Object.fromEntries(fields.map((field, at) => [field, figures[at]])));
      if (!found.length) continue;
      const before = (this.instances.get(name) ?? []).filter((each) => each.atMs < found[0].atMs);
      this.instances.set(name, [...before, ...found].filter((each) => each.atMs > found.at(-1).atMs - spanMs).slice(-MOST));
    }
  }

  // Forgets instances that have said nothing in the time that is kept.
  forget(now) {
    for (const [name, moments] of this.instances) {
      if (moments.at(-1).atMs <= now - this.span) this.instances.delete(name);
    }
  }

  get names() {
    return [...this.instances.keys()].sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
  }

  // The shortest of the spans that has everything.
  fitting(now) {
    const first = Math.min(now, ...[...this.instances.values()].map((moments) => moments[0].atMs));
    return SPANS.find((span) => now - first <= span) ?? SPANS.at(-1);
  }

  // The times from `from` to `to`, a step apart, and the figures of each instance at them; null where it has none.
  lines(field, from, to) {
    const first = Math.ceil(from / this.step);
    const times = Array.from({ length: Math.max(0, Math.floor(to / this.step) - first + 1) }, (_, at) => (first + at) * this.step);
    return [times, ...this.names.map((name) => this.line(this.instances.get(name), field, first, times.length))];
  }

  // What each instance measured last; null if it has measured nothing for a while.
  last(field, now) {
    return this.names.map((name) => {
      const moment = this.instances.get(name).at(-1);
      return now - moment.atMs < 3 * this.step ? moment[field] : null;
    });
  }

  line(moments, field, first, length) {
    const found = new Array(length).fill(null);
    let last = null;
    for (const moment of moments) {
      const slot = Math.floor(moment.atMs / this.step) - first;
      if (slot >= 0 && slot < length) {
        found[slot] = moment[field];
        // A moment that is a little late leaves a place empty; the first of a run has no rate.
        if (last !== null && slot - last.slot === 2 && moment.rate !== null) found[slot - 1] ??= last.value;
      }
      last = slot >= 0 ? { slot, value: moment[field] } : null;
    }
    return found;
  }

  // From when to when something was so at each of the times: [[from, to], ...].
  during(times, is) {
    const found = [];
    times.forEach((time, at) => {
      if (!is(at)) return;
      if (found.length && found.at(-1)[1] === time) found.at(-1)[1] = time + this.step;
      else found.push([time, time + this.step]);
    });
    return found;
  }

  // When no broker answered some instance, and when an instance that was there before was away.
  troubles(from, to) {
    const [times, ...outages] = this.lines("outage", from, to);
    const away = this.names.map((name, number) => {
      const line = outages[number];
      const begins = this.instances.get(name)[0].atMs < from ? 0 : line.findIndex((each) => each !== null);
      const late = times.length - 3; // the last moments may be on their way
      return { name, spans: this.during(times, (at) => begins >= 0 && at >= begins && at < late && line[at] === null) };
    });
    return { outages: this.during(times, (at) => outages.some((line) => line[at] === true)), away };
  }
}

// The lowest and the highest figure of a line; null without any.
export function extremes(line) {
  const known = line.filter((each) => each !== null);
  if (!known.length) return null;
  return { lowest: Math.min(...known), highest: Math.max(...known) };
}
