// The form that writes a test record; only `streamsapp local` has it, whose broker is the user's own.

import { byId, element, setText } from "./dom.js";
import { askJson } from "./server.js";

export function produceForm(topics) {
  const form = byId("produce-form");
  const line = element("textarea", { name: "line", spellcheck: "false", required: "" });
  const fit = () => { line.value = topics.find((each) => each.name === select.value).sample; };
  const select = element("select", { name: "topic", onchange: fit },
    ...topics.map((each) => element("option", { value: each.name }, `${each.name} (${each.key} → ${each.value})`)));
  form.replaceChildren(
    element("label", {}, "Topic", select),
    element("label", { class: "wide" }, "Record, as `streamsapp produce` takes it", line),
    element("button", {}, "Write it"),
  );
  fit();
  form.onsubmit = async (event) => {
    event.preventDefault();
    setText(byId("produced"), "writing…");
    try {
      const query = new URLSearchParams({ topic: select.value, line: line.value });
      setText(byId("produced"), (await askJson(`console/produce?${query}`, { method: "POST" })).told);
    } catch (error) {
      setText(byId("produced"), error.message);
    }
  };
}
