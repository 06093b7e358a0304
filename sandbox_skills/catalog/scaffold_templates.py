"""The texts of a new skill. `{{name}}` is the skill, `{{file}}` its script, `{{tool}}` its tool. Pure data."""

from __future__ import annotations

SKILL = """---
name: {{name}}
description: Greets somebody by name. Say here what the skill does, and when to use it.
license: Apache-2.0
compatibility: {{needs}}
---

# {{name}}

Run the script from the skill's folder; `--help` lists its options:

    {{call}}

It prints a greeting on standard output. Results that are to be kept go to `out/`.
"""

TOOL_SKILL = """---
name: {{name}}
description: Greets somebody by name. Say here what the skill does, and when to use it.
license: Apache-2.0
compatibility: {{needs}}
---

# {{name}}

The tool `{{tool}}` greets somebody: give it `name`. Its handler can be run from the skill's folder, too, with the
arguments as JSON:

    {{call}}
"""

MANIFEST = """[
  {
    "name": "{{tool}}",
    "description": "Greets somebody by name.",
    "script": "scripts/{{file}}",
    "parameters": {
      "name": {
        "type": "string",
        "description": "Who is greeted."
      }
    }
  }
]
"""

CASES = """# What this skill must do, each case in a sandbox of its own.
cases:
  - name: greets by name
    run: >-
      {{call}}
    expect:
      exit: 0
      stdout:
        contains: Hello, Ada!
"""

PYTHON = '''#!/usr/bin/env python3
"""Greets somebody by name."""

import argparse


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", help="who is greeted")
    print(f"Hello, {parser.parse_args().name}!")


if __name__ == "__main__":
    main()
'''

PYTHON_TOOL = '''#!/usr/bin/env python3
"""Greets somebody by name; the arguments come as JSON, as an argument or on standard input."""

import json
import sys


def handler(args: dict) -> dict:
    return {"greeting": f"Hello, {args['name']}!"}


if __name__ == "__main__":
    text = sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read()
    print(json.dumps(handler(json.loads(text)), ensure_ascii=False))
'''

NODE = """#!/usr/bin/env node
// Greets somebody by name.

import { parseArgs } from "node:util";

const USAGE = "usage: {{file}} NAME\\n\\nGreets somebody by name.";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { help: { type: "boolean", short: "h" } },
});
if (values.help) {
  console.log(USAGE);
} else if (positionals.length !== 1) {
  console.error(USAGE);
  process.exitCode = 2;
} else {
  console.log(`Hello, ${positionals[0]}!`);
}
"""

NODE_TOOL = """#!/usr/bin/env node
// Greets somebody by name; run by itself it takes the arguments as JSON, as an argument or on standard input.

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export default async function handler(args) {
  return { greeting: `Hello, ${args.name}!` };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const text = process.argv[2] ?? readFileSync(0, "utf8");
  console.log(JSON.stringify(await handler(JSON.parse(text))));
}
"""

BASH = """#!/usr/bin/env bash
# Greets somebody by name.
set -euo pipefail

usage="usage: {{file}} NAME

Greets somebody by name."

case "${1:-}" in
  -h | --help) echo "$usage" ;;
  "")
    echo "$usage" >&2
    exit 2
    ;;
  *) echo "Hello, $1!" ;;
esac
"""

BASH_TOOL = """#!/usr/bin/env bash
# Greets somebody by name; the arguments come as JSON, as an argument or on standard input.
set -euo pipefail

if (($#)); then args=$1; else args=$(cat); fi
jq --compact-output '{greeting: "Hello, \\(.name)!"}' <<<"$args"
"""
