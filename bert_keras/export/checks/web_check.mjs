/**
 * Calls functions of the backend of a web export in Node: node web_check.mjs FOLDER INPUT OUTPUT. The input is a list of
 * calls, [function, ...arguments]; the output a list of {value} or {error}.
 */

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { resolve } from "node:path";
import { setFlagsFromString } from "node:v8";

// By default Node soon optimizes the whole runtime, which takes seconds; now only the code that a large network repeats.
setFlagsFromString("--wasm-tiering-budget=100000000");
const [folder, input, output] = process.argv.slice(2);
// Node fetches no files.
globalThis.fetch = async (url) => new Response(readFileSync(fileURLToPath(url)));
const backend = await import(pathToFileURL(resolve(folder, "backend.js")));
const results = [];
for (const [name, ...values] of JSON.parse(readFileSync(input, "utf8"))) {
  try {
    results.push({ value: await backend[name](...values) });
  } catch (error) {
    if (error.constructor !== Error) throw error;
    results.push({ error: error.message });
  }
}
writeFileSync(output, JSON.stringify(results));
