#!/usr/bin/env node
// Counts the words of a text file and writes a Markdown report.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { parseArgs } from "node:util";

const USAGE = `usage: report.mjs FILE [--out FILE] [--top N]

Counts lines, words and characters of FILE and writes a Markdown report.

  --out FILE  where the report goes (default: report.md in $OUTPUT_DIR, else in out/)
  --top N     how many of the most frequent words are listed, 0 to 100 (default: 10)
  --help      this text`;

/** Returns the words in lower case, as Unicode splits them; punctuation is no word. */
function words(text) {
  const segments = new Intl.Segmenter(undefined, { granularity: "word" }).segment(text);
  return Array.from(segments)
    .filter((part) => part.isWordLike)
    .map((part) => part.segment.toLocaleLowerCase());
}

/** Returns [word, count] pairs, most frequent first, equal ones by name: the same text, the same report. */
function frequencies(list) {
  const counts = new Map();
  for (const word of list) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].sort(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
}

/** Returns `text` as it may stand in a Markdown line or table cell. */
function plain(text) {
  return text.replace(/[\\`*_[\]<>|#]/g, "\\$&").replace(/[\r\n]/g, " ");
}

function report(name, text, top) {
  const list = words(text);
  const counts = frequencies(list);
  const lines = text.split("\n").length - (text === "" || text.endsWith("\n") ? 1 : 0);
  const rows = counts.slice(0, top).map(([word, count]) => `| ${plain(word)} | ${count} |`);
  const table = rows.length > 0 ? ["## Most frequent words", "", "| Word | Count |", "|---|---:|", ...rows, ""] : [];
  return [
    `# Report on ${plain(name)}`,
    "",
    `- Lines: ${lines}`,
    `- Words: ${list.length}`,
    `- Different words: ${counts.length}`,
    `- Characters: ${[...text].length}`,
    "",
    ...table,
  ].join("\n");
}

function main(args) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      out: { type: "string", default: join(process.env.OUTPUT_DIR || "out", "report.md") },
      top: { type: "string", default: "10" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) return console.log(USAGE);
  if (positionals.length !== 1) throw new Error("name one FILE");
  if (!/^\d{1,3}$/.test(values.top) || Number(values.top) > 100) throw new Error("--top must be 0 to 100");
  const [file] = positionals;
  const text = report(basename(file), readFileSync(file, "utf8"), Number(values.top));
  mkdirSync(dirname(values.out), { recursive: true });
  writeFileSync(values.out, text);
  console.log(values.out);
}

try {
  main(process.argv.slice(2));
} catch (error) {
  console.error(`report.mjs: ${error.message}`);
  process.exitCode = 2;
}
