"""What a skill says of itself, against what it was seen to do: whatever nobody was told of is a surprise. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

ORDINARY_PROGRAMS = frozenset({
    "awk", "base64", "basename", "bash", "cat", "chmod", "cmp", "cp", "cut", "date", "diff", "dirname", "du",
    "echo", "env", "expr", "false", "find", "fold", "grep", "gawk", "head", "id", "ln", "ls", "mawk", "md5sum",
    "mkdir", "mktemp", "mv", "node", "nl", "od", "paste", "perl", "printf", "python3", "python", "python3.13",
    "pwd", "readlink", "realpath", "rm", "rmdir", "sed", "seq", "sh", "sha256sum", "sleep", "sort", "stat",
    "tail", "tee", "test", "touch", "tr", "true", "tsc", "uniq", "uname", "wc", "which", "xargs",
})  # fmt: skip
"""Interpreters and what shell scripts are made of: a name more would bury what matters."""

ORDINARY_READS = re.compile(
    r"/etc/(passwd|group|nsswitch\.conf|hosts|host\.conf|resolv\.conf|localtime|timezone|locale\.alias|gai\.conf|ssl/.*"
    r"|mime\.types|inputrc|terminfo/.*|fonts/.*|os-release|debian_version|gitconfig)"
    r"|/proc/(self/.*|\d+/(maps|stat|status|cgroup|fd/.*)|meminfo|cpuinfo|stat|version|filesystems|mounts|sys/.*|uptime)"
    r"|/sys/(fs/cgroup|devices/system/cpu|devices/system/node|kernel/mm)/.*"
    r"|/(workspace|tmp|dev/shm|skills|node_modules|var/lib/dpkg|var/cache/fontconfig|run/systemd)(/.*)?"
)
"""What the C library, interpreters and programs read to find their way, and what a run was given."""

OUTPUTS = re.compile(r"/workspace/(out|work|runs|skills)(/.*)?|/(tmp|dev/shm)/.*|.*/__pycache__(/.*)?")
"""Where a run may write: to its outputs and its own working places; bytecode is Python's own doing."""

ORDINARY_VARIABLES = frozenset({
    "CI", "COLUMNS", "CWD", "EDITOR", "HOME", "HOSTNAME", "IFS", "LANG", "LC_ALL", "LINES", "LOGNAME",
    "NO_COLOR", "OLDPWD", "OPTARG", "OPTIND", "OUTPUT_DIR", "PATH", "PWD", "PYTHONPATH", "RANDOM", "REPLY",
    "RUN_DIR", "SHELL", "SKILLS_DIR", "SKILL_DIR", "SKILL_NAME", "TERM", "TMPDIR", "TZ", "USER", "WORK_DIR",
    "WORKSPACE_DIR", "BASH_SOURCE", "BASH_REMATCH", "EUID", "UID", "PPID", "SECONDS", "PIPESTATUS", "FUNCNAME",
    "LINENO", "INPUT_DIR", "XDG_CACHE_HOME",
})  # fmt: skip
"""Those of every shell, and those that a run gets here."""

_NETWORK = re.compile(r"\b(network|internet|online|web access|api access)\b", re.IGNORECASE)
_DENIED = re.compile(
    r"\b(no|without|offline|not? need\w*|never)\b[^.;\n]{0,40}\b(network|internet)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Declared:
    """The texts in which a skill says what it does: SKILL.md and tools.json whole, and two keys of the frontmatter."""

    text: str
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()

    @property
    def network(self) -> bool:
        """Whether `compatibility` says that it needs the network."""
        return bool(_NETWORK.search(self.compatibility)) and not _DENIED.search(self.compatibility)

    def names(self, word: str) -> bool:
        """Tells whether a text has that word, which may be a path, a host or the name of a program."""
        return bool(word) and re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", self.text) is not None


def host_surprise(declared: Declared, place: str) -> str:
    """Returns why an attempt at a place of the network is a surprise, "" where it is none."""
    host = place.removeprefix("name server ").rpartition(":")[0] or place
    if declared.names(host.strip("[]")) or declared.names(place):
        return ""
    if declared.network:
        return ""
    return "compatibility says nothing of a network, and SKILL.md does not name it"


def program_surprise(declared: Declared, path: str) -> str:
    """Returns why a program is a surprise, "" where it is none; `Bash` without a pattern allows all."""
    name = PurePosixPath(path).name
    if name in ORDINARY_PROGRAMS or "Bash" in declared.allowed_tools or declared.names(name):
        return ""
    where = "allowed-tools and SKILL.md do" if declared.allowed_tools else "SKILL.md does"
    return f"{where} not name it" if name else "what was started could not be read"


def read_surprise(declared: Declared, path: str) -> str:
    """Returns why a file that was read is a surprise, "" where it is none."""
    return "" if ORDINARY_READS.fullmatch(path) or declared.names(path) else "SKILL.md does not name it"


def write_surprise(path: str) -> str:
    """Returns why a place that was written to is a surprise, "" where it is none. Nothing that is said allows one."""
    return "" if OUTPUTS.fullmatch(path) else "it is none of the places that a run has for its files"


def variable_surprise(declared: Declared, name: str) -> str:
    """Returns why a variable that a script asks for is a surprise, "" where it is none."""
    return "" if name in ORDINARY_VARIABLES or declared.names(name) else "SKILL.md does not name it"
