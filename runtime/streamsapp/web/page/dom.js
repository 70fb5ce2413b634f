// Makes and changes elements. Everything that records and instances tell becomes text and nothing else.

export const LONGEST = 2000;

export function byId(id) {
  return document.getElementById(id);
}

// An element with properties and children; children that are no elements become text.
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "class") made.className = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : text(child))));
  return made;
}

export function text(value) {
  const told = value === null || value === undefined ? "–" : String(value);
  return told.length > LONGEST ? `${told.slice(0, LONGEST)}… (${told.length} characters)` : told;
}

// Changes a text only where it is another, so that nothing is drawn anew for nothing.
export function setText(node, value) {
  const told = text(value);
  if (node.textContent !== told) node.textContent = told;
}

// A table whose rows stay the same elements from one event to the next. Columns are [title, class].
export class Table {
  constructor(table, columns) {
    this.columns = columns;
    this.rows = new Map();
    const titles = columns.map(([title]) => element("th", { scope: "col", role: "columnheader" }, title));
    this.body = element("tbody", { role: "rowgroup" });
    table.setAttribute("role", "table"); // it stays one where a phone's width makes cards of its rows
    table.replaceChildren(element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...titles)), this.body);
  }

  // Rows are [key, cells]; a cell is a value or {value, class, title, href}.
  show(rows) {
    const shown = new Set();
    for (const [key, cells] of rows) {
      shown.add(key);
      let row = this.rows.get(key);
      if (!row) {
        row = element("tr", { role: "row" }, ...this.columns.map(([title]) => element("td", { role: "cell", "data-title": title })));
        this.rows.set(key, row);
      }
      cells.forEach((cell, at) => this.fill(row.children[at], cell, this.columns[at][1] ?? ""));
      if (this.body.children[shown.size - 1] !== row) this.body.insertBefore(row, this.body.children[shown.size - 1] ?? null);
    }
    for (const [key, row] of this.rows) {
      if (!shown.has(key)) {
        row.remove();
        this.rows.delete(key);
      }
    }
  }

  fill(td, cell, kind) {
    const told = cell !== null && typeof cell === "object" ? cell : { value: cell };
    const wanted = `${kind} ${told.class ?? ""}`.trim();
    if (td.className !== wanted) td.className = wanted;
    if (!told.title) td.removeAttribute("title");
    else if (td.title !== told.title) td.title = told.title;
    if (!told.href) return setText(td, told.value);
    if (td.firstElementChild?.getAttribute("href") !== told.href) td.replaceChildren(element("a", { href: told.href }));
    return setText(td.firstElementChild, told.value);
  }
}
