"""The recorder: what a run tries, seen from outside its processes. The runner loads it for a run that wants one.

Theory of operation
===================

The program is started behind a seccomp filter of its own, which the kernel puts on top of the box's. For the calls
that the run is to be recorded of, the filter says USER_NOTIF: the kernel holds the caller, hands the call's registers
to whoever has the filter's listener, and goes on when told to. The listener is the runner's; a process in the box never
has it. The answer is always the same, CONTINUE: the kernel makes the call as it would have been made, with every other
filter, permission and limit of the box as it was. Between filters the strictest answer counts, and USER_NOTIF is less
strict than ERRNO, so that what the box refuses stays refused, and is not seen here.

Nothing in the box can take the filter off, and children inherit it, whatever they are written in. What a call points
at is read from the caller's memory while it waits. That is a record and no decision: a program with two threads can
have changed it by the time the kernel looks, and one that has made itself undumpable cannot be read; then it is told
that there was a call, and not where to.

The listener is born in the program's own process, between fork and exec, and has to be sent to the runner by a call
that the filter would hold. So the filter lets calls pass that have a random number of 64 bits in their last register,
which these calls do not use. Nothing that runs after the exec knows it.
"""
