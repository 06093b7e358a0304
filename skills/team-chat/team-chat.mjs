#!/usr/bin/env node
// A team chat on one file: lists channels, sends messages and reads them.

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

const USAGE = `usage: team-chat.mjs channels list
       team-chat.mjs send TEXT --channel=ID
       team-chat.mjs read --channel=ID [--limit=N]

Lists the channels, sends TEXT to one, or prints the last messages of one, the oldest first.

  --channel=ID  the channel, by its ID
  --limit=N     how many messages are printed, 1 to 1000 (default: 20)
  --help        this text`;

/** Longer than any message that somebody reads. */
const MAX_TEXT = 2000;

const CHANNELS = JSON.parse(readFileSync(new URL("assets/channels.json", import.meta.url), "utf8"));
const FILE = join(process.env.WORK_DIR || "work", "team-chat.jsonl");

/** Returns all messages; each has a line of its own, so that messages sent at the same time are both kept. */
function messages() {
  const lines = existsSync(FILE) ? readFileSync(FILE, "utf8").trimEnd().split("\n") : [];
  return lines.map((line, index) => ({ id: index + 1, ...JSON.parse(line) }));
}

function channelOf(id) {
  const channel = CHANNELS.find((one) => one.id === id);
  if (channel) return channel;
  const known = CHANNELS.map((one) => `${one.id} (#${one.name})`).join(", ");
  throw new Error(id === undefined ? "--channel=ID is missing" : `no channel ${JSON.stringify(id)}; there are ${known}`);
}

function send(text, channel) {
  if (!text?.trim()) throw new Error("the message is empty");
  if (text.length > MAX_TEXT) throw new Error(`the message has more than ${MAX_TEXT} characters`);
  appendFileSync(FILE, `${JSON.stringify({ channel: channel.id, text })}\n`);
  console.log(`sent to #${channel.name}`);
}

function read(channel, limit) {
  if (!/^\d{1,4}$/.test(limit) || Number(limit) < 1 || Number(limit) > 1000) throw new Error("--limit must be 1 to 1000");
  const list = messages().filter((message) => message.channel === channel.id);
  for (const { id, text } of list.slice(-Number(limit))) console.log(`${id}\t${text.replace(/\s+/g, " ")}`);
}

function main(args) {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      channel: { type: "string" },
      limit: { type: "string", default: "20" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) return console.log(USAGE);
  const [command, ...rest] = positionals;
  if (command === "channels" && rest.length === 1 && rest[0] === "list") {
    for (const { id, name } of CHANNELS) console.log(`${id}\t#${name}`);
  } else if (command === "send" && rest.length === 1) {
    send(rest[0], channelOf(values.channel));
  } else if (command === "read" && rest.length === 0) {
    read(channelOf(values.channel), values.limit);
  } else {
    throw new Error("give channels list, send TEXT or read; see --help");
  }
}

try {
  main(process.argv.slice(2));
} catch (error) {
  console.error(`team-chat.mjs: ${error.message}`);
  process.exitCode = 2;
}
