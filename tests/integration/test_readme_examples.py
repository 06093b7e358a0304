"""The examples of the README do what it says, run in a directory like a checkout."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from sandbox_skills.engines.image import image_tag
from sandbox_skills.engines.image.base import mirrors_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import docker

    from tests.conftest import Program

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
OWN_IMAGE = "sandbox-skills-test:readme"
EXAMPLES = {
    name: (language, text)
    for name, language, text in re.findall(
        r"<!-- example: ([\w-]+) -->\n```(\w+)\n(.*?)```", README, re.DOTALL
    )
}


@pytest.fixture
def checkout(program: Program) -> Path:
    shutil.copytree(ROOT / "skills", program.cwd / "skills")
    shutil.copy(ROOT / "README.md", program.cwd)
    return program.cwd


def run(argv: list[str], program: Program) -> str:
    """Returns what an example prints; it must succeed, and complain of nothing."""
    path = f"{Path(program.path).parent}:/usr/bin:/bin"
    done = subprocess.run(
        argv,
        cwd=program.cwd,
        env=program.environ(PATH=path, SKILLS_ROOT=""),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("name", [name for name, (language, _) in EXAMPLES.items() if language == "console"])
def test_every_line_of_a_console_example_works(name: str, program: Program, checkout: Path) -> None:
    lines = re.findall(r"^\$ (.+)$", EXAMPLES[name][1], re.MULTILINE)
    assert lines
    for line in lines:
        before = saved(checkout)
        run(["bash", "-c", line], program)
        assert (saved(checkout) > before) == ("--out-dir results" in line), line


def saved(checkout: Path) -> set[Path]:
    return {path for path in (checkout / "results").rglob("*") if path.is_file()}


def build(daemon: docker.APIClient, folder: Path, recipe: str) -> str:
    """Builds a recipe of the README as it says, and returns the name of the image."""
    (folder / "Dockerfile").write_text(recipe, encoding="utf-8")
    untyped: Any = daemon
    told = [
        str(event.get("stream") or event.get("error", ""))
        for event in untyped.build(
            path=str(folder),
            tag=OWN_IMAGE,
            buildargs={"RUNNER": image_tag("slim")},
            network_mode="host",
            rm=True,
            forcerm=True,
            decode=True,
        )
    ]
    assert untyped.images(name=OWN_IMAGE), "".join(told)
    return OWN_IMAGE


@pytest.fixture
def own_image(daemon: docker.APIClient) -> Iterator[str]:
    yield OWN_IMAGE
    for row in daemon.images(name=OWN_IMAGE):
        daemon.remove_image(row["Id"], force=True)


def test_the_recipe_for_files_makes_an_image_that_serves(
    program: Program, daemon: docker.APIClient, own_image: str, tmp_path: Path
) -> None:
    (tmp_path / "context/site").mkdir(parents=True)
    (tmp_path / "context/site/added_library.py").write_text("WORD = 'here'\n", encoding="utf-8")
    name = build(daemon, tmp_path / "context", EXAMPLES["image-files"][1])
    own = {"SANDBOX_SKILLS_IMAGE__NAME": name}
    done = program.run(
        "run", "python-math", "--", "python3", "-c", "import added_library; print(added_library.WORD)", **own
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "here\n", "")
    assert f"{name}, your own (image.name)" in program.run("doctor", **own).stdout
    assert program.run("image", "status", **own).stdout.startswith(
        f"{name}, your own (image.name): present, "
    )


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_recipe_for_packages_makes_an_image_that_serves_and_names_no_mirror(
    program: Program, daemon: docker.APIClient, own_image: str, tmp_path: Path
) -> None:
    context = tmp_path / "context"
    context.mkdir()
    asked = ["apt-get", "indextargets", "--format", "$(LABEL)\t$(REPO_URI)", "Created-By: Packages"]
    targets = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    lines = mirrors_of(targets)
    (context / "sources.list").write_text("\n".join(lines) + "\n", encoding="utf-8")
    name = build(daemon, context, EXAMPLES["image-packages"][1])
    search = (
        f"hello; grep -rlF {urlsplit(lines[0].split()[1]).hostname} /etc/apt /var/cache /var/lib/apt /var/log"
    )
    done = program.run("run", "python-math", "--command", search, SANDBOX_SKILLS_IMAGE__NAME=name)
    assert done.stdout == "Hello, world!\n", "nothing names the mirror"


@pytest.mark.parametrize("name", [name for name, (language, _) in EXAMPLES.items() if language == "python"])
def test_every_python_example_works(name: str, program: Program, checkout: Path) -> None:
    printed = run([sys.executable, "-W", "error", "-c", EXAMPLES[name][1]], program)
    assert printed == "Exited(code=0) ['out/fib.txt']\n"


def test_the_demo_prints_what_the_readme_shows(program: Program) -> None:
    block = re.search(r"```console\n\$ make demo\n(.*?)```", README, re.DOTALL)
    assert block
    shown, printed = (
        re.sub(r"\d+\.\d\d s", "T s", text) for text in (block[1], run([program.path, "demo"], program))
    )
    assert printed == shown
