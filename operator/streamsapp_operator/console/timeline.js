// A rollout as pods by time: for how long the worst task of each was predicted to stand still, and did.

import { element, setText } from "./dom.js";
import { clock, day, duration } from "./values.js";

export class Timeline {
  constructor(place) {
    this.place = place;
    this.rollouts = [];
    this.chosen = null; // the time at which it began; otherwise the newest
    this.choice = element("select", { onchange: () => { this.chosen = Number(this.choice.value) || null; this.draw(); } });
    this.note = element("p", { class: "faint" });
    this.rows = element("div", { class: "timeline", role: "list" });
    const key = (kind, words) => element("span", {}, element("span", { class: `bar ${kind}` }), words);
    this.key = element("p", { class: "key faint" }, key("predicted", "predicted"), key("observed", "observed"), key("observed longer", "observed, longer than predicted"), key("open", "under way"));
    place.replaceChildren(element("h2", { tabindex: "-1" }, "Rollout by time"), element("label", { class: "choice" }, "Rollout ", this.choice), this.note, this.rows, this.key);
    setInterval(() => this.draw(), 1000); // one that is under way goes on
  }

  show(rollouts) {
    this.rollouts = rollouts;
    this.place.hidden = !rollouts.some((each) => each.steps.length);
    const known = JSON.stringify(rollouts.map((each) => [each.revision, each.startedMs, each.phase]));
    if (this.known !== known) {
      this.known = known;
      this.choice.replaceChildren(...rollouts.map((each) => element("option", { value: String(each.startedMs) }, `${each.startedMs === null ? each.revision : day(each.startedMs)}, ${each.phase}`)));
      if (!rollouts.some((each) => each.startedMs === this.chosen)) this.chosen = null;
      this.choice.value = String(this.chosen ?? rollouts[0]?.startedMs);
    }
    this.draw();
  }

  draw() {
    if (this.place.hidden || !this.place.clientWidth) return;
    const rollout = this.rollouts.find((each) => each.startedMs === this.chosen) ?? this.rollouts[0];
    const steps = rollout.steps.filter((each) => each.startedMs !== null);
    const ends = steps.map((each) => each.startedMs + 1000 * Math.max(each.predicted ?? 0, each.observed ?? 0));
    const from = Math.min(rollout.startedMs ?? Infinity, ...steps.map((each) => each.startedMs));
    const to = Math.max(rollout.endedMs ?? Date.now(), from + 1000, ...ends);
    const under = rollout.endedMs === null;
    setText(this.note, `${clock(from, true)} to ${under ? "now" : clock(to, true)}, ${duration(to - from)}: ${rollout.phase}, revision ${rollout.revision}`);
    const pods = [...new Set(steps.map((each) => each.pod))];
    const drawn = JSON.stringify([this.place.clientWidth, rollout, from, under ? Math.round((to - from) / 1000) : to]);
    if (this.drawn === drawn) return;
    this.drawn = drawn;
    this.rows.replaceChildren(this.axis(from, to), ...pods.map((pod) => this.row(pod, rollout, from, to)));
  }

  axis(from, to) {
    const room = element("div", { class: "track axis", "aria-hidden": "true" });
    const parts = this.place.clientWidth < 600 ? 2 : 5;
    for (let at = 0; at <= parts; at += 1) {
      const tick = element("span", {}, clock(from + ((to - from) * at) / parts, true));
      tick.style.left = `${(100 * at) / parts}%`;
      room.append(tick);
    }
    return element("div", { class: "pod", role: "presentation" }, element("span", { class: "name" }), room, element("span"));
  }

  row(pod, rollout, from, to) {
    const steps = rollout.steps.filter((each) => each.pod === pod && each.startedMs !== null);
    const track = element("div", { class: "track", "aria-hidden": "true" });
    for (const step of steps) {
      const bar = (seconds, kind) => {
        const made = element("span", { class: `bar ${kind}`, title: `${pod}, ${clock(step.startedMs, true)}: ${duration(1000 * seconds)} ${kind}` });
        made.style.left = `${(100 * (step.startedMs - from)) / (to - from)}%`;
        made.style.width = `${(100 * 1000 * seconds) / (to - from)}%`;
        return made;
      };
      if (step.predicted !== null) track.append(bar(step.predicted, "predicted"));
      if (step.observed === null && step === rollout.steps.at(-1) && rollout.endedMs === null) track.append(bar((to - step.startedMs) / 1000, "open"));
      if (step.observed !== null) track.append(bar(step.observed, isLonger(step) ? "observed longer" : "observed"));
    }
    return element("div", { class: "pod", role: "listitem" }, element("span", { class: "name" }, pod), track,
      element("span", { class: "told" }, steps.map(inWords).join("; ")));
  }
}

const SLACK = 0.3; // as in the table
const SLACK_SECONDS = 0.05;

function isLonger(step) {
  return step.predicted !== null && step.observed > step.predicted * (1 + SLACK) + SLACK_SECONDS;
}

function inWords(step) {
  const gap = (seconds) => (seconds === null ? "not known" : duration(1000 * seconds));
  return `${clock(step.startedMs, true)}: predicted ${gap(step.predicted)}, ${step.observed === null ? "not over yet" : `observed ${gap(step.observed)}`}`;
}
