// One application: its facts, its tables, and what its viewer may order.

import { Charts } from "./charts.js";
import { byId, element, setText, Table } from "./dom.js";
import { askJson } from "./server.js";
import { Timeline } from "./timeline.js";

export class Application {
  constructor() {
    this.tables = new Map();
    this.charts = new Charts(byId("hour"));
    this.timeline = new Timeline(byId("part-timeline"));
    for (const button of document.querySelectorAll("button[data-order]")) {
      button.addEventListener("click", () => this.order(button.dataset.order));
    }
    byId("restart-pod").addEventListener("submit", (event) => {
      event.preventDefault();
      this.order("restartPod", { uid: byId("pod").value });
    });
  }

  clear() {
    this.page = null;
    this.tables.clear();
    byId("tables").replaceChildren();
    byId("parts").replaceChildren();
    this.charts.clear();
    this.timeline.show([]);
    byId("facts").replaceChildren();
    byId("notes").replaceChildren();
    this.allow([]);
    this.tell("", "");
  }

  show(page, history) {
    if (!this.page) {
      this.link(byId("part-hour"), "Last hour");
      this.toTimeline = this.link(byId("part-timeline"), "Rollout by time");
    }
    this.page = page;
    if (history) this.charts.take(history);
    this.timeline.show(page.timeline);
    this.toTimeline.hidden = byId("part-timeline").hidden;
    setText(byId("where"), page.name);
    setText(byId("state"), page.state.value);
    byId("state").className = `badge ${page.state.class}`;
    setText(byId("own-console"), page.console);
    byId("notes").replaceChildren(...page.notes.map((each) => element("p", { class: "warn" }, each)));
    byId("facts").replaceChildren(...page.facts.flatMap(([name, fact]) => [element("dt", {}, name), element("dd", {}, fact)]));
    this.allow(page.requests);
    this.choose(page.pods);
    for (const table of page.tables) this.part(table);
  }

  // A table that stays where it is while its columns do.
  part(document) {
    const columns = JSON.stringify(document.columns);
    let part = this.tables.get(document.name);
    if (!part) {
      const note = element("p");
      const table = element("table");
      const id = `part-${document.name}`;
      const section = element("section", { id, "aria-label": document.title },
        element("h2", {}, document.title), note, element("div", { class: "wide" }, table));
      byId("tables").append(section);
      this.link(section, document.title);
      section.querySelector("h2").tabIndex = -1;
      part = { note, table, columns: null };
      this.tables.set(document.name, part);
    }
    if (part.columns !== columns) {
      part.columns = columns;
      part.shown = new Table(part.table, document.columns);
    }
    setText(part.note, document.note);
    part.table.hidden = !document.rows.length;
    part.shown.show(document.rows);
  }

  link(section, title) {
    const link = element("a", { href: `#${section.id}` }, title);
    link.addEventListener("click", (event) => {
      event.preventDefault(); // the address says which application it is
      section.scrollIntoView();
      section.querySelector("h2").focus();
    });
    byId("parts").append(link);
    return link;
  }

  allow(requests) {
    for (const button of document.querySelectorAll("button[data-order]")) button.hidden = !requests.includes(button.dataset.order);
    byId("restart-pod").hidden = !requests.includes("restartPod");
    byId("requests").hidden = !requests.length;
  }

  choose(pods) {
    const known = JSON.stringify(pods);
    if (this.pods === known) return;
    this.pods = known;
    byId("pod").replaceChildren(...pods.map((pod) => element("option", { value: pod.uid }, pod.name)));
  }

  async order(order, more = {}) {
    const { namespace, name } = this.page;
    this.tell("…", "");
    try {
      const query = new URLSearchParams({ namespace, app: name, order, ...more });
      const answer = await askJson(`console/order?${query}`, { method: "POST" });
      this.tell(answer.told ?? answer.error, answer.told ? "" : "bad");
    } catch (error) {
      this.tell(error.message, "bad");
    }
  }

  tell(words, mood) {
    setText(byId("told"), words);
    byId("told").className = mood;
  }
}
