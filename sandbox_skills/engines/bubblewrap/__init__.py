"""Boxes made by bubblewrap, in this process's own name and without a daemon.

`host` looks at what there is, `cgroup`, `arguments` and `order` decide what a box is made of, `launcher` is the process
that makes it, `launch` our side of that, `rootfs` where its files come from, `engine` joins them.
"""

from sandbox_skills.engines.bubblewrap.engine import BubblewrapEngine, BubblewrapEngineOptions

__all__ = ["BubblewrapEngine", "BubblewrapEngineOptions"]
