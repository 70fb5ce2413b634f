// The page: its views, and what each event of the instances changes in them.

import { byId, setText } from "./dom.js";
import { Graph } from "./graph.js";
import { groupsOf, nodesOf, tasksOf } from "./model.js";
import { produceForm } from "./produce.js";
import { askJson, Events } from "./server.js";
import { Stores } from "./stores.js";
import { Errors, mood, Tasks } from "./tables.js";

const VIEWS = ["topology", "tasks", "stores", "errors", "produce"];

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

function told(words, mood) {
  setText(byId("connection"), words);
  byId("connection").className = mood;
}

async function main() {
  view();
  addEventListener("hashchange", view);
  const graph = new Graph(await askJson("console/graph"), (node) => events.tap(node));
  const [tasks, errors] = [new Tasks(), new Errors()];
  let before = new Map();
  let storesKnown = false;
  const events = new Events((instances) => {
    if (!instances.length) return told("no instance answers", "bad");
    const nodes = nodesOf(instances);
    before = tasksOf(instances, before);
    setText(byId("application"), instances[0].applicationId);
    const state = instances.find((each) => each.state !== "RUNNING")?.state ?? "RUNNING";
    setText(byId("state"), state);
    byId("state").className = `badge ${mood(state)}`;
    graph.show(nodes, groupsOf(before), instances.map((each) => each.figures));
    tasks.show(instances, before);
    errors.show(instances, [...before.values()].reduce((sum, each) => sum + (each.figures?.dropped ?? 0), 0));
    if (!storesKnown && state === "RUNNING") {
      storesKnown = true;
      askJson("console/stores").then((document) => new Stores(document.stores), () => { storesKnown = false; });
    }
    return undefined;
  }, told);
  const { topics } = await askJson("console/topics");
  if (topics?.length) {
    document.querySelector('nav a[href="#produce"]').hidden = false;
    produceForm(topics);
  }
}

main().catch((error) => told(error.message, "bad"));
