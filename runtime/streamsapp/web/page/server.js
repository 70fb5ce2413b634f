// Asks the server: with the token, once a user or the address gave one, which stays in this module's memory.

import { byId } from "./dom.js";
import { parsed } from "./values.js";

let token = tokenOfAddress();
let asking = null;
const LONGEST_PAUSE = 10_000;

export class Refused extends Error {}

// `kubectl streamsapp console` gives it behind the #, which is sent nowhere; it does not stay in the address.
function tokenOfAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given !== null) history.replaceState(null, "", location.pathname);
  return given;
}

// An answer, whatever its status; a token that is missing or wrong is asked for.
export async function ask(path, options = {}) {
  for (;;) {
    const shown = token;
    const headers = shown === null ? {} : { Authorization: `Bearer ${shown}` };
    const answer = await fetch(`../${path}`, { ...options, headers, cache: "no-store", redirect: "error" });
    if (answer.status !== 401) return answer;
    if (token === shown) await askForToken(); // another one was given meanwhile: it may do
  }
}

export async function askJson(path, options = {}) {
  const answer = await ask(path, options);
  const text = await answer.text();
  let document;
  try {
    document = parsed(text);
  } catch {
    throw new Refused(`the server answered ${answer.status}, and no JSON`);
  }
  if (!answer.ok && answer.status !== 404) throw new Refused(document.error ?? `the server answered ${answer.status}`);
  return document;
}

function askForToken() {
  asking ??= new Promise((resolve) => {
    const dialog = byId("token-dialog");
    byId("token").value = "";
    dialog.addEventListener("close", () => {
      token = byId("token").value;
      byId("token").value = "";
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

// Splits a stream of server-sent events into the data of each. Pure.
export class EventParser {
  constructor() {
    this.rest = "";
  }

  take(chunk) {
    const events = (this.rest + chunk).split("\n\n");
    this.rest = events.pop();
    return events.filter((each) => each.startsWith("data: ")).map((each) => each.slice(6));
  }
}

// The events of the server, for as long as the page is seen; a connection that is lost is made again.
export class Events {
  // `take` is given the document of each event, and whether it is the first of a connection.
  constructor(take, told, query = {}) {
    this.take = take;
    this.told = told;
    this.query = query;
    this.pause = 500;
    this.abort = null;
    this.timer = null;
    document.addEventListener("visibilitychange", () => this.restart());
    this.restart();
  }

  // Begins anew with what the events shall be about.
  about(query) {
    this.query = query;
    this.restart();
  }

  restart() {
    clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = null;
    if (document.hidden) this.told("paused", "warn");
    else this.run(this.abort = new AbortController());
  }

  async run(abort) {
    let why = "the connection is lost";
    try {
      const answer = await ask(`console/events?${new URLSearchParams(this.query)}`, { signal: abort.signal });
      if (answer.ok) await this.read(answer.body.pipeThrough(new TextDecoderStream()).getReader());
      else why = (await answer.json()).error;
    } catch {
      // reported below
    }
    if (this.abort !== abort) return;
    this.told(`${why}; trying again`, "bad");
    this.timer = setTimeout(() => this.restart(), this.pause);
    this.pause = Math.min(2 * this.pause, LONGEST_PAUSE);
  }

  async read(reader) {
    const parser = new EventParser();
    let first = true;
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      for (const data of parser.take(value)) {
        this.pause = 500;
        this.told("live", "good");
        try {
          this.take(JSON.parse(data), first);
        } catch (error) {
          reportError(error); // a fault of the page; the connection is well
        }
        first = false;
      }
    }
  }
}
