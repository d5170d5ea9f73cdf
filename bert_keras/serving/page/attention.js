// The view of the attention: a layer, a grid of its heads, and the shares of one token. It needs no other view.

import { barOf, make, percent, roving, share } from "./dom.js";

const MOST_SHARES = 8;

/**
 * Returns the view. `load(layer)` promises { tokens: [{ token }], attention: [heads][T][T], looks_at: [heads] } of a
 * layer, from 0; each row of a head is the attention of one token, and sums to 1.
 */
export async function attentionView(numLayers, load) {
  const number = make("output");
  const layers = make("input", { type: "range", min: 1, max: numLayers, value: numLayers });
  const error = make("p", { className: "error", role: "alert" });
  const place = make("div");
  const chosen = { head: 0, token: 1 };
  let asked = 0;
  const show = async () => {
    const mine = ++asked;
    number.value = `${layers.value} of ${numLayers}`;
    error.textContent = "";
    place.ariaBusy = "true";
    try {
      const { tokens, attention, looks_at: means } = await load(Number(layers.value) - 1);
      if (mine !== asked) return;
      place.replaceChildren(...layerView(tokens, attention, means, chosen));
    } catch (problem) {
      if (mine !== asked) return;
      place.replaceChildren();
      error.textContent = problem.message;
    }
    place.ariaBusy = "false";
  };
  layers.addEventListener("input", show);
  await show();
  return make("div", {}, make("label", { className: "slider" }, make("span", {}, "Layer"), layers, number), error, place);
}

function layerView(tokens, attention, means, chosen) {
  const main = make("div");
  const show = (head) => {
    chosen.head = head;
    heads.forEach((button, index) => button.setAttribute("aria-pressed", String(index === head)));
    main.replaceChildren(meansView(means[head]), ...headView(tokens, attention[head], chosen));
  };
  const heads = attention.map((rows, head) =>
    make(
      "button",
      { type: "button", className: "head", onclick: () => show(head), "aria-label": `Head ${head + 1}` },
      picture(rows, 64),
      `${head + 1}`,
    ),
  );
  show(Math.min(chosen.head, heads.length - 1));
  return [make("div", { className: "heads", role: "group", ariaLabel: "Heads" }, heads), main];
}

/** Returns a line with the means of a head over all tokens. */
function meansView(means) {
  const shares = [
    ["[SEP]", means["[SEP]"]],
    ["the previous token", means.previous],
    ["the next token", means.next],
    ["the token itself", means.self],
  ].map(([name, value]) => `${name} ${percent(value)}`);
  const text = `On average, this head attends to ${shares.join(", ")}. Entropy: ${means.entropy.toFixed(2)} bits.`;
  return make("p", { className: "means" }, text);
}

/** Draws the shares of a head: a row for each token, and a column for each token that it attends to. */
function picture(rows, size) {
  const canvas = make("canvas", { width: rows.length, height: rows.length, ariaHidden: "true" });
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(document.documentElement).accentColor;
  rows.forEach((row, y) =>
    row.forEach((value, x) => {
      context.globalAlpha = Math.sqrt(value);
      context.fillRect(x, y, 1, 1);
    }),
  );
  canvas.style.inlineSize = `${size}px`;
  return canvas;
}

function headView(tokens, rows, chosen) {
  const best = make("ol", { className: "bars" });
  const title = make("h3", { dir: "auto" });
  const items = tokens.map(({ token }, index) => make("li", { className: "token", dir: "auto", title: `token ${index}` }, token));
  const show = (index) => {
    chosen.token = index;
    const row = rows[index];
    const most = Math.max(...row);
    items.forEach((item, other) => {
      share(item, row[other] / most);
      item.classList.toggle("asking", other === index);
    });
    title.textContent = `“${tokens[index].token}” attends to`;
    const order = row.map((value, other) => [value, other]).sort((one, other) => other[0] - one[0]);
    best.replaceChildren(
      ...order
        .slice(0, MOST_SHARES)
        .map(([value, other]) => make("li", { className: "bar" }, barOf(tokens[other].token, percent(value), value))),
    );
  };
  const caption = make("figcaption", { className: "muted" }, "Each row is a token, each column a token that it attends to.");
  const map = make("figure", {}, picture(rows, 260), caption);
  const list = make("ol", { className: "tokens attended", ariaLabel: "Tokens" }, items);
  roving(list, items, show);
  show(Math.min(chosen.token, tokens.length - 1));
  return [
    make("p", { className: "muted" }, "Point at a token, or move with the arrow keys, to see where it looks."),
    list,
    make("div", { className: "columns" }, make("div", {}, title, best), map),
  ];
}
