// Joins what several instances tell into what the page shows. Pure.

// The sums over the instances, by node.
export function nodesOf(instances) {
  const nodes = new Map();
  for (const instance of instances) {
    for (const [name, told] of Object.entries(instance.figures.nodes)) {
      const sum = nodes.get(name) ?? { rate: null, dropped: 0, queued: null };
      nodes.set(name, {
        rate: plus(sum.rate, told.rate),
        dropped: sum.dropped + told.dropped,
        queued: plus(sum.queued, told.queued),
      });
    }
  }
  return nodes;
}

function plus(one, other) {
  return one === null || other === null ? one ?? other : one + other;
}

// The tasks of all instances with the rate since `before`, what the same function gave for the event before.
export function tasksOf(instances, before) {
  const tasks = new Map();
  for (const instance of instances) {
    for (const task of instance.tasks) {
      const key = `${instance.instance} ${task.id} ${task.role}`;
      const figures = instance.figures.tasks[task.id];
      const now = instance.figures.now;
      const last = before.get(key);
      const passed = task.processedRecords === null || !last ? null : task.processedRecords - last.task.processedRecords;
      const rate = passed === null || passed < 0 || now <= last.now ? null : (1000 * passed) / (now - last.now);
      tasks.set(key, { key, instance: instance.instance, task, figures: task.role === "active" ? figures : undefined, now, rate });
    }
  }
  return tasks;
}

// The figures of each sub-topology, by its number.
export function groupsOf(tasks) {
  const groups = new Map();
  for (const { task, figures, rate } of tasks.values()) {
    if (!figures) continue;
    const id = task.id.split("_")[0];
    const sum = groups.get(id) ?? { tasks: 0, rate: null, lag: null, buffered: 0, dropped: 0, average: null, highest: null };
    sum.tasks += 1;
    sum.rate = plus(sum.rate, rate);
    sum.lag = plus(sum.lag, task.inputLag);
    sum.buffered += figures.buffered;
    sum.dropped += figures.dropped;
    if (figures.lateness) {
      sum.average = Math.max(sum.average ?? 0, figures.lateness.average);
      sum.highest = Math.max(sum.highest ?? 0, figures.lateness.highest);
    }
    groups.set(id, sum);
  }
  return groups;
}

// How far a replica or a task that is restored lags, and what share of its changelogs it has: {lag, share}.
export function restored(task) {
  let lag = 0, position = 0, end = 0;
  for (const store of task.stores) {
    if (store.lag === null) return { lag: null, share: null };
    lag += store.lag;
    position += store.position;
    end += store.endOffset;
  }
  return { lag, share: end > 0 ? Math.min(1, position / end) : 1 };
}

// The age of the oldest snapshot of a task's stores, in milliseconds; null if there is none.
export function snapshotAge(task, now) {
  const taken = task.stores.map((store) => store.snapshot?.confirmedAt ?? store.snapshot?.createdAt).filter(Boolean).map((each) => Date.parse(each));
  return taken.length ? Math.max(0, now - Math.min(...taken)) : null;
}
