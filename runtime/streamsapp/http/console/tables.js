// Instances, tasks, and the records that were not processed.

import { byId, element, setText, Table } from "./dom.js";
import { restored, snapshotAge } from "./model.js";
import { day, decoded, duration, number, rate, zone } from "./values.js";

export class Tasks {
  constructor() {
    this.instances = new Table(byId("instances"), [
      ["Instance"], ["State"], ["Ready"], ["Generation", "number"], ["Active", "number"], ["Replicas", "number"],
      ["Data path"],
    ]);
    this.tasks = new Table(byId("task-table"), [
      ["Task"], ["Instance"], ["Role"], ["State"], ["Processed", "number"], ["Input lag", "number"],
      ["Buffered", "number"], ["Lateness", "number"], ["Dropped", "number"], ["Changelog lag", "number"],
      ["Restored", "number"], ["Snapshot age", "number"],
    ]);
  }

  show(instances, tasks) {
    const notes = instances.flatMap((each) => [
      ...each.notes, ...each.outages.map((it) => `${it.name} ${it.address}: ${it.message}`), ...paused(each),
    ]);
    const known = [...new Set(notes)];
    if (this.notes !== String(known)) {
      this.notes = String(known);
      byId("notes").replaceChildren(...known.map((each) => element("p", { class: "warn" }, each)));
    }
    this.instances.show(instances.map((each) => [each.instance, [
      each.instance, { value: each.state, class: mood(each.state) }, each.ready ? "yes" : "no", each.generation,
      each.tasks.filter((task) => task.role === "active").length,
      each.tasks.filter((task) => task.role !== "active").length, each.dataPath ?? "",
    ]]));
    const sorted = [...tasks.values()].sort((one, other) => order(one.task.id, other.task.id) || one.key.localeCompare(other.key));
    this.tasks.show(sorted.map((each) => [each.key, row(each)]));
  }
}

export class Errors {
  constructor() {
    this.table = new Table(byId("record-errors"), [
      [`Time (${zone()})`], ["What became of it"], ["Node"], ["Record"], ["Task"], ["Why", "text"], ["Key", "text"], ["Value", "text"],
    ]);
    this.failures = new Map();
  }

  // The failures that ended instances, as their supervisor reports them while they are away; kept until the page goes.
  ended(failures) {
    for (const each of failures) this.failures.set(`${each.atMs} ${each.instance ?? ""}`, each);
  }

  // The number of processed records is not reported.
  unknown() {
    setText(byId("error-count"), this.failures.size ? number(this.failures.size) : "");
    setText(byId("errors-told"), "No instance answers: what became of the last records is not known.");
    this.fill([]);
  }

  show(instances, total) {
    const ended = this.failures.size;
    setText(byId("error-count"), total + ended ? number(total + ended) : "");
    setText(byId("errors-told"), total
      ? `${number(total)} records were not processed since their tasks started; these are the last of them, newest first, with the beginning of their bytes.`
      : `Every record was processed since the tasks started${ended ? "; the failures below ended an instance before" : ""}.`);
    this.fill(instances.flatMap((each) => each.figures.record_errors));
  }

  fill(record_errors) {
    const before = [...this.failures.values()].map((it) => ({
      at_ms: it.atMs, outcome: "ended", node: it.node, record: it.record, task: it.task, reason: it.message,
    }));
    const found = [...record_errors, ...before].sort((one, other) => other.at_ms - one.at_ms);
    const seen = new Map();
    this.table.show(found.map((it) => {
      const key = [it.at_ms, it.task, it.node, it.record].join(" ");
      seen.set(key, (seen.get(key) ?? 0) + 1);
      return [`${key} ${seen.get(key)}`, [
        day(it.at_ms), { value: OUTCOMES[it.outcome] ?? it.outcome, class: /fail|ended/.test(it.outcome) ? "bad" : "warn" },
        it.node, it.record || (it.outcome === "ended" ? "" : "a punctuator"), it.task, it.reason, ...[it.key, it.value].map((each) => (each === undefined ? "" : decoded(each))),
      ]];
    }));
  }
}

const OUTCOMES = {
  fail: "the task failed", continue: "dropped by the handler", dead_letter: "went to the dead letter topic",
  skipped: "skipped by rule", ended: "the instance ended",
};

function row({ task, instance, figures, rate: passed, now }) {
  const { lag, share } = task.stores.length ? restored(task) : { lag: undefined, share: null };
  const whole = share === null || share >= 1;
  return [
    task.id, instance, task.role, { value: task.state, class: mood(task.state) }, rate(passed), number(task.inputLag),
    number(figures?.buffered), duration(figures?.lateness?.average),
    { value: number(figures?.dropped), class: figures?.dropped ? "warn" : "" }, lag === undefined ? "no store" : number(lag),
    { value: task.stores.length ? (share === null ? "–" : `${Math.floor(100 * share)} %`) : "–", class: whole ? "" : "warn" },
    duration(snapshotAge(task, now)),
  ];
}

export function mood(state) {
  if (/RUNNING$/i.test(state) && !/^NOT/i.test(state)) return "good";
  return /ERROR|CLOSED|NOT_RUNNING/i.test(state) ? "bad" : "warn";
}

function order(one, other) {
  const [[group, partition], [otherGroup, otherPartition]] = [one, other].map((id) => id.split("_").map(Number));
  return group - otherGroup || partition - otherPartition;
}

// The sub-topologies of an instance that are paused while the others go on.
function paused({ instance, subTopologies }) {
  const those = (subTopologies ?? []).filter((each) => each.paused !== null);
  return those.map((each) => `${instance}: sub-topology ${each.id} is paused, ${each.paused.reason}; its input lag is ${number(each.inputLag)}`);
}
