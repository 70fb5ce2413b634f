// The page: all applications, or one of them, as the address says; and what each event changes.

import { Application } from "./application.js";
import { byId, element, setText, Table } from "./dom.js";
import { askJson, Events } from "./server.js";

// Where the page is: {namespace, app}; all applications where the address says nothing that is known.
export function place(hash) {
  let view, parts;
  try {
    [view, ...parts] = hash.replace(/^#/, "").split("/").map(decodeURIComponent);
  } catch {
    return { namespace: "", app: "" };
  }
  if (view === "app" && parts.length === 2) return { namespace: parts[0], app: parts[1] };
  return { namespace: view === "apps" ? parts[0] ?? "" : "", app: "" };
}

class Applications {
  // `table` is that of an event: {columns, rows}.
  begin(table, leftOut) {
    this.table = new Table(byId("applications"), table.columns);
    this.rows = new Map(table.rows);
    this.leftOut = leftOut;
    this.show();
  }

  change([key, cells]) {
    if (cells === null) this.rows.delete(key);
    else this.rows.set(key, cells);
    this.show();
  }

  show() {
    const rows = [...this.rows].sort(([one], [other]) => one.localeCompare(other));
    this.table.show(rows);
    const more = this.leftOut ? `${this.leftOut} more are not shown; choose a namespace.` : "";
    setText(byId("apps-told"), rows.length ? more : "There is no application here.");
  }
}

function told(words, mood) {
  setText(byId("connection"), words);
  byId("connection").className = mood;
  document.body.classList.toggle("lost", mood === "bad"); // what is shown is of the past
}

function fault(words) {
  setText(byId("fault"), words);
}

async function scope() {
  const { namespaces, everywhere } = await askJson("console/scope");
  byId("namespaces").replaceChildren(...namespaces.map((each) => element("option", { value: each })));
  if (location.hash === "" && namespaces.length && (namespaces.length === 1 || !everywhere)) {
    history.replaceState(null, "", `#apps/${encodeURIComponent(namespaces[0])}`);
  }
}

async function main() {
  const applications = new Applications();
  const application = new Application();
  await scope().catch((error) => told(error.message, "bad")); // the events tell more, and try again
  let shown = null;
  const events = new Events((document) => {
    if (document.fault) return fault(document.fault);
    fault("");
    if (document.table) applications.begin(document.table, document.leftOut);
    if (document.row) applications.change(document.row);
    if (document.page) application.show(document.page, document.history);
    return undefined;
  }, told, place(location.hash));

  const go = () => {
    if (location.hash === "#content") return; // the way to the content
    const { namespace, app } = place(location.hash);
    const address = `${namespace}/${app}`;
    byId("apps").hidden = app !== "";
    byId("app").hidden = app === "";
    byId("namespace").value = namespace;
    setText(byId("where"), app);
    setText(byId("state"), "");
    fault("");
    if (shown !== null && shown !== address) {
      application.clear();
      events.about({ namespace, app });
    }
    shown = address;
  };
  addEventListener("hashchange", go);
  byId("scope").addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = `#apps/${encodeURIComponent(byId("namespace").value.trim())}`;
  });
  go();
}

main().catch((error) => told(error.message, "bad"));
