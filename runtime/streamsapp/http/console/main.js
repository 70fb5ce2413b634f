// The page: its views, and what each event of the instances changes in them.

import { Charts } from "./charts.js";
import { byId, setText } from "./dom.js";
import { Graph } from "./graph.js";
import { groupsOf, nodesOf, tasksOf } from "./model.js";
import { produceForm } from "./produce.js";
import { askJson, Events } from "./server.js";
import { Stores } from "./stores.js";
import { Errors, mood, Tasks } from "./tables.js";

const VIEWS = ["topology", "hour", "tasks", "stores", "errors", "produce"];

function view() {
  const chosen = location.hash.slice(1) || VIEWS[0];
  if (!VIEWS.includes(chosen)) return; // the way to the content
  for (const each of VIEWS) {
    byId(each).hidden = each !== chosen;
    const link = document.querySelector(`nav a[href="#${each}"]`);
    if (each === chosen) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

// What is shown is of the past once the stream is lost: the page is grey, and claims nothing.
function told(words, mood) {
  setText(byId("connection"), words);
  byId("connection").className = mood;
  const lost = mood === "bad";
  document.body.classList.toggle("lost", lost);
  if (!lost) return;
  setText(byId("state"), "not known");
  byId("state").className = "badge bad";
}

// What stays the same until an instance starts again, perhaps with another topology: asked for at each connection.
class Application {
  constructor(tap) {
    this.tap = tap;
    this.known = {};
    this.graph = null;
  }

  async load() {
    await Promise.all([
      this.changed("graph", (graph) => { this.graph = new Graph(graph, this.tap); }),
      this.changed("stores", ({ stores }) => new Stores(stores)),
      this.changed("topics", ({ topics }) => {
        document.querySelector('nav a[href="#produce"]').hidden = !topics.length;
        if (topics.length) produceForm(topics);
      }),
    ]);
  }

  async changed(part, show) {
    const found = await askJson(`console/${part}`);
    const text = JSON.stringify(found);
    if (this.known[part] === text) return;
    this.known[part] = text;
    show(found);
  }
}

function main() {
  view();
  addEventListener("hashchange", view);
  const application = new Application((node) => events.about(node === null ? {} : { tap: node }));
  const [tasks, errors, charts] = [new Tasks(), new Errors(), new Charts(byId("hour"))];
  let before = new Map();
  let shownState = null;
  let drawn = () => undefined; // shows the last figures in the graph, which may come after them
  const events = new Events(({ instances, failures, history }, first) => {
    if (history) charts.take(history);
    errors.ended(failures ?? []);
    if (!instances.length) {
      errors.unknown();
      return told("no instance answers", "bad");
    }
    before = tasksOf(instances, before);
    setText(byId("application"), instances[0].applicationId);
    const state = instances.find((each) => each.state !== "RUNNING")?.state ?? "RUNNING";
    setText(byId("state"), state);
    byId("state").className = `badge ${mood(state)}`;
    const groups = groupsOf(before);
    drawn = () => application.graph?.show(nodesOf(instances), groups, instances.map((each) => each.figures));
    if (first || state !== shownState) application.load().then(() => drawn(), (error) => told(error.message, "bad"));
    shownState = state;
    drawn();
    tasks.show(instances, before);
    errors.show(instances, [...before.values()].reduce((sum, each) => sum + (each.figures?.dropped ?? 0), 0));
    return undefined;
  }, (words, mood) => {
    told(words, mood);
    if (mood === "bad") errors.unknown();
  });
}

main();
