"""The wheel stands alone: it builds the same image, applies the same profile and shows the same samples."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LOOK = """
import json
from sandbox_skills.bundled import bundled
from sandbox_skills.engines.image import content_hash
from sandbox_skills.engines.seccomp.profile import profile_digest
print(json.dumps({
    "image": content_hash("slim"), "full": content_hash("full"), "profile": profile_digest(),
    "skills": sorted(path.name for path in bundled("skills").iterdir() if path.is_dir()),
    "from": str(bundled("skills")),
}))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, installed into a folder of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site-packages"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-index"]
    subprocess.run([*pip, "--no-deps", "--target", str(site), str(wheel)], check=True, capture_output=True)
    return site


def seen_from(folder: Path) -> dict[str, object]:
    import json

    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{LOOK}"],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_the_wheel_and_the_checkout_are_the_same(installed: Path) -> None:
    from_wheel, from_checkout = seen_from(installed), seen_from(ROOT)
    assert str(from_wheel.pop("from")).startswith(str(installed))
    assert from_checkout.pop("from") == str(ROOT / "skills")
    assert from_wheel == from_checkout


def test_the_wheel_holds_the_package_and_what_travels_with_it_alone(installed: Path) -> None:
    assert {path.name for path in installed.iterdir()} == {
        "bin",
        "sandbox_skills",
        "sandbox_skills-0.1.0.dist-info",
    }
    assert {path.name for path in (installed / "sandbox_skills" / "_data").iterdir()} == {
        "config",
        "runner-image",
        "skills",
    }
