#!/bin/sh
# Usage: finish.sh UID_FIRST UID_COUNT. The last step of every target, because packages may undo what it does.
set -eu
first=$1
last=$(($1 + $2 - 1))

# Every box runs as a uid:gid of its own; programs that ask for their user's name or home must find one.
seq "$first" "$last" | sed 's|.*|box&:x:&:&::/workspace/home:/bin/bash|' >> /etc/passwd
seq "$first" "$last" | sed 's|.*|box&:x:&:|' >> /etc/group

# Unchecked: the root is read-only, so a look at the source's time could only cost.
python3 - <<'PYTHON'
from py_compile import PycInvalidationMode, compile

for source in ("runner.py", "recorder.py", "fork_server.py", "handlers/python.py"):
    source = f"/opt/sandbox-skills/{source}"
    compile(source, cfile=source + "c", doraise=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
PYTHON

find / -xdev ! -type l -perm /6000 -exec chmod ug-s {} +
mkdir -p /workspace /skills
# runc gives a tmpfs the mode of the directory it covers, whatever mode it was asked for.
chmod 0700 /workspace
