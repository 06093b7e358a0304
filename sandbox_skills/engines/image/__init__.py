"""The runner image: what this version needs, whether the daemon has it, and how it is made.

`engines.image_source` says what goes in, `base` what it starts from, `downloads` and `context` what the daemon is
given, `daemon` how it is asked, `builder` joins them.
"""

from sandbox_skills.engines.image.base import REGISTRY_BASE, Base
from sandbox_skills.engines.image.builder import (
    BuiltImage,
    ImageRef,
    ImageStatus,
    OwnImage,
    build,
    own_status,
    prune_images,
    resolve,
    status,
    unfit,
)
from sandbox_skills.engines.image_source import (
    UID_COUNT,
    UID_FIRST,
    Target,
    content_hash,
    image_source,
    image_tag,
)

__all__ = [
    "REGISTRY_BASE",
    "UID_COUNT",
    "UID_FIRST",
    "Base",
    "BuiltImage",
    "ImageRef",
    "ImageStatus",
    "OwnImage",
    "Target",
    "build",
    "content_hash",
    "image_source",
    "image_tag",
    "own_status",
    "prune_images",
    "resolve",
    "status",
    "unfit",
]
