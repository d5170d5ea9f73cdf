// The parts below the answer: why it is so, its tokens, its attention and its request. A part is made when it is open.

import * as backend from "./backend.js";
import { attentionView } from "./attention.js";
import { at, chooser, fillLater, make } from "./dom.js";
import { curlOf, requestView } from "./request.js";
import { beginningOf } from "./tasks.js";
import { tokensView } from "./tokens.js";
import { isExplained, whyView } from "./why.js";

const PARTS = {
  why: (request) =>
    chosenView(request, (model, item) =>
      whyView(model, item, async () => (await backend.answers(model, [item], { ...request.options, why: true }))[0]),
    ),
  tokens: (request) => chosenView(request, async (model, item) => tokensView(await backend.tokens(model, item), item)),
  attention: (request) => chosenView(request, attentionOf),
  request: async ({ models, items, options }) => {
    const commands = models.map((model) => curlOf(backend.requestOf(model, items, options)));
    return make("div", { className: "stack" }, commands.map(requestView));
  },
};

let shown = null;

/** Explains the answers to a request { models, items, options }; null: there is nothing to explain. */
export function explain(request) {
  shown = request;
  at("more").hidden = !request;
  if (!request) return;
  const { models, items, options } = request;
  at("why").hidden = !models.some(isExplained);
  at("attention").hidden = !models.some((model) => model.num_layers);
  at("request").hidden = !backend.requestOf(models[0], items, options);
  Object.keys(PARTS).forEach(explainPart);
}

function explainPart(name) {
  const place = at(name).querySelector("div");
  if (!shown || place.shown === shown || at(name).hidden || !at(name).open) return;
  place.shown = shown;
  fillLater(place, () => PARTS[name](shown));
}

/** Returns the view of one item. If there are more items or models, it has a list to choose from. */
function chosenView({ models, items }, viewOf) {
  const choices = models.flatMap((model) => items.map((item, number) => ({ model, item, number })));
  const nameOf = ({ model, item, number }) => {
    const text = `text ${number + 1} of ${items.length}: ${beginningOf(item[model.fields[0]])}`;
    return [models.length > 1 && model.name, items.length > 1 && text].filter(Boolean).join(", ");
  };
  const show = (place, number) => fillLater(place, () => viewOf(choices[number].model, choices[number].item));
  return chooser("Show", choices.map(nameOf), show);
}

async function attentionOf(model, item) {
  if (!model.num_layers) return make("p", {}, `${model.name} is an export, which does not have its attention.`);
  const { length } = await backend.tokens(model, item);
  const view = await attentionView(model.num_layers, (layer) => backend.attention(model, item, layer));
  if (length === 1) return view;
  const several =
    `The model reads this text as ${length} sequences: windows of a long text, or one for each choice. ` +
    "This is the attention in the first. The part Tokens shows all of them.";
  return make("div", {}, make("p", { className: "muted" }, several), view);
}

for (const name of Object.keys(PARTS)) at(name).addEventListener("toggle", () => explainPart(name));
