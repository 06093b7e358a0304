"""Starts Python programs as forks of an interpreter that is up already, with the common standard library imported.

Theory of operation
===================

The runner loads it where a run may be forked, and starts it as a program of its own: the *server*, an ordinary
`python3` with the environment that runs have. The two speak over a pair of sockets; `ForkServer` is the runner's end.

**Trusted.** The server is started while no program runs in the box, makes itself undumpable before it imports
anything, and imports nothing that is not of the image: a program of the skill can neither read nor write its memory,
nor reach its socket. It is asked only while no other program runs. What a program can do is to stop it or to end it:
then the next one is started as ever.

**A spare.** When nothing runs, the server is told to fork, and does so twice, so that the fork becomes a child of the
runner as any other program. The fork, as protected as the server, waits for the order of the next program. Then it
takes on the order's streams, directory, environment and arguments, looks like an interpreter that has just begun, and
runs the program as `__main__`. Where that could be told in a way that matters, above all where the skill has modules of
names that are imported already, it executes a fresh interpreter in its own place.

**What differs.** The order of sets, as the seed of hashes is the server's; modules that are imported already, which
are not taken apart at the end, nor hidden by a folder that a program puts first; objects that `gc` does not list; one
frame below `__main__`; a process that is older than its program, with another command line in `/proc`.
"""
