// The last routing decisions, with filter and explanations, and the explanation of a statement.

import { count, make, replicas, say, set, several, span } from "./dom.js";

const byId = (id) => document.getElementById(id);

/** Newest first; each has its element, once it was shown. */
let decisions = [];
let waiting = [];
let most = 100;
let paused = false;
let servers = [];

/** Takes in new decisions. */
export function showDecisions(traffic) {
  most = traffic.most;
  waiting = [...traffic.decisions, ...waiting].slice(0, Math.max(most, 1));
  if (!paused) take();
  else tell();
}

/** Takes over the servers' names, for their letters. */
export function knowServers(overview) {
  servers = overview.servers.map((server) => server.name);
}

/** Forgets everything: another life of the sidecar counts anew. */
export function forgetDecisions() {
  decisions = [];
  waiting = [];
}

function take() {
  const all = [...waiting, ...decisions];
  waiting = [];
  // what someone reads stays, however many come
  decisions = all.filter((decision, place) => place < most || decision.element?.open);
  options("filter-class", decisions.map((decision) => decision.class));
  options("filter-outcome", decisions.map((decision) => decision.outcome));
  filter();
}

function options(id, values) {
  const select = byId(id);
  const known = [...select.options].map((option) => option.value);
  for (const value of new Set(values)) if (!known.includes(value)) select.append(make("option", { value }, value));
}

function wanted(decision) {
  const [text, kind, outcome] = ["filter-text", "filter-class", "filter-outcome"].map((id) => byId(id).value.trim());
  if (kind && decision.class !== kind) return false;
  if (outcome && decision.outcome !== outcome) return false;
  if (byId("filter-hard").checked && !decision.failed && decision.attempts < 2) return false;
  const partition = decision.table === null ? "" : `${decision.table}/${decision.partition}`;
  const met = decision.met.map((one) => `${one.host} ${one.what}`);
  const words = [partition, decision.servedBy, decision.reason, decision.requestId, decision.outcome, decision.class, ...met];
  return words.some((word) => word && word.toLowerCase().includes(text.toLowerCase()));
}

function filter() {
  const shown = decisions.filter((decision) => wanted(decision) || decision.element?.open);
  const parent = byId("decisions");
  const elements = shown.map((decision) => (decision.element ??= create(decision)));
  const keep = new Set(elements);
  [...parent.children].filter((child) => !keep.has(child)).forEach((child) => child.remove());
  let place = parent.firstElementChild;
  for (const element of elements) {
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
  }
  set(byId("none"), "hidden", decisions.length > 0);
  tell(shown.length);
}

function tell(shown = byId("decisions").children.length) {
  const held = paused && waiting.length ? `, ${waiting.length} more wait` : "";
  say(byId("count"), `${shown} of ${decisions.length}${held}`);
}

function create(decision) {
  const partition = decision.table === null ? "–" : `${decision.table}/${decision.partition}`;
  const time = new Date(decision.atMs).toLocaleTimeString("en-GB");
  const cell = (text, kind, title) => make("span", { class: kind ?? null, title: title ?? null }, text);
  const number = (text, label) => make("span", { class: "number", "data-label": label }, text);
  const summary = make(
    "summary", { class: "decision" },
    cell(time), cell(decision.class), cell(partition, "name"), cell(decision.servedBy ?? "the sidecar", "name"),
    cell(decision.reason, "name", decision.because), number(count(decision.offsetLag), "lag"), number(String(decision.attempts || 1), "tries"),
    number(span(decision.durationMs), "took"), cell(decision.outcome, `badge ${decision.failed ? "dead" : decision.outcome === "ok" ? "live" : "starting"}`),
  );
  const details = make("details", { class: decision.failed ? "failed" : null }, summary);
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(explanation(decision));
    if (!details.open) filter();
  });
  return details;
}

function explanation(decision) {
  const body = make("div", { class: "explanation" });
  const served = decision.servedBy === null ? `The sidecar answered ${decision.status} itself (${decision.outcome}).` : `${decision.servedBy} answered ${decision.status} after ${span(decision.durationMs)}.`;
  body.append(make("p", {}, served, " ", make("code", {}, decision.reason), `: ${decision.because}.`));
  if (decision.bounds) {
    const { level, maxOffsetLag, maxStalenessMs, token } = decision.bounds;
    const bounds = [`level ${level}`];
    if (maxOffsetLag !== null) bounds.push(`at most ${several(maxOffsetLag, "record")} behind`);
    if (maxStalenessMs !== null) bounds.push(`at most ${span(maxStalenessMs)} old`);
    if (token) bounds.push("as new as its token");
    if (decision.waitedMs !== null) bounds.push(`waited ${span(decision.waitedMs)}`);
    body.append(make("p", {}, `Bounds: ${bounds.join(", ")}.`));
  }
  if (decision.met.length) {
    const met = decision.met.map((one) => make("li", {}, `${one.host}: `, make("code", {}, one.what)));
    body.append(make("p", {}, "Asked before without success:"), make("ol", {}, ...met));
  }
  if (decision.replicas.length) body.append(replicas(decision.replicas, servers, decision.servedBy));
  body.append(make("p", { class: "quiet" }, `Request ${decision.requestId} from ${decision.client}.`));
  return body;
}

async function explain(event) {
  event.preventDefault();
  const place = byId("explanation");
  try {
    const response = await fetch("/explain", { method: "POST", body: byId("statement").value });
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.message);
    place.replaceChildren(...explained(answer));
  } catch (error) {
    place.replaceChildren(make("p", { class: "trouble" }, `Cannot be explained: ${error.message}`));
  }
}

function explained(answer) {
  if (!answer.routed) {
    const order = answer.servers.length ? ` Asked in this order: ${answer.servers.join(", ")}.` : "";
    return [make("p", {}, `Class ${answer.class}: left to the servers’ own routing, `, make("code", {}, answer.reason), `: ${answer.because}.${order}`)];
  }
  const rejected = answer.rejected.map((replica) => ({ ...replica, rejected: true }));
  const then = answer.thenNative ? " Then the servers route it." : "";
  return [
    make("p", {}, `Class ${answer.class}: table ${answer.table}, partition ${answer.partition} of ${answer.partitions}, level ${answer.level}.${then}`),
    replicas([...answer.candidates, ...rejected], servers, answer.candidates[0]?.host),
  ];
}

byId("filter").addEventListener("input", filter);
byId("filter").addEventListener("submit", (event) => event.preventDefault());
byId("explain").addEventListener("submit", explain);
byId("pause").addEventListener("click", () => {
  paused = !paused;
  set(byId("pause"), "aria-pressed", String(paused));
  say(byId("pause"), paused ? "Go on" : "Pause");
  if (!paused) take();
});
