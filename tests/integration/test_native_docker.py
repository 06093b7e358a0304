"""Tools of skills as real programs in a real box: every convention, and handlers that do what they must not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.catalog import Catalog, SkillRoot, defined_tools
from sandbox_skills.spec import MIB, SandboxLimits, SandboxSpec
from sandbox_skills.toolsets.base import Conversation, ToolCall, ToolResult
from sandbox_skills.toolsets.native import NativeToolset
from sandbox_skills.toolsets.offered import OfferedSkills
from sandbox_skills.toolsets.skill_runs import SkillRuns
from sandbox_skills.toolsets.tool_making import ToolMaking
from sandbox_skills.toolsets.toolbox import Toolbox
from sandbox_skills.workspace.manager import WorkspaceManager
from sandbox_skills.workspace.sessions import SessionManager

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from sandbox_skills.catalog.manifest_json import JsonValue
    from sandbox_skills.engines.base import Engine
    from sandbox_skills.workspace.staging import SkillStore

pytestmark = [pytest.mark.anyio, pytest.mark.docker, pytest.mark.timeout(60)]

SPEC = SandboxSpec(limits=SandboxLimits(memory=256 * MIB, workspace_bytes=32 * MIB))

WORK_DIR = "/workspace/work"

ESM = "export default async function handler(args) { %s }"
CJS = "module.exports = function handler(args) { %s };"
PYTHON = "def handler(args):\n    %s\n"

HONEST = {
    "esm.js": ESM % "return { sum: args.a + 1, dir: args.__workDir };",
    "esm.mjs": ESM % "return { sum: args.a + 1, dir: args.__workDir };",
    "named.js": "export function handler({ a, __workDir: dir }) { return { sum: a + 1, dir }; }",
    "top_await.js": "const one = await 1; " + ESM % "return { sum: args.a + one, dir: args.__workDir };",
    "common.js": CJS % "return { sum: args.a + 1, dir: args.__workDir };",
    "common.cjs": CJS % "return { sum: args.a + 1, dir: args.__workDir };",
    "compiled.js": "'use strict'; Object.defineProperty(exports, '__esModule', { value: true });"
    " exports.default = async (args) => ({ sum: args.a + 1, dir: args.__workDir });",
    "object.cjs": "module.exports = { handler: ({ a, __workDir: dir }) => ({ sum: a + 1, dir }) };",
    "program.ts": "type Args = { a: number; __workDir: string };\n"
    "export default async (args: Args): Promise<object> => ({ sum: args.a + 1, dir: args.__workDir as string });",
    "plain.py": PYTHON % "return {'sum': args['a'] + 1, 'dir': args['__workDir']}",
    "async.py": "async " + PYTHON % "return {'sum': args['a'] + 1, 'dir': args['__workDir']}",
    "main.py": PYTHON % "return {'sum': args['a'] + 1, 'dir': args['__workDir']}"
    + "import json, sys\nif __name__ == '__main__':\n    print(json.dumps(handler(json.loads(sys.argv[1]))))\n",
    "script.py": "import json, sys\nargs = json.load(sys.stdin)\n"
    "print(json.dumps({'sum': args['a'] + 1, 'dir': args['__workDir']}))\n",
    "stdin.sh": "echo Loading…\njq '{sum: (.a + 1), dir: .__workDir}'\n",
    "argv.sh": 'jq --null-input --compact-output "$1 | {sum: (.a + 1), dir: .__workDir}"\n',
    "perl.pl": 'print \'{"sum": \', ($ARGV[0] =~ /"a": (\\d+)/)[0] + 1, \', "dir": "/workspace/work"}\';',
    "shebang": "#!/usr/bin/env python3\nimport json, sys\nargs = json.loads(sys.argv[1])\n"
    "print(json.dumps({'sum': args['a'] + 1, 'dir': args['__workDir']}))\n",
}

NOISE_JS = (
    "console.log('{\"forged\": 1}'); process.stdout.write('raw'); (await import('node:fs')).writeSync(1, 'fd');"
    " (await import('node:child_process')).spawnSync('echo', ['child'], { stdio: 'inherit' });"
)
NOISE_PYTHON = (
    "print('{\"forged\": 1}'); import os, subprocess; os.write(1, b'fd'); subprocess.run(['echo', 'child'])"
)

VALUES: dict[str, tuple[str, JsonValue]] = {
    "null.js": (ESM % "", None),
    "text.js": (ESM % "return 'a\\ud800 \\u{1f600}';", "a\ufffd \N{GRINNING FACE}"),
    "nan.js": (ESM % "return [NaN, Infinity];", [None, None]),
    "proto.js": (
        ESM
        % "Object.prototype.polluted = 1; Array.prototype.toJSON = undefined; return JSON.parse('{\"__proto__\": 1}');",
        {"__proto__": 1},
    ),
    "patched.js": (
        ESM
        % "JSON.stringify = () => '1'; process.exit = () => {}; console.error = null; return { kept: true };",
        {"kept": True},
    ),
    "late.js": (
        ESM % "setInterval(() => {}, 1000); return 1;",
        1,
    ),
    "noise.js": (ESM % (NOISE_JS + "return 5;"), 5),
    "noise.py": (PYTHON % (NOISE_PYTHON + "; return 5"), 5),
    "exit_code.js": (ESM % "process.exitCode = 3; return 1;", 1),
    "forks.py": (PYTHON % "import os, time; os.fork() or time.sleep(600); return os.getpid() > 1", True),
    "daemon.py": (
        PYTHON
        % "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True); return 'left alone'",
        "left alone",
    ),
    "none.py": (PYTHON % "return None", None),
    "big.py": (PYTHON % "return 'x' * 60_000", "x" * 60_000),
}

FAILURES = {
    "throws.js": (ESM % "throw new RangeError('no such city');", "RangeError: no such city"),
    "plain.js": (ESM % "throw new Error('plain');", "plain"),
    "text.js": (ESM % "throw 'just text';", "just text"),
    "object.js": (ESM % "throw { code: 7 };", 'threw {"code":7}'),
    "null.js": (ESM % "throw null;", "threw null"),
    "symbol.js": (ESM % "throw Symbol('s');", "threw Symbol(s)"),
    "hostile.js": (
        ESM % "throw new Proxy({}, { get() { throw 1; }, getPrototypeOf() { throw 1; } });",
        "threw a value that cannot be shown",
    ),
    "bigint.js": (ESM % "return 1n;", "TypeError: Do not know how to serialize a BigInt"),
    "cyclic.js": (ESM % "args.self = args; return args;", "TypeError: Converting circular structure to JSON"),
    "function.js": (ESM % "return () => 1;", "TypeError: the result is a function, which JSON cannot hold"),
    "exits.js": (ESM % "process.exit(0);", "the handler ended without a result"),
    "exits_badly.js": (ESM % "process.exit(4);", "the handler ended with exit status 4"),
    "never.js": (ESM % "await new Promise(() => {});", "the handler ended without a result"),
    "later.js": (
        ESM % "setTimeout(() => { throw new Error('from a timer'); }, 1); await new Promise(() => {});",
        "from a timer",
    ),
    "rejected.js": (
        ESM % "Promise.reject(new Error('nobody waits')); await 1; return new Promise(() => {});",
        "nobody",
    ),
    "no_export.js": ("export const x = 1;", "TypeError: the script exports no default function"),
    "syntax.js": ("export default function (", "SyntaxError: "),
    "missing.js": ("import 'no-such-package'; " + ESM % "", "Cannot find package 'no-such-package'"),
    "enum.ts": (
        "enum A { B } export default () => A.B;",
        "SyntaxError [ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX]: ",
    ),
    "huge.js": (ESM % "return 'x'.repeat(70_000);", "the result has 70,002 bytes, more than 65,536"),
    "flood.py": (PYTHON % "return 'x' * 3_000_000", "the result has 3,000,002 bytes, more than 65,536"),
    "raises.py": (PYTHON % "return args['city']", "KeyError: 'city'"),
    "nan.py": (
        PYTHON % "return float('nan')",
        "ValueError: Out of range float values are not JSON compliant",
    ),
    "cyclic.py": (PYTHON % "args['self'] = args; return args", "ValueError: Circular reference detected"),
    "exits.py": (PYTHON % "import os; os._exit(0)", "the handler ended without a result"),
    "quits.py": (PYTHON % "import sys; sys.exit('no key is set')", "no key is set"),
    "segfault.py": (PYTHON % "import ctypes; ctypes.string_at(0)", "the handler was ended by signal 11"),
    "memory.py": (PYTHON % "x = b'1' * (1 << 40)", "MemoryError"),
    "forged.py": (PYTHON % "print('{\"forged\": 1}'); raise ValueError('mine')", "ValueError: mine"),
    "text.sh": ("echo all is well\n", "the result is no JSON (Expecting value): all is well"),
    "silent.sh": ("true\n", "the handler ended without a result"),
    "fails.sh": ('echo \'{"error": "no such city"}\'; exit 3\n', "no such city"),
    "fails_on_stderr.sh": ("echo 'no such city' >&2; exit 3\n", "no such city"),
    "endless.sh": ("sleep 60\n", "the handler was stopped: it took longer than the 2"),
}


@dataclass
class World:
    box: Toolbox
    talk: Conversation

    async def call(self, tool: str, **arguments: object) -> ToolResult:
        return await self.box.call(ToolCall(tool, arguments), self.talk)


def tool_name(file: str) -> str:
    return file.replace(".", "_")


def write_skill(root: Path, name: str, files: dict[str, str]) -> None:
    """A skill with a tool for each file."""
    scripts = root / name / "scripts"
    scripts.mkdir(parents=True)
    (root / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Tools.\n---\n", encoding="utf-8")
    optional = {"type": "number", "description": "A number.", "optional": True}
    tools = []
    for file, source in files.items():
        (scripts / file).write_text(source, encoding="utf-8")
        tool = {"name": f"{name}_{tool_name(file)}", "description": "d", "script": f"scripts/{file}"}
        text = {"type": "string", "description": "Text.", "optional": True}
        tools.append({**tool, "parameters": {"a": optional, "text": text}})
    (root / name / "tools.json").write_text(json.dumps(tools), encoding="utf-8")


@pytest.fixture(scope="module")
async def world(
    docker_engine: Engine, store: SkillStore, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[World]:
    """One conversation for every call: what one handler does to the box is there when the next one runs."""
    root = tmp_path_factory.mktemp("skills")
    write_skill(
        root,
        "honest",
        {**HONEST, "length.py": PYTHON % "import sys; return [len(args['text']), len(sys.argv)]"},
    )
    write_skill(root, "values", {name: source for name, (source, _) in VALUES.items()})
    write_skill(root, "failures", {name: source for name, (source, _) in FAILURES.items()})
    skills = OfferedSkills(Catalog([SkillRoot(str(root))]))
    manager = WorkspaceManager(docker_engine, store, spec=SPEC)
    temporary = tmp_path_factory.mktemp("defined")
    with defined_tools(None, temporary=temporary) as defined:
        async with SessionManager(manager) as sessions:
            await sessions.open("c", tenant="t")  # so that each test finds the box there, and leaves it
            making = ToolMaking(defined, skills, tenant="t")
            toolset = NativeToolset(SkillRuns(skills, sessions), making=making, timeout=2)
            yield World(Toolbox([toolset]), Conversation("c", tenant="t"))


@pytest.mark.parametrize("file", HONEST)
async def test_each_convention_gets_its_arguments_and_answers(world: World, file: str) -> None:
    result = await world.call(f"honest_{tool_name(file)}", a=1)
    assert (result.content, result.is_error) == ({"sum": 2, "dir": WORK_DIR}, False)


@pytest.mark.parametrize("file", VALUES)
async def test_a_result_arrives_whatever_else_the_handler_does(world: World, file: str) -> None:
    result = await world.call(f"values_{tool_name(file)}")
    assert (result.content, result.is_error) == (VALUES[file][1], False)


@pytest.mark.parametrize("file", FAILURES)
async def test_a_failure_is_one_error_with_its_message(world: World, file: str) -> None:
    result = await world.call(f"failures_{tool_name(file)}")
    assert (result.status, result.is_error) == ("ok", True)
    assert isinstance(result.content, dict)
    assert list(result.content) == ["error"]
    told = str(result.content["error"])
    assert told.startswith(FAILURES[file][1])
    assert "/opt/sandbox-skills" not in told
    assert "    at " not in told


@pytest.mark.parametrize(("characters", "arguments"), [(90_000, 2), (110_000, 1), (900_000, 1)])
async def test_long_arguments_come_on_standard_input_alone(
    world: World, characters: int, arguments: int
) -> None:
    result = await world.call("honest_length_py", text="x" * characters)
    assert result.content == [characters, arguments]


@pytest.mark.parametrize(
    ("language", "code"),
    [("python", "return {'sum': args['a'] + 1}"), ("javascript", "return { sum: args.a + 1 };")],
)
async def test_a_tool_that_the_model_defines_answers(world: World, language: str, code: str) -> None:
    parameters = {"a": {"type": "number", "description": "What is increased"}}
    made = await world.call(
        "define_tool",
        name="add_one",
        description="Adds one.",
        code=code,
        language=language,
        parameters=parameters,
    )
    assert not made.is_error
    assert (await world.call("add_one", a=1)).content == {"sum": 2}
    assert not (await world.call("remove_tool", name="add_one")).is_error


async def test_handlers_share_the_files_of_their_conversation(world: World) -> None:
    write = "open('note.txt', 'w').write('kept'); return None"
    read = "return (await import('node:fs')).readFileSync(`${args.__workDir}/note.txt`, 'utf8');"
    await world.call("define_tool", name="note", description="d", code=write)
    assert not (await world.call("note")).is_error
    await world.call("define_tool", name="note", description="d", code=read, language="javascript")
    assert (await world.call("note")).content == "kept"
