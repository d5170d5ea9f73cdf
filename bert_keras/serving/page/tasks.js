// What the page says for each task: its title, fields, options and examples. Tasks have the names of the server.
// Classifiers have no examples here: their training data decides what fits, so the run of a model stores examples.

const TEXT = { label: "Text", rows: 3 };
const CLASSIFY = {
  title: "Classify a text",
  fields: { text: TEXT, text_pair: { label: "Second text", rows: 2 } },
};
const LINES = { label: "Sentences, one per line", rows: 4, isItems: true };

/**
 * Task -> title, purpose, button, fields (`isList`: a list, one per line; `isItems`: one item per line), examples. If the
 * task can answer the rows of a table, `cells` returns what an answer adds to its row, by column.
 */
export const TASKS = {
  classification: {
    ...CLASSIFY,
    purpose: "The model gives a probability to each class.",
    button: "Classify",
    cells: ({ label, probabilities }) => ({ label, probability: probabilities[label] }),
  },
  regression: {
    ...CLASSIFY,
    title: "Rate a text",
    purpose: "The model predicts a number.",
    button: "Rate",
    cells: ({ value }) => ({ value }),
  },
  multi_label: {
    ...CLASSIFY,
    title: "Label a text",
    purpose: "The model gives each label the probability that it applies.",
    button: "Label",
    cells: ({ labels, probabilities }) => ({
      labels: labels.join(";"),
      probabilities: labels.map((label) => probabilities[label]).join(";"),
    }),
  },
  multiple_choice: {
    title: "Choose the best continuation",
    purpose: "The model compares several texts that could come next.",
    button: "Choose",
    fields: { text: { label: "Text", rows: 2 }, choices: { label: "Choices, one per line", rows: 3, isList: true } },
    examples: [
      {
        name: "Rain",
        text: "Dark clouds came over the hills, so she took her umbrella.",
        choices: "Soon it began to rain.\nShe put the umbrella into the oven.\nThe hills sang a song.",
      },
      {
        name: "Dinner",
        text: "He was hungry after the long walk.",
        choices: "He cooked soup and ate two plates.\nHe painted the walls blue.\nHe sold his shoes to a cloud.",
      },
    ],
  },
  rerank: {
    title: "Sort texts by a query",
    purpose: "The model reads the query with each text and gives the text a score; higher is better.",
    button: "Sort",
    fields: { query: { label: "Query", rows: 1 }, texts: { label: "Texts, one per line", rows: 5, isList: true } },
    examples: [
      {
        name: "Password",
        query: "How do I get a new password?",
        texts:
          "The bank opens at nine.\nClick on Forgotten, and we send you a link to choose another password.\n" +
          "A good password has twelve characters.\nOur new shop sells books.",
      },
    ],
  },
  question_answering: {
    title: "Answer a question from a text",
    purpose: "The model marks the words of the text that answer the question.",
    button: "Find the answer",
    fields: { question: { label: "Question", rows: 1 }, context: { label: "Text", rows: 4 } },
    examples: [
      {
        name: "Lighthouse",
        question: "How tall is the lighthouse?",
        context:
          "The lighthouse on the northern cape was built in 1874 from local granite. It is 32 metres tall, and its " +
          "light reaches ships 20 miles away. Anna Lind was its last keeper; she left in 1969, when a machine took over.",
      },
      {
        name: "Without an answer",
        question: "Who painted the ceiling?",
        context: "The old library has 40,000 books. Its reading room opens at nine, and it closes at six in winter.",
      },
    ],
  },
  token_classification: {
    title: "Find names in a text",
    purpose: "The model marks people, places and whatever else its training data marks.",
    button: "Find names",
    fields: { text: { label: "Text", rows: 3 } },
    examples: [
      { name: "Travel", text: "Maria Silva flew from Lisbon to Oslo and met Erik Dahl of Nordic Shipping in March." },
      { name: "Science", text: "Marie Curie was born in Warsaw and worked at the University of Paris." },
    ],
  },
  fill_mask: {
    title: "Fill in a word",
    purpose: "The model guesses the word at each [MASK]. Choose a guess to put it into the text.",
    button: "Guess",
    fields: { text: { label: "Text with [MASK]", rows: 2 } },
    options: {
      top_k: { label: "Guesses", type: "number", min: 1, max: 50, value: 5 },
      candidates: { label: "Only these words", type: "text", placeholder: "any word", isWords: true },
    },
    examples: [
      { name: "Capital", text: "Paris is the [MASK] of France." },
      { name: "Two words", text: "The [MASK] flows from the mountains to the [MASK]." },
      { name: "Pronoun", text: "The doctor said that [MASK] would be back in an hour." },
    ],
  },
  next_sentence: {
    title: "Does one sentence follow another?",
    purpose: "The model gives the probability that the second text comes right after the first.",
    button: "Compare",
    cells: ({ probability }) => ({ probability }),
    fields: { text_a: { label: "First text", rows: 2 }, text_b: { label: "Second text", rows: 2 } },
    examples: [
      { name: "Follows", text_a: "The train was late again.", text_b: "We waited on the platform for an hour." },
      { name: "Does not follow", text_a: "The train was late again.", text_b: "Bees store honey in cells of wax." },
    ],
  },
  replaced_tokens: {
    title: "Which words do not fit?",
    purpose: "The model gives each token the probability that another word was there.",
    button: "Check",
    fields: { text: TEXT },
    examples: [
      { name: "Cook", text: "The chef read the soup before he served it." },
      { name: "Weather", text: "Dark clouds came over the hills, and soon it began to sing." },
    ],
  },
  score: {
    title: "How natural is a sentence?",
    purpose: "The model hides one word at a time and gives its probability. Lower perplexity is more natural.",
    button: "Score",
    fields: { text: LINES },
    examples: [
      { name: "Word order", text: "The children are playing in the garden.\nThe children garden are in playing the." },
      { name: "Grammar", text: "She walks to school every day.\nShe walk to school every day." },
    ],
  },
  vectors: {
    title: "Compare sentences",
    purpose: "Each sentence becomes a vector. The table has the cosine of each pair; 1 is the same direction.",
    button: "Compare",
    fields: { text: LINES },
    examples: [
      {
        name: "Meanings",
        text:
          "A dog runs across the field.\nA puppy is racing over the meadow.\nThe bank raised its interest rates.\n" +
          "Loans have become more expensive.",
      },
      {
        name: "Questions",
        text: "How do I reset my password?\nI cannot log in to my account.\nWhere is my parcel?\nWhen will my order arrive?",
      },
    ],
  },
};

const MOST_LABELS = 12;
// Of the name of an example.
const MOST_CHARS = 40;
// Types of entities in the examples, as common data sets name them.
const TYPES = new Set(["PER", "PERSON", "LOC", "GPE", "ORG", "MISC"]);

/** Returns the entry of the task of a model. A task that is not in the table brings its entry, without functions. */
export function entryOf(model) {
  return TASKS[model.task] ?? { cells: (answer) => plainValues(model, answer), ...model.page };
}

/** Returns the numbers and words of an answer, without the texts of its item and what the server adds. */
export function plainValues({ fields }, answer) {
  const isPlain = ([name, value]) => ["number", "string"].includes(typeof value) && ![...fields, "num_tokens"].includes(name);
  return Object.fromEntries(Object.entries(answer).filter(isPlain));
}

/** Returns the examples from the data of a model, or else those of the task that fit it: texts by field, and a name. */
export function examplesOf(model) {
  const { task, labels, fields, examples } = model;
  if (examples?.length) return examples.map((texts) => ({ name: beginningOf(texts[fields[0]] ?? ""), ...texts }));
  if (task === "token_classification" && !labels?.every((label) => TYPES.has(label.toUpperCase()))) return [];
  return entryOf(model).examples ?? [];
}

/** Returns the first words of a text, in at most 40 characters. */
export function beginningOf(text) {
  const chars = [...text.trim().replace(/\s+/g, " ")];
  if (chars.length <= MOST_CHARS) return chars.join("");
  const beginning = chars.slice(0, MOST_CHARS).join("");
  return `${beginning.replace(/(.) \S*$/, "$1")}…`;
}

/** Returns a sentence with the labels of a model, and the space before it. */
export function labelsOf({ labels }) {
  if (!labels?.length) return "";
  const more = labels.length > MOST_LABELS ? ` and ${labels.length - MOST_LABELS} more` : "";
  return ` Labels: ${labels.slice(0, MOST_LABELS).join(", ")}${more}.`;
}
