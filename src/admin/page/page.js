// The status page: listens to /events and shows what comes.

import { remember } from "./page/cluster.js";
import { forgetDecisions, knowServers, showDecisions } from "./page/decisions.js";
import { say, set, span } from "./page/dom.js";
import { showTraffic } from "./page/traffic.js";

/** Silence after which what is shown is called old. */
const OLD_MS = 3000;

let last = null;
const began = performance.now();

function listen() {
  const events = new EventSource("/events");
  events.addEventListener("open", forgetDecisions); // a stream begins with all that are kept
  events.addEventListener("overview", (event) => {
    const overview = JSON.parse(event.data);
    last = performance.now();
    knowServers(overview);
    remember(overview);
    tellAge();
  });
  events.addEventListener("traffic", (event) => {
    const traffic = JSON.parse(event.data);
    showTraffic(traffic);
    showDecisions(traffic);
  });
  events.addEventListener("error", () => {
    // a browser gives up after an answer that is no stream
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
  });
}

function tellAge() {
  const silence = performance.now() - (last ?? began);
  const state = silence > OLD_MS ? "old" : last === null ? "connecting" : "live";
  set(document.getElementById("connection"), "class", `connection ${state}`);
  set(document.body, "class", state);
  const text = { live: "live", connecting: "connecting", old: "no news: what is shown is old" }[state];
  say(document.getElementById("connection-text"), text);
  say(document.getElementById("connection-age"), state === "old" ? `, for ${span(silence)}` : "");
}

setInterval(tellAge, 1000);
listen();
