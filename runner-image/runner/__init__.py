"""The runner: the one trusted program in every box. Standard library only, Python 3.11 to 3.13.

Theory of operation
===================

Its modules are joined into one file, because each would cost every start (`sandbox_skills/engines/image_programs.py`).
An engine starts that as pid 1 of a box and holds the other end of its stdin and stdout, the *channel*, or listens at a
socket of the box's machine, which is the faster one (`--channel`). All that happens in the box is a frame on the
channel: `sandbox_skills/engines/wire.py` has the table. Everything else in the box, most of all the skill's command, is
hostile and has the same uid as the runner.

**The channel is ours alone.** First of all, stdin and stdout are moved to close-on-exec descriptors, and the runner
makes itself undumpable, so that no program in the box can reach them through `/proc/1/fd` or read its memory.

**One thread, one loop.** `Runner.serve` waits in epoll for the channel, the pipes of the runs and SIGCHLD. Nothing in
it blocks: children's pipes are not read while the host is slow, standard input is queued as far as the host was told
that there is room for it, and files travel in turns of one chunk (`Transfer`), as far as the host's credit goes. The
channel itself is read all the time, because a cancel or the end of the host comes that way. When the channel ends, so
does everything in the box.

**A run** (`Run`) is a root process with a session of its own and all that descends from it. It is over when its root
has ended or a limit has stopped it. Then every process left of it is killed with SIGKILL and buried, the pipes are
emptied of what they hold, and one ENDED goes out, in that order. What the program did to stay alive (a new session, a
double fork, SIGSTOP, ignored signals, a pipe held open) does not matter to a SIGKILL sent by pid 1: orphans become
its children, and "no child is left" is an exact answer. Where other runs live, or where the runner is not pid 1
(tests, the `local` engine), `kill(-1)` would hit bystanders, so `/proc` is searched for whatever descends from the
runner and cannot be traced to a run that still lives (`Reaper`). Shared memory, semaphores and queues that outlive
processes are removed behind the ENDED of the last run that lives (`clear_ipc`).

**A terminal** (`Terminal`), where a run asks for one, takes the place of its three pipes and controls its session. It
changes nothing about the end: what the terminal's hang-up does not end, SIGKILL does.

**A recording** (`recorder/`, beside this folder), where a run asks for one, watches the calls of its processes from
here. It decides nothing, and takes no limit away.

**A fork server** (`fork_server/`, beside this folder), where runs ask for one, starts Python programs faster. It is the
only other process that lives on from run to run, and what is left of a run costs it its life.

**Files** are reached from a descriptor of the workspace, name by name, and no link is ever followed (`Workspace`), so
that a skill which swaps a directory for a link gets an error instead of a file from somewhere else.

**Errors.** A request that cannot be met is answered with ERROR and a code. A stream that cannot be frames is the end:
the runner kills all and exits with 3. It exits with 0 when the host closes the channel.
"""
