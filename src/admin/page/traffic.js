// Rates, failures and staleness of the last minutes.

import { count, draw, make, say, set, span } from "./dom.js";

const SECONDS = 300;
const [WIDTH, HEIGHT] = [300, 60];

const CHARTS = [
  { name: "Requests", unit: (value) => `${count(value)}/s`, of: (second) => second.requests },
  { name: "Failed", unit: (value) => `${count(value)}/s`, of: (second) => second.failed, bad: true },
  { name: "Asked again", unit: (value) => `${count(value)}/s`, of: (second) => second.again },
  { name: "Slowest pull query", unit: span, of: (second) => second.slowestMs },
  { name: "Largest lag served", unit: (value) => `${count(value)} records`, of: (second) => second.offsetLag },
  { name: "Oldest report used", unit: span, of: (second) => second.ageMs },
];

/** The sums by second. */
const seconds = new Map();

/** Takes in new sums and draws. */
export function showTraffic(traffic) {
  for (const second of traffic.seconds) seconds.set(second.at, second);
  const from = traffic.second - SECONDS;
  for (const at of seconds.keys()) if (at < from) seconds.delete(at);
  const parent = document.getElementById("charts");
  if (!parent.firstChild) parent.append(...CHARTS.map(create));
  CHARTS.forEach((chart, place) => update(parent.children[place], chart, from, traffic.second - 1));
}

function create(chart) {
  const picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  picture.append(draw("path", { class: "area" }), draw("path", { class: "line" }));
  return make("figure", { class: chart.bad ? "chart bad" : "chart" }, make("figcaption", {}, chart.name, make("strong")), picture, make("small", { class: "quiet" }));
}

function update(figure, chart, from, to) {
  const values = [];
  for (let at = from; at <= to; at += 1) values.push(seconds.has(at) ? chart.of(seconds.get(at)) : 0);
  const most = Math.max(...values);
  const scale = most > 0 ? (HEIGHT - 4) / most : 0;
  const step = WIDTH / Math.max(values.length - 1, 1);
  const points = values.map((value, place) => `${(place * step).toFixed(1)} ${(HEIGHT - 1 - value * scale).toFixed(1)}`);
  const line = `M${points.join("L")}`;
  const [area, stroke] = figure.querySelectorAll("path");
  set(stroke, "d", line);
  set(area, "d", `${line}L${WIDTH} ${HEIGHT}L0 ${HEIGHT}Z`);
  const now = values.at(-1) ?? 0;
  say(figure.querySelector("strong"), chart.unit(now));
  say(figure.querySelector("small"), most > 0 ? `most ${chart.unit(most)}` : "none");
  set(figure, "data-most", most);
  set(figure, "data-seen", most > 0);
}
