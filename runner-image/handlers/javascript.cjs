// Calls a tool's handler: `node javascript.cjs SCRIPT [ARGUMENTS] 3>&1 >&2`, the JSON of the arguments on stdin as well.
//
// All that comes on descriptor 3 is the JSON of the result, or {"error": message} and exit status 1. What the handler
// prints goes to stderr, so that nothing of it can be taken for its result. Whether a `.js` is an ES module is Node's
// word: by the nearest package.json, else by its syntax. Whatever a handler does to this process, it forges no result
// but its own; what is needed after it ran is taken here before.

'use strict';

const { closeSync, readFileSync, writeSync } = require('node:fs');
const { pathToFileURL } = require('node:url');

const { parse, stringify } = JSON;
const exit = process.exit.bind(process);
const later = setTimeout;
const log = console.error.bind(console);

const RESULT = 3;

// How long timers, streams and sockets may go on when the result is there: time to write a file, none to keep the
// caller waiting.
const LINGER_MS = 1000;

let answered = false;

function answer(text) {
  if (answered) return;
  answered = true;
  const bytes = Buffer.from(text);
  for (let sent = 0; sent < bytes.length; ) sent += writeSync(RESULT, bytes, sent);
  closeSync(RESULT);
}

function fail(error) {
  if (answered) return;
  try {
    log(error);
  } catch {
    // A thrown value may refuse to be shown.
  }
  answer(`{"error":${stringify(message(error))}}`);
  exit(1);
}

// What was thrown may be anything, and may throw when it is looked at.
function message(error) {
  try {
    if (!(error instanceof Error)) return typeof error === 'string' ? error : `threw ${shown(error)}`;
    return error.name === 'Error' && error.message ? String(error.message) : String(error);
  } catch {
    return 'threw a value that cannot be shown';
  }
}

function shown(value) {
  return (typeof value === 'object' && stringify(value)) || String(value);
}

// `export default`, `module.exports =`, `exports.default =` as compilers write it, and a function named handler.
function handlerOf(module) {
  const found = [module.default, module.default?.default, module.default?.handler, module.handler];
  const handler = found.find((value) => typeof value === 'function');
  if (!handler) throw new TypeError('the script exports no default function: export default async function handler(args)');
  return handler;
}

function encoded(value) {
  if (value === undefined) return 'null';
  const text = stringify(value);
  if (typeof text !== 'string') throw new TypeError(`the result is a ${typeof value}, which JSON cannot hold`);
  return text;
}

async function main() {
  process.argv.splice(1, 1);
  const given = parse(process.argv[2] ?? readFileSync(0, 'utf8'));
  const handler = handlerOf(await import(pathToFileURL(process.argv[1])));
  answer(encoded(await handler(given)));
  process.exitCode = 0;
  later(exit, LINGER_MS, 0).unref();
}

process.on('uncaughtException', fail);
main().catch(fail);
