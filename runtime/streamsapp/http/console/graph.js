// The topology as a graph: boxes that can be chosen, with figures that change in place.

import { byId, element, setText, Table } from "./dom.js";
import { duration, number, rate, time } from "./values.js";
import { Zoom } from "./zoom.js";

const SVG = "http://www.w3.org/2000/svg";

export class Graph {
  constructor(document, tap) {
    this.tap = tap;
    this.tapping = false;
    this.chosen = null;
    this.boxes = new Map();
    this.groups = new Table(byId("groups"), [
      ["Sub-topology"], ["Tasks", "number"], ["Processed", "number"], ["Lag", "number"], ["Buffered", "number"],
      ["Lateness, average", "number"], ["Lateness, highest", "number"], ["Dropped", "number"],
    ]);
    const drawing = this.drawn(document);
    this.zoom?.end();
    this.zoom = new Zoom(byId("graph"), drawing, document);
    this.panel();
  }

  drawn(graph) {
    const drawing = element("div", { class: "drawing" });
    drawing.style.width = `${graph.width}rem`;
    drawing.style.height = `${graph.height}rem`;
    drawing.append(lines(graph), ...graph.boxes.map((box) => this.box(box)));
    return drawing;
  }

  box(box) {
    const name = element("span", { class: "name" }, box.name);
    const about = element("span", { class: "about" }, box.about);
    const figures = element("span", { class: "figures" }, "");
    const isNode = box.kind !== "topic";
    const made = element(isNode ? "button" : "div", { class: `box ${box.kind}`, title: box.name }, name, about, figures);
    if (isNode) {
      made.type = "button";
      made.setAttribute("aria-pressed", "false");
      made.addEventListener("click", () => this.choose(box));
      this.boxes.set(box.name, { made, figures });
    }
    for (const [side, at] of [["left", box.x], ["top", box.y], ["width", box.width], ["height", box.height]]) made.style[side] = `${at}rem`;
    return made;
  }

  show(nodes, groups, taps) {
    for (const [name, { figures }] of this.boxes) {
      const node = nodes.get(name);
      setText(figures, node ? figuresOf(node).map((each) => each.join(" ")).join(" · ") : "");
    }
    this.groups.show([...groups].sort().map(([id, it]) => [id, [
      id, number(it.tasks), rate(it.rate), number(it.lag), number(it.buffered), duration(it.average),
      duration(it.highest), { value: number(it.dropped), class: it.dropped ? "warn" : "" },
    ]]));
    if (this.chosen === null) return;
    this.figures.show(nodes.has(this.chosen.name) ? figuresOf(nodes.get(this.chosen.name)).map(([name, value]) => [name, [name, value]]) : []);
    if (this.tapping) this.showRecords(taps);
  }

  choose(box) {
    if (this.tapping) this.switch(false);
    this.chosen = this.chosen?.name === box.name ? null : box;
    for (const [name, { made }] of this.boxes) made.setAttribute("aria-pressed", String(name === this.chosen?.name));
    this.panel();
  }

  panel() {
    const box = this.chosen;
    if (box === null) {
      byId("node").hidden = true;
      return;
    }
    const figures = element("table");
    const records = element("table");
    this.figures = new Table(figures, [["Figure"], ["Value", "number"]]);
    this.records = new Table(records, [["Time"], ["Task"], ["Key", "text"], ["Value", "text"]]);
    this.button = element("button", { type: "button", onclick: () => this.switch(!this.tapping) });
    this.status = element("p", { class: "faint", role: "status" });
    byId("node").hidden = false;
    byId("node").replaceChildren(
      element("h2", {}, box.name),
      element("p", { class: "faint" }, box.about),
      figures, this.button, this.status, element("div", { class: "wide" }, records),
    );
    this.label();
  }

  switch(on) {
    this.tapping = on;
    this.tap(on ? this.chosen.name : null);
    this.label();
  }

  label() {
    setText(this.button, this.tapping ? "Stop the tap" : "Show the last records");
    setText(this.status, this.tapping
      ? "A sample of the records that pass now, at most five a second of each task."
      : "Nothing is read from the records until you ask for it.");
  }

  showRecords(taps) {
    const records = taps.filter((each) => each.tapped.node === this.chosen.name).flatMap((each) => each.tapped.records);
    this.records.show(records.reverse().map((it) => [
      `${it.task} ${it.number}`, [time(it.timestamp), it.task, it.key, it.value],
    ]));
  }
}

function figuresOf(node) {
  const found = [["rate", rate(node.rate)]];
  if (node.queued !== null) found.push(["queue", number(node.queued)]);
  if (node.dropped) found.push(["dropped", number(node.dropped)]);
  return found;
}

function lines(graph) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${graph.width} ${graph.height}`);
  svg.setAttribute("aria-hidden", "true");
  const head = shape("marker", { id: "head", viewBox: "0 0 6 6", refX: 6, refY: 3, markerWidth: 6, markerHeight: 6, orient: "auto" });
  head.append(shape("path", { d: "M0 0L6 3L0 6Z" }));
  svg.append(head, ...graph.lines.map((points) => shape("path", { d: curve(points), "marker-end": "url(#head)" })));
  return svg;
}

function shape(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// A line that leaves each of its corners upright.
export function curve(points) {
  let path = `M${points[0]}`;
  for (let at = 1; at < points.length; at += 1) {
    const [[fromX, fromY], [x, y]] = [points[at - 1], points[at]];
    const middle = (fromY + y) / 2;
    path += fromX === x ? `L${x} ${y}` : `C${fromX} ${middle} ${x} ${middle} ${x} ${y}`;
  }
  return path;
}
