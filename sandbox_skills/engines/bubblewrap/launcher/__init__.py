"""The launcher: a process of its own that makes boxes as it is told, and ends them when nobody tells it any more.

Theory of operation
===================

The engine starts this program once, and holds the other end of a socket. Its modules are joined into one text, as those
of the image's programs are: a module costs a start. Why a process: what has to happen between fork
and exec (namespaces, mounts, another uid) is nothing that a program with threads may do; bubblewrap's boxes die with
the *thread* that started them; and somebody must be left to clean up when the engine's process is killed.

**Orders** come as one JSON datagram each: `prepare` once, then `start`, with the channel's end as a descriptor beside
it, or `end`. What a box is made of was decided by the engine (`order.py`); nothing is decided here. **Answers** are one
datagram for each box, when nothing is left of it: its exit code, whether the kernel killed for memory lately, its last
words.

**The stage** is a directory in a mount namespace of the launcher's own, with all that boxes share: the root file system
and the skills. **A child** joins the box's cgroups, takes a mount and an IPC namespace of its own, adds what only this
box has, gives up its rights and becomes bubblewrap. What was mounted goes with the last process of a namespace, so
nobody has to unmount anything.

**The end** of a box is the death of its first process, which takes all others with it; bubblewrap ends after that.
Then the cgroups are removed. When the socket ends, so does every box, and then the launcher.

Standard library only and no pathlib, run with `-I -S`: it starts in 15 ms, and forks in half a millisecond.
"""
