// Summary, servers, and the grid of tables and partitions.

import { colour, count, letter, make, say, set, several, since, span, sync, tag } from "./dom.js";

const byId = (id) => document.getElementById(id);

/** The partition whose details are open: "table/partition". */
let open = null;

/** Shows an overview. */
export function showCluster(overview) {
  const local = overview.servers.find((server) => server.local);
  say(byId("beside"), local ? `beside ${local.name} · version ${overview.version}` : `version ${overview.version}`);
  showVerdict(overview);
  showServers(overview.servers);
  sync(byId("tables"), overview.tables, (table) => table.name, makeTable, (element, table) => updateTable(element, table, overview));
  const passed = Object.entries(overview.passedThrough).sort();
  const left = passed.map(([name, reason]) => `${name} (${reason.replaceAll("_", " ")})`).join(", ");
  say(byId("passed"), passed.length ? `Left to the servers’ own routing: ${left}.` : "");
}

/** How a partition stands: what losing a host would do. */
function risk(partition, overview) {
  if (!overview.lagReporting) return "unknown";
  return partition.ready > 1 ? "safe" : partition.ready === 1 ? "risk" : "lost";
}

function showVerdict(overview) {
  const away = overview.servers.filter((server) => server.state !== "live");
  const silent = overview.servers.filter((server) => server.sidecar.state === "silent");
  const partitions = overview.tables.flatMap((table) => table.partitions.map((partition) => risk(partition, overview)));
  const number = (wanted) => partitions.filter((found) => found === wanted).length;
  const [lost, risky, all] = [number("lost"), number("risk"), partitions.length];
  const more = [];
  for (const server of away) more.push(`${server.name} has been ${server.state} for ${span(server.sinceMs)}.`);
  if (lost) more.push(`${several(lost, "partition")} of ${all} ${lost === 1 ? "has" : "have"} no replica that is known to be current.`);
  if (risky) more.push(`${several(risky, "partition")} of ${all} would lose the last current replica with one more host.`);
  for (const server of silent) more.push(`The sidecar beside ${server.name} has been silent for ${span(server.sidecar.sinceMs)}.`);
  more.push(...overview.advice);
  if (!overview.catalogueKnown) more.push("The tables are not known yet.");
  if (overview.stopping) more.push("This sidecar is shutting down.");
  const bad = lost > 0 || away.length === overview.servers.length;
  const level = bad ? "bad" : more.length ? "warn" : "good";
  const live = overview.servers.length - away.length;
  const headline = {
    good: `All ${several(live, "server")} live. Losing any one host would not hurt.`,
    warn: away.length ? `${live} of ${several(overview.servers.length, "server")} live. Every partition has a current replica.` : "All servers live, but not everything is in order.",
    bad: live === 0 ? "No server is live." : `${live} of ${several(overview.servers.length, "server")} live. Some reads may be stale or refused.`,
  }[level];
  set(byId("verdict"), "class", `verdict ${level}`);
  say(byId("verdict-text"), headline);
  sync(byId("verdict-more"), more, (text) => text.replace(/ for .*/, ""), () => make("li"), (element, text) => say(element, text));
}

function showServers(servers) {
  const sidecars = { this: "this one", answers: "answers", silent: "silent", unseen: "none seen", unknown: "none known" };
  const labels = ["Server", "State", "For", "Its sidecar", "Active", "Standby", "Largest lag", "Report age", "Version"];
  const create = () => make("tr", {}, ...labels.map((label, place) => make(place === 0 ? "th" : "td", { "data-label": label, scope: place === 0 ? "row" : null, class: place > 3 && place < 8 ? "number" : null })));
  sync(byId("servers-body"), servers.map((server, index) => ({ ...server, index })), (server) => server.name, create, (row, server) => {
    const cells = row.children;
    if (!cells[0].firstChild) cells[0].append(tag(server.index, server.name));
    if (!cells[1].firstChild) cells[1].append(make("span"));
    set(cells[1].firstChild, "class", `badge ${server.state}`);
    say(cells[1].firstChild, server.state);
    say(cells[2], span(server.sinceMs));
    set(cells[2], "title", since(server.sinceMs));
    const { state, sinceMs } = server.sidecar;
    say(cells[3], sinceMs === undefined ? sidecars[state] : `${sidecars[state]}, for ${span(sinceMs)}`);
    set(cells[3], "title", sinceMs === undefined ? null : since(sinceMs));
    set(cells[3], "class", state === "silent" ? "trouble" : null);
    [server.actives, server.standbys].forEach((value, place) => say(cells[4 + place], count(value)));
    say(cells[6], server.offsetLag === null ? "–" : several(server.offsetLag, "record"));
    say(cells[7], span(server.ageMs));
    say(cells[8], server.version ?? "–");
  });
}

function makeTable(table) {
  const cells = make("div", { class: "cells", role: "group", "aria-label": `Partitions of ${table.name}` });
  cells.addEventListener("keydown", move);
  const title = make("h3", {}, table.name, make("small", { class: "quiet" }));
  return make("div", { class: "table" }, title, cells, make("div", { class: "detail", hidden: true }));
}

function updateTable(element, table, overview) {
  const [title, cells, detail] = element.children;
  const many = table.partitions.length;
  set(element, "class", `table ${many > 64 ? "wide many" : many > 24 ? "wide" : ""}`.trim());
  const risky = table.partitions.filter((partition) => ["risk", "lost"].includes(risk(partition, overview))).length;
  const bound = table.maxOffsetLag === null ? "" : `, bound ${several(table.maxOffsetLag, "record")}`;
  say(title.querySelector("small"), ` ${several(table.partitions.length, "partition")}${risky ? `, ${risky} at risk` : ""}${bound}`);
  const items = table.partitions.map((partition, number) => ({ ...partition, number, name: `${table.name}/${number}` }));
  const create = (item) => {
    const cell = make("button", { type: "button", class: "cell", tabindex: item.number === 0 ? 0 : -1 }, make("span", { class: "number" }), make("b"), make("span", { class: "marks" }), make("i", { class: "alert", "aria-hidden": "true" }));
    cell.addEventListener("click", () => toggle(item.name, overview));
    return cell;
  };
  sync(cells, items, (item) => item.number, create, (cell, item) => updateCell(cell, item, overview));
  const shown = items.find((item) => item.name === open);
  set(detail, "hidden", !shown);
  if (shown) showDetail(detail, shown, overview);
}

function updateCell(cell, item, overview) {
  const active = item.active === null ? null : overview.servers[item.active];
  const [number, who, marks, alert] = cell.children;
  const danger = risk(item, overview);
  const stands = activeOf(item)?.stands;
  const weak = stands === "down" ? "away" : stands && stands !== "current" ? "weak" : "";
  set(cell, "class", ["cell", active ? colour(item.active) : "nobody", weak, danger].join(" "));
  set(cell, "aria-expanded", String(item.name === open));
  say(number, String(item.number));
  say(who, active ? letter(item.active) : "–");
  const standbys = item.replicas.filter((replica) => replica.role !== "active");
  sync(marks, standbys, (replica) => replica.host, () => make("i"), (mark, replica) => set(mark, "class", `mark ${replica.stands}`));
  say(alert, danger === "risk" || danger === "lost" ? "!" : "");
  set(cell, "aria-label", describe(item, overview));
  set(cell, "title", describe(item, overview));
}

const LOSS = {
  safe: "Losing any one host would leave a current replica.",
  risk: "Losing one more host could leave no current replica.",
  lost: "No replica is known to be current now.",
  unknown: "Servers report no lag, so nobody knows what losing a host would do.",
};

const activeOf = (item) => item.replicas.find((replica) => replica.role === "active");

function describe(item, overview) {
  const active = item.active === null ? "no active known" : `active ${overview.servers[item.active].name} ${activeOf(item).stands}`;
  const standbys = item.replicas.filter((replica) => replica.role !== "active").map((replica) => {
    const lag = replica.offsetLag === null ? "" : ` by ${several(replica.offsetLag, "record")}`;
    return `standby ${overview.servers[replica.host].name} ${replica.stands}${replica.stands === "behind" ? lag : ""}`;
  });
  return `Partition ${item.number}: ${[active, ...standbys].join(", ")}. ${LOSS[risk(item, overview)]}`;
}

function showDetail(detail, item, overview) {
  const heads = ["Replica", "Role", "Stands", "Lag", "Report age"];
  const row = (replica) => {
    const role = replica.role === "active" && !replica.agreed ? "active, not agreed on" : replica.role;
    const cells = [tag(replica.host, overview.servers[replica.host].name), role, make("span", {}, make("i", { class: `mark ${replica.stands}`, "aria-hidden": "true" }), ` ${replica.stands}`), count(replica.offsetLag), span(replica.ageMs)];
    return make("tr", {}, ...cells.map((cell, place) => make("td", { "data-label": heads[place] }, cell)));
  };
  const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)));
  detail.replaceChildren(
    make("h4", {}, item.name.replace("/", ", partition ")),
    make("p", {}, LOSS[risk(item, overview)]),
    make("table", { class: "rows" }, make("thead", {}, head), make("tbody", {}, ...item.replicas.map(row))),
  );
}

let latest = null;

/** Remembers the overview, so that details open between two events. */
export function remember(overview) {
  latest = overview;
  showCluster(overview);
}

function toggle(name) {
  open = open === name ? null : name;
  if (latest) showCluster(latest);
}

/** Arrow keys, Home and End move among the cells of a table; Escape closes the details. */
function move(event) {
  const cells = [...event.currentTarget.children];
  const at = cells.indexOf(document.activeElement);
  if (at < 0) return;
  const top = (cell) => cell.offsetTop;
  const inRow = cells.filter((cell) => top(cell) === top(cells[0])).length;
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: inRow, ArrowUp: -inRow, Home: -at, End: cells.length - 1 - at };
  if (event.key === "Escape" && open) {
    open = null;
    showCluster(latest);
  } else if (event.key in steps) {
    const next = cells[Math.min(Math.max(at + steps[event.key], 0), cells.length - 1)];
    cells.forEach((cell) => set(cell, "tabindex", cell === next ? 0 : -1));
    next.focus();
  } else return;
  event.preventDefault();
}
