// Small helpers: elements, places in texts, and lists that the arrow keys move through.

/** Returns the element of the page with an id. */
export const at = (id) => document.getElementById(id);

/** Makes an element. Text children become text nodes, so no text can become markup. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && !name.includes("-")) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.flat());
  return element;
}

/** Sets the number from 0 to 1 that the style sheet draws, as the length of a bar or the strength of a colour. */
export function share(element, value) {
  element.style.setProperty("--share", Math.max(0, Math.min(1, value)));
  return element;
}

/** Returns a function that slices a text at offsets in code points. JavaScript counts UTF-16 units. */
export function slicer(text) {
  const units = [0];
  for (const char of text) units.push(units.at(-1) + char.length);
  return (start, end = units.length - 1) => text.slice(units[start], units[Math.min(end, units.length - 1)]);
}

/** Returns a paragraph with a text, in which `mark(span, words)` makes the element of each span. Spans ascend. */
export function marked(text, spans, mark) {
  const slice = slicer(text);
  const paragraph = make("p", { className: "text", dir: "auto" });
  let place = 0;
  for (const span of spans) {
    if (span.start < place) continue;
    paragraph.append(slice(place, span.start), mark(span, slice(span.start, span.end)));
    place = span.end;
  }
  paragraph.append(slice(place));
  return paragraph;
}

/** Fills a place with the view that `load()` promises, or with its error; a later call for this place replaces it. */
export async function fillLater(place, load) {
  const mine = (place.newest ?? 0) + 1;
  place.newest = mine;
  place.replaceChildren(make("p", { className: "muted" }, "Working…"));
  const view = await load().catch(errorView);
  if (mine === place.newest) place.replaceChildren(view);
}

/** Returns the parts of a bar: a name, its value in words, and a line whose length is a number from 0 to 1. */
export const barOf = (name, value, length) => [
  make("span", { className: "bar-name", dir: "auto" }, name),
  make("span", { className: "bar-value" }, value),
  share(make("span", { className: "bar-line", ariaHidden: "true" }), length),
];

/** Returns a place that `show(place, number)` fills, first with number 0; if there are several names, a list of them, too. */
export async function chooser(label, names, show) {
  const place = make("div");
  await show(place, 0);
  if (names.length === 1) return place;
  const options = names.map((name, value) => make("option", { value }, name));
  const select = make("select", { onchange: () => show(place, Number(select.value)) }, options);
  return make("div", {}, make("label", { className: "option" }, `${label} `, select), place);
}

export const errorView = ({ message }) => make("p", { className: "error", role: "alert" }, message);

export const percent = (value) => `${(100 * value).toFixed(1)} %`;

/** Makes a list with one tab stop. The arrow keys move; `choose(index)` is called for the item with the focus. */
export function roving(list, items, choose) {
  let current = 0;
  const go = (index, focus) => {
    if (!items[index]) return;
    items[current].tabIndex = -1;
    current = index;
    items[current].tabIndex = 0;
    if (focus) items[current].focus();
    choose(current);
  };
  items.forEach((item, index) => {
    item.tabIndex = index ? -1 : 0;
    item.addEventListener("focus", () => go(index, false));
    item.addEventListener("click", () => go(index, true));
    item.addEventListener("pointerenter", () => choose(index));
  });
  list.addEventListener("pointerleave", () => choose(current));
  list.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    const ends = { Home: 0, End: items.length - 1 };
    if (!(event.key in steps || event.key in ends)) return;
    event.preventDefault();
    go(event.key in ends ? ends[event.key] : current + steps[event.key], true);
  });
}
