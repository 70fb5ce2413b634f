// The store browser: a key, or a range of keys and times, by the interactive queries that everybody may make.

import { byId, element, setText, Table } from "./dom.js";
import { askJson } from "./server.js";
import { shown, time } from "./values.js";

const LIMIT = 100;

export class Stores {
  constructor(stores) {
    this.stores = stores;
    this.asked = null; // the question whose answer is to be shown
    this.form = byId("store-form");
    if (!stores.length) {
      this.form.replaceChildren(element("p", { class: "faint" }, "The topology has no stores, or the instance is still starting."));
      return;
    }
    this.fields();
    this.form.onsubmit = (event) => {
      event.preventDefault();
      this.find("");
    };
    byId("more").onclick = () => this.find(this.next);
  }

  fields() {
    const options = this.stores.map((store) => element("option", { value: store.name }, `${store.name} (${store.key} → ${store.value})`));
    const input = (name, title, type = "text") => element("label", {}, title, element("input", { name, type, autocomplete: "off" }));
    this.times = [input("fromTime", "Time from, ISO 8601 or ms"), input("toTime", "Time to")];
    const select = element("select", { name: "store", onchange: () => this.fit() }, ...options);
    this.form.replaceChildren(
      element("label", {}, "Store", select), input("key", "Key"), input("from", "or keys from"), input("to", "to"), ...this.times,
      element("label", { class: "check" }, element("input", { type: "checkbox", name: "bytes" }), "as bytes (base64)"),
      element("button", {}, "Find"),
    );
    this.fit();
  }

  get store() {
    return this.stores.find((each) => each.name === this.form.elements.store.value);
  }

  fit() {
    const timed = this.store.kind !== "keys";
    for (const each of this.times) each.hidden = !timed;
    this.table = new Table(byId("entries"), [
      ["Key", "text"], ...(timed ? [["From"], ["To"]] : []), ["Value", "text"], ["Timestamp"],
    ]);
    this.asked = null;
    byId("more").hidden = true;
    setText(byId("store-told"), "");
  }

  async find(next) {
    const told = byId("store-told");
    const question = this.asked = {};
    setText(told, "asking…");
    try {
      const answer = await askJson(this.path(next));
      if (question === this.asked) this.show(answer, next);
    } catch (error) {
      if (question !== this.asked) return;
      setText(told, error.message);
      this.table.show([]);
      byId("more").hidden = true;
    }
  }

  path(next) {
    const value = (name) => this.form.elements[name].value.trim();
    const timed = this.store.kind !== "keys";
    const query = new URLSearchParams({ proxy: "1" });
    if (this.form.elements.bytes.checked) query.set("format", "bytes");
    const set = (name, given) => given !== "" && query.set(name, given);
    const base = `state/${encodeURIComponent(this.store.name)}`;
    const key = value("key");
    if (key !== "" && !timed) return `${base}/${encodeURIComponent(key)}?${query}`;
    query.set("limit", LIMIT);
    set("from", key || value("from"));
    set("to", key || value("to"));
    if (timed) {
      set("fromTime", milliseconds(value("fromTime")));
      set("toTime", milliseconds(value("toTime")));
    }
    if (next !== "") query.set(timed ? "position" : "from", next);
    return `${base}?${query}`;
  }

  show(document, next) {
    const entries = document.entries ?? (document.error || document.value === null ? [] : [document]);
    this.next = document.next ?? null;
    byId("more").hidden = this.next === null;
    if (this.next !== null && typeof this.next !== "string") this.next = shown(this.next);
    const where = document.searched ? `; partitions searched: ${document.searched.join(", ")}` : "";
    setText(byId("store-told"), document.error
      ?? `${entries.length} ${entries.length === 1 ? "entry" : "entries"}${next === "" ? "" : " more"}${where}${this.next === null ? "" : "; there are more"}`);
    this.table.show(entries.map((entry, at) => [`${at}`, [
      shown(entry.key),
      ...(this.store.kind === "keys" ? [] : [stamp(entry.start ?? entry.timestamp), stamp(entry.end ?? entry.validTo)]),
      shown(entry.value), stamp(entry.timestamp),
    ]]));
  }
}

function stamp(ms) {
  return ms === undefined || ms === null ? "" : time(Number(ms));
}

// Milliseconds since the epoch of a time that is given as such or as ISO 8601.
export function milliseconds(given) {
  if (given === "" || /^\d+$/.test(given)) return given;
  const parsed = Date.parse(/Z$|[+-]\d\d:\d\d$/.test(given) || !given.includes("T") ? given : `${given}Z`);
  if (Number.isNaN(parsed)) throw new Error(`${given} is no time; write milliseconds, or 2026-01-31T12:00:00Z`);
  return String(parsed);
}
