"""Names of programs in a command line: what they come to, and those that would run anything. Pure."""

from __future__ import annotations

import posixpath

SHELLS = frozenset(
    {
        "ash",
        "bash",
        "busybox",
        "csh",
        "dash",
        "fish",
        "ksh",
        "mksh",
        "pwsh",
        "rbash",
        "sh",
        "tcsh",
        "toybox",
        "zsh",
    }
)

STARTERS = frozenset(
    {
        *(
            "chroot",
            "coproc",
            "doas",
            "env",
            "flock",
            "ionice",
            "ltrace",
            "nice",
            "nohup",
            "nsenter",
            "parallel",
        ),
        *(
            "runcon",
            "runuser",
            "script",
            "setarch",
            "setpriv",
            "setsid",
            "sg",
            "stdbuf",
            "strace",
            "su",
            "sudo",
        ),
        *("taskset", "time", "timeout", "unshare", "watch", "xargs"),
    }
)
"""Programs whose arguments are a command, which would be started unjudged."""

BUILTINS = frozenset(
    {
        *(".", "alias", "bg", "bind", "builtin", "caller", "cd", "command", "compgen", "complete", "compopt"),
        *(
            "declare",
            "dirs",
            "disown",
            "enable",
            "eval",
            "exec",
            "exit",
            "export",
            "fc",
            "fg",
            "getopts",
            "hash",
        ),
        *(
            "history",
            "jobs",
            "let",
            "local",
            "logout",
            "mapfile",
            "popd",
            "printf",
            "pushd",
            "read",
            "readarray",
        ),
        *(
            "readonly",
            "return",
            "set",
            "shift",
            "shopt",
            "source",
            "suspend",
            "times",
            "trap",
            "type",
            "typeset",
        ),
        *("ulimit", "umask", "unalias", "unset", "wait"),
    }
)
"""What changes the shell that reads the rest of the line: where it is, what its words mean, what its variables hold.

`printf -v` and `read` set variables, `cd` makes another program of a relative path.
"""

LAUNCHERS = SHELLS | STARTERS | BUILTINS
"""Never admitted where command lines are judged at all. A program that can start others, such as `find` or `awk`, is
as good as all of them: whoever allows it allows that."""

RESERVED = frozenset(
    {
        *(
            "!",
            "[[",
            "]]",
            "case",
            "coproc",
            "do",
            "done",
            "elif",
            "else",
            "esac",
            "fi",
            "for",
            "function",
            "if",
        ),
        *("in", "select", "then", "time", "until", "while", "{", "}"),
    }
)
"""Words that bash does not take for a program."""


def base_name(program: str) -> str:
    """Returns the last part of a program's path, without regard to capitals."""
    return posixpath.basename(program.rstrip("/")).casefold() or program


def named(program: str) -> str:
    """Returns the one spelling of a program's name: a path without detours, which stays a path; a word as it is."""
    if "/" not in program:
        return program
    path = posixpath.normpath(program)
    return path if "/" in path else f"./{path}"
