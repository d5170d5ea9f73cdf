// The view of the tokens: how the tokenizer cut the texts. A token with the pointer or the focus marks its characters.

import { chooser, make, roving, slicer } from "./dom.js";

const MOST_TOKENS = 600;

/** Returns the view of an item's sequences. */
export function tokensView(sequences, item) {
  const names = sequences.map((_, number) => `${number + 1} of ${sequences.length}`);
  const show = (place, number) => place.replaceChildren(...sequenceView(sequences[number].tokens, textsOf(item, number)));
  return chooser("Sequence", names, show);
}

/** Returns the texts of a sequence by field; each choice of a list has its own sequence. */
function textsOf(item, number) {
  const entries = Object.entries(item).map(([name, value]) => [name, Array.isArray(value) ? value[number] : value]);
  return Object.fromEntries(entries);
}

function sequenceView(tokens, texts) {
  const fields = [...new Set(tokens.map(({ text }) => text))].filter((field) => field !== null);
  const paragraphs = Object.fromEntries(
    fields.map((field) => [field, make("p", { className: "text source", dir: "auto" }, texts[field])]),
  );
  const slices = Object.fromEntries(fields.map((field) => [field, slicer(texts[field])]));
  let marked = null;
  const mark = (index) => {
    const { text: field, start, end } = tokens[index];
    items.forEach((item, other) => item.classList.toggle("asking", other === index));
    if (marked) paragraphs[marked].replaceChildren(texts[marked]);
    marked = field;
    if (field === null) return;
    const slice = slices[field];
    const words = make("mark", { className: "found" }, slice(start, end));
    paragraphs[field].replaceChildren(slice(0, start), words, slice(end));
  };
  const shown = tokens.slice(0, MOST_TOKENS);
  const items = shown.map(({ token, text, start, end }) => {
    const place = start === null ? "special token" : start === end ? "prefix" : `characters ${start} to ${end} of ${text}`;
    const kind = text === null ? "token special" : token.startsWith("##") ? "token continued" : "token";
    return make("li", { className: kind, title: place, dir: "auto" }, token);
  });
  const list = make("ol", { className: "tokens", ariaLabel: "Tokens" }, items);
  roving(list, items, mark);
  const count = `${tokens.length} tokens. Point at a token, or move through them with the arrow keys.`;
  const rest = tokens.length > MOST_TOKENS ? ` The first ${MOST_TOKENS} are shown.` : "";
  return [make("p", { className: "muted" }, count + rest), list, ...Object.values(paragraphs)];
}
