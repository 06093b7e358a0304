"""The system calls that a skill may make whatever their arguments, by what they are for.

Left out of what Docker allows by default, beside all that needs a capability: io_uring (a kernel inside the kernel),
ptrace, process_vm_*, pidfd_getfd and process_madvise (other processes), sync, syncfs and io_setup (they stall or use
up the host for its other users), name_to_handle_at and fanotify_mark (halves of calls that need a capability),
memfd_secret, modify_ldt, remap_file_pages, the clock's tuning, and all names that only 32-bit ABIs have.
"""

from __future__ import annotations

ALLOWED = {
    "memory": (
        "brk", "madvise", "membarrier", "memfd_create", "mincore", "mlock", "mlock2", "mlockall", "mmap",
        "mprotect", "mremap", "mseal", "msync", "munlock", "munlockall", "munmap", "map_shadow_stack",
        "pkey_alloc", "pkey_free", "pkey_mprotect",
    ),
    "processes and threads": (
        "execve", "execveat", "exit", "exit_group", "futex", "futex_requeue", "futex_wait", "futex_waitv",
        "futex_wake", "get_robust_list", "getpgid", "getpid", "getppid", "getpriority", "getrlimit",
        "getrusage", "getsid", "gettid", "ioprio_get", "pidfd_open", "prctl", "restart_syscall", "rseq",
        "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr",
        "sched_getparam", "sched_getscheduler", "sched_rr_get_interval", "sched_yield", "set_robust_list",
        "set_tid_address", "setpgid", "setsid", "times", "wait4", "waitid",
    ),
    "identity, where all but reading fails without capabilities": (
        "capget", "capset", "getegid", "geteuid", "getgid", "getgroups", "getresgid", "getresuid", "getuid",
        "setfsgid", "setfsuid", "setgid", "setgroups", "setregid", "setresgid", "setresuid", "setreuid",
        "setuid",
    ),
    "signals": (
        "kill", "pidfd_send_signal", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo",
        "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "sigaltstack", "signalfd4",
        "tgkill", "tkill",
    ),
    "clocks and timers": (
        "clock_getres", "clock_gettime", "clock_nanosleep", "getitimer", "gettimeofday", "nanosleep",
        "setitimer", "timer_create", "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime",
        "timerfd_create", "timerfd_gettime", "timerfd_settime",
    ),
    "files and directories": (
        "cachestat", "chdir", "close", "close_range", "copy_file_range", "dup", "dup3", "faccessat",
        "faccessat2", "fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown",
        "fchownat", "fcntl", "fdatasync", "fgetxattr", "flistxattr", "flock", "fremovexattr", "fsetxattr",
        "fstat", "fstatfs", "fsync", "ftruncate", "getcwd", "getdents64", "getxattr", "getxattrat",
        "inotify_add_watch", "inotify_init1", "inotify_rm_watch", "lgetxattr", "linkat", "listxattr",
        "listxattrat", "llistxattr", "lremovexattr", "lseek", "lsetxattr", "mkdirat", "newfstatat", "openat",
        "openat2", "pipe2", "readahead", "readlinkat", "removexattr", "removexattrat", "renameat",
        "renameat2", "setxattr", "setxattrat", "statfs", "statx", "symlinkat", "sync_file_range", "truncate",
        "umask", "unlinkat", "utimensat",
    ),
    "FIFOs and regular files; a device node needs a capability": ("mknodat",),
    "reading and writing": (
        "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readv", "sendfile",
        "splice", "tee", "vmsplice", "write", "writev",
    ),
    "waiting for descriptors": (
        "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "eventfd2", "ppoll", "pselect6",
    ),
    "sockets once made": (
        "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen",
        "recvfrom", "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
    ),
    "System V and POSIX message queues, semaphores, shared memory of the box's own IPC namespace": (
        "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink", "msgctl",
        "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop", "shmat", "shmctl", "shmdt",
        "shmget",
    ),
    "facts about the system": ("getcpu", "getrandom", "sysinfo", "uname"),
    "a program's own sandbox": (
        "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "seccomp",
    ),
}  # fmt: skip
"""Reason → names. Names that the host's libseccomp does not know are skipped by runc."""

X86_64_ONLY = (
    "access", "alarm", "arch_prctl", "chmod", "chown", "creat", "dup2", "epoll_create", "epoll_wait", "eventfd",
    "fork", "futimesat", "getdents", "getpgrp", "inotify_init", "lchown", "link", "lstat", "mkdir", "mknod",
    "open", "pause", "pipe", "poll", "readlink", "rename", "rmdir", "select", "signalfd", "stat", "symlink",
    "time", "unlink", "utime", "utimes", "vfork",
)  # fmt: skip
"""The older spellings, which aarch64 was made without."""
