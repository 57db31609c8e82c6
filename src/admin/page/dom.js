// What the parts of the page share: elements whose text is always text, and how numbers and spans are written.

/** Makes an element; `text` and children are inserted as text or nodes, never parsed as HTML. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** The same in SVG. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  element.append(...children);
  return element;
}

/** Sets an attribute where it differs; `null` and `false` remove it. */
export function set(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value === true ? "" : value);
}

/** Sets an element's text where it differs, so that nothing is redrawn or read out for nothing. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Makes the children of `parent` be those of `items`, keeping the element of each key. */
export function sync(parent, items, key, create, update) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    let element = known.get(name);
    known.delete(name);
    if (!element) {
      element = create(item);
      element.dataset.key = name;
    }
    if (element === place) place = place.nextElementSibling;
    else parent.insertBefore(element, place);
    update(element, item);
  }
  known.forEach((element) => element.remove());
}

/** A, B, … Z, AA, … for the server of that place. */
export function letter(index) {
  const last = String.fromCharCode(65 + (index % 26));
  return index < 26 ? last : letter(Math.floor(index / 26) - 1) + last;
}

/** The class of that server's colour; there are eight. */
export const colour = (index) => `h${index % 8}`;

/** A span of time, in at most two units. */
export function span(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 10) return `${(ms / 1000).toFixed(1)} s`;
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

/** When something began that has lasted so long, by this machine's clock, to the second. */
export const since = (ms) => `since ${new Date(Math.round((Date.now() - ms) / 1000) * 1000).toLocaleString("en-GB")}`;

/** A number with separators; a dash where there is none. */
export const count = (number) => (number === null || number === undefined ? "–" : number.toLocaleString("en"));

/** "1 record", "3 records". */
export const several = (number, one) => `${count(number)} ${one}${number === 1 ? "" : "s"}`;

/** The server's name with its letter. */
export function tag(index, name) {
  return make("span", { class: "tag" }, make("b", { class: `swatch ${colour(index)}`, "aria-hidden": "true" }, letter(index)), name);
}

/** Replicas with their numbers and why each stands where it stands. */
export function replicas(list, servers, served) {
  const row = (replica, place) => {
    const index = servers.indexOf(replica.host);
    const host = index < 0 ? replica.host : tag(index, replica.host);
    const cells = [
      ["Order", replica.rejected ? "not asked" : `${place + 1}.`],
      ["Server", host],
      ["Role", replica.role ?? "–"],
      ["Lag", count(replica.offsetLag)],
      ["Report age", span(replica.ageMs)],
      ["Why", make("span", {}, make("code", {}, replica.reason), ` ${replica.because}`)],
    ];
    const marks = [replica.rejected ? "rejected" : "", replica.host === served ? "served" : ""].join(" ").trim();
    return make("tr", { class: marks || null }, ...cells.map(([label, value]) => make("td", { "data-label": label }, value)));
  };
  const heads = ["Order", "Server", "Role", "Lag", "Report age", "Why"];
  const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)));
  return make("table", { class: "rows" }, make("thead", {}, head), make("tbody", {}, ...list.map(row)));
}
