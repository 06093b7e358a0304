#!/usr/bin/env node
// Greets by name. Node strips the types and runs the rest.

import { parseArgs } from "node:util";

import { greet, isLanguage, LANGUAGES } from "./greetings.ts";

const USAGE = `usage: hello.ts [NAME] [--language ${LANGUAGES.join("|")}]

Prints a greeting for NAME (default: world).`;

function main(args: readonly string[]): void {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      language: { type: "string", default: "en" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) return console.log(USAGE);
  if (positionals.length > 1) throw new Error("give one NAME");
  const language = values.language;
  if (!isLanguage(language)) throw new Error(`--language must be one of ${LANGUAGES.join(", ")}`);
  console.log(greet(positionals[0] ?? "world", language));
}

try {
  main(process.argv.slice(2));
} catch (error) {
  console.error(`hello.ts: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 2;
}
