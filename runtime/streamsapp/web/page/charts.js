// The last hour as charts: one for each kind of figure, a line for each instance, one axis of time for all.
//
// uPlot draws the lines. Where an instance had no figures its line has a gap, and nothing is drawn in between.

import { element, setText, Table } from "./dom.js";
import { extremes, History, SPANS } from "./history.js";
import { clock, day, duration, number, rate, zone } from "./values.js";

const sum = (values) => values.reduce((one, other) => one + other, 0);
const most = (values) => Math.max(...values);
// Steps of the axes: of durations in milliseconds, of numbers of records, and of time in seconds.
const TIMES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 12e5, 18e5, 36e5, 72e5, 144e5, 288e5, 864e5];
const COUNTS = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((each) => each * 10 ** power)).flat();
const CLOCK = [10, 15, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600];

// What is drawn: the field of a moment, how it reads, and how the figures of several instances become one.
const CHARTS = [
  { field: "rate", title: "Processed records", unit: "records a second", told: rate, of: sum },
  { field: "lag", title: "Input lag", unit: "records that wait", told: number, of: sum, incrs: COUNTS },
  { field: "latenessMs", title: "Lateness", unit: "average of the latest task", told: duration, of: most, incrs: TIMES },
  { field: "commitMs", title: "Commit", unit: "time a commit takes", told: duration, of: most, incrs: TIMES },
  { field: "restoring", title: "To restore", unit: "records until tasks go on", told: number, of: sum, incrs: COUNTS },
  { field: "replicaLag", title: "Replicas", unit: "records behind", told: number, of: sum, incrs: COUNTS },
  { field: "snapshotAgeMs", title: "Oldest snapshot", unit: "age", told: duration, of: most, incrs: TIMES },
];
const COLOURS = 8;
const HEIGHT = 170;

export class Charts {
  constructor(place) {
    this.place = place;
    this.history = new History();
    this.recoloured = false; // light or dark has changed since the last drawing
    this.chosen = null; // a span that the user wants; otherwise the shortest that has everything
    this.buttons = SPANS.map((span) => element("button", { type: "button", "aria-pressed": "false", onclick: () => this.choose(span) }, duration(span)));
    this.legend = element("ul", { class: "legend", "aria-label": "Instances" });
    this.troubles = element("ul", { class: "troubles", role: "status" });
    this.empty = element("p", { class: "faint" }, "The first figures come within twenty seconds.");
    this.drawn = CHARTS.map((about) => new Chart(about, this.history));
    place.replaceChildren(
      element("div", { class: "spans", role: "group", "aria-label": "Time that is shown" }, ...this.buttons, element("span", { class: "faint" }, `times in ${zone()}`)),
      this.legend, this.troubles, this.empty,
      element("div", { class: "charts" }, ...this.drawn.map((each) => each.figure)),
    );
    new ResizeObserver(() => this.draw()).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.recoloured = true; this.draw(); });
    setInterval(() => this.draw(), this.history.step / 2); // time goes on without news, too
  }

  take(document) {
    if (!Object.values(document.instances).some((moments) => moments.length)) return;
    this.history.take(document);
    this.draw();
  }

  clear() {
    this.history.instances.clear();
    this.draw();
  }

  choose(span) {
    this.chosen = this.chosen === span ? null : span;
    this.draw();
  }

  draw() {
    if (!this.place.clientWidth) return; // it is not seen
    const now = Date.now();
    this.history.forget(now);
    const span = this.chosen ?? this.history.fitting(now);
    this.buttons.forEach((each, at) => each.setAttribute("aria-pressed", String(SPANS[at] === span)));
    const names = this.history.names;
    this.empty.hidden = names.length > 0;
    this.showLegend(names);
    const troubles = this.history.troubles(now - span, now);
    this.showTroubles(troubles);
    for (const each of this.drawn) each.draw(names, now - span, now, troubles, this.recoloured);
    this.recoloured = false;
  }

  showLegend(names) {
    const told = names.length > 1 ? names : [];
    if (this.shown === String(told)) return;
    this.shown = String(told);
    this.legend.replaceChildren(...told.map((name, at) => element("li", { class: `line-${at % COLOURS}` }, name)));
  }

  showTroubles({ outages, away }) {
    const told = [
      ...outages.map(([from, to]) => [from, to, "no broker answered"]),
      ...away.flatMap(({ name, spans }) => spans.map(([from, to]) => [from, to, `no figures of ${name}: it was away`])),
    ].sort(([one], [other]) => other - one).slice(0, 5);
    const lines = told.map(([from, to, words]) => `${clock(from, true)} to ${clock(to, true)}: ${words}`);
    if (this.told === String(lines)) return;
    this.told = String(lines);
    this.troubles.replaceChildren(...lines.map((line) => element("li", {}, line)));
  }
}

class Chart {
  constructor(about, history) {
    this.about = about;
    this.history = history;
    this.plot = null;
    this.value = element("strong");
    this.area = element("div", { class: "plot", role: "img" });
    this.readout = element("p", { class: "readout" });
    const table = element("table");
    this.table = new Table(table, [["Instance"], ["Now", "number"], ["Lowest", "number"], ["Highest", "number"]]);
    this.figure = element("figure", {},
      element("figcaption", {}, element("span", { class: "name" }, about.title), " ", element("span", { class: "faint" }, about.unit), this.value),
      this.area, this.readout,
      element("details", {}, element("summary", {}, "As a table"), element("div", { class: "wide" }, table)));
  }

  draw(names, from, to, troubles, anew) {
    const [times, ...lines] = this.history.lines(this.about.field, from, to);
    const found = lines.map(extremes);
    this.figure.hidden = found.every((each) => each === null);
    if (this.figure.hidden) return;
    [this.names, this.troubles, this.from, this.to] = [names, troubles, from / 1000, to / 1000];
    this.tell(found, this.history.last(this.about.field, to));
    if (!globalThis.uPlot) return; // it did not come: the figures are in words and in the table
    const data = [times.map((each) => each / 1000), ...lines];
    const form = `${names}`;
    if (this.plot !== null && (anew || this.form !== form)) {
      this.plot.destroy();
      this.plot = null;
    }
    const width = this.area.clientWidth;
    if (this.plot === null) {
      this.form = form;
      this.plot = new uPlot(this.options(width), data, this.area);
      return;
    }
    if (this.plot.width !== width) this.plot.setSize({ width, height: HEIGHT });
    this.plot.setData(data);
  }

  tell(found, last) {
    const { title, unit, told, of } = this.about;
    const now = last.filter((each) => each !== null);
    setText(this.value, now.length ? told(of(now)) : "not known now");
    const known = found.filter((each) => each !== null);
    const bounds = `lowest ${told(Math.min(...known.map((each) => each.lowest)))}, highest ${told(Math.max(...known.map((each) => each.highest)))}`;
    this.area.setAttribute("aria-label", `${title}, ${unit}, from ${clock(1000 * this.from)} to ${clock(1000 * this.to)}: now ${this.value.textContent}, ${bounds}`);
    this.bounds = bounds;
    if (!this.pointed) setText(this.readout, bounds);
    this.table.show(this.names.map((name, at) => [name, found[at] === null ? [name, "–", "–", "–"] : [
      name, told(last[at]), told(found[at].lowest), told(found[at].highest),
    ]]));
  }

  options(width) {
    const style = getComputedStyle(this.area);
    const colour = (name) => style.getPropertyValue(name).trim();
    const { told, incrs } = this.about;
    const axis = { stroke: colour("--faint"), font: "12px system-ui, sans-serif", grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false } };
    return {
      width, height: HEIGHT, padding: [8, 20, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: "hour" }, drag: { x: false, y: false }, y: false, points: { size: 7 } },
      scales: { x: { range: () => [this.from, this.to] }, y: { range: (plot, low, high) => [0, high > 0 ? 1.08 * high : 10] } },
      axes: [
        { ...axis, space: 64, size: 26, incrs: CLOCK, values: (plot, splits, at, space, step) => splits.map((each) => clock(1000 * each, step < 60)) },
        { ...axis, space: 32, gap: 6, ...(incrs && { incrs }), size: 62, // the same for all, so that the same time is at the same place
          values: (plot, splits) => splits.map((each) => told(each)) },
      ],
      series: [{}, ...this.names.map((name, at) => ({
        stroke: colour(`--line-${at % COLOURS}`), width: 2, dash: at < COLOURS ? [] : [6, 3], spanGaps: false,
        points: { show: true, size: 5, width: 0, fill: colour(`--line-${at % COLOURS}`), filter: alone },
      }))],
      hooks: { drawClear: [(plot) => this.shade(plot, colour)], setCursor: [(plot) => this.point(plot)] },
    };
  }

  // Behind the lines: when no broker answered, and when instances were away.
  shade(plot, colour) {
    const { ctx, bbox } = plot;
    const band = ([from, to], fill) => {
      const [left, right] = [from, to].map((each) => Math.min(bbox.left + bbox.width, Math.max(bbox.left, plot.valToPos(each / 1000, "x", true))));
      ctx.fillStyle = fill;
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
    };
    ctx.save();
    for (const { spans } of this.troubles.away) for (const each of spans) band(each, colour("--away"));
    for (const each of this.troubles.outages) band(each, colour("--outage"));
    ctx.restore();
  }

  // The figures where the pointer is.
  point(plot) {
    const at = plot.cursor.left >= 0 ? plot.cursor.idx : null;
    this.pointed = at !== null && at !== undefined;
    if (!this.pointed) return setText(this.readout, this.bounds);
    const values = this.names.map((name, number) => {
      const value = plot.data[number + 1][at];
      return `${this.names.length > 1 ? `${name} ` : ""}${value === null || value === undefined ? "no figure" : this.about.told(value)}`;
    });
    return setText(this.readout, `${day(1000 * plot.data[0][at])}: ${values.join(" · ")}`);
  }
}

// A figure between two gaps is a point, as no line leads to it.
function alone(plot, series) {
  const line = plot.data[series];
  const known = (at) => line[at] !== null && line[at] !== undefined;
  return line.flatMap((value, at) => (known(at) && !known(at - 1) && !known(at + 1) ? [at] : []));
}
