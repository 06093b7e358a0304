"""What every test shares: one event loop, and proof that nothing was left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import settings

from sandbox_skills.engines.bubblewrap import BubblewrapEngine, BubblewrapEngineOptions
from sandbox_skills.engines.bubblewrap.export import provide
from sandbox_skills.engines.bubblewrap.rootfs import Wanted, find, prune
from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.engines.docker_client import connect
from sandbox_skills.engines.docker_config import LABEL_MANAGED
from sandbox_skills.engines.local import LocalEngine, LocalEngineOptions
from sandbox_skills.errors import SandboxSkillsError
from sandbox_skills.workspace.staging import SkillStore
from tests.docker_host import connection
from tests.model_server import ModelServer

collect_ignore = [] if shutil.which("crun") else ["integration/test_crun.py"]

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping

    import docker

ROOT = Path(__file__).parent.parent

ROOT_FILE_SYSTEMS = ROOT / ".state" / "tests" / "rootfs"

LEAK_SECONDS = 10.0

# What a test may take is pytest's business: 0.2 s for an example measures what else this machine does.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


# A shell without job control starts what runs in the background with these ignored, which programs inherit.
for ignored in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, signal.default_int_handler if ignored is signal.SIGINT else signal.SIG_DFL)


@pytest.fixture(scope="session")
def anyio_backend(pytestconfig: pytest.Config) -> tuple[str, dict[str, bool]]:
    """One loop for the whole run, so that an engine can be shared by tests."""
    return ("asyncio", {"use_uvloop": pytestconfig.getoption("uvloop")})


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--uvloop", action="store_true", help="run what is asynchronous on uvloop")


@pytest.fixture(scope="session")
def model_server() -> Iterator[ModelServer]:
    """A scripted model on the loopback. Whoever uses it resets it first."""
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="session")
def daemon() -> Iterator[docker.APIClient]:
    """A client of the Docker Engine. Tests that need it fail without it: they are never skipped."""
    client = connect(connection())
    yield client
    client.close()


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> SkillStore:
    return SkillStore(tmp_path_factory.mktemp("data") / "store")


@pytest.fixture(scope="session")
async def docker_engine(
    anyio_backend: object, store: SkillStore, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DockerEngine]:
    """The real engine over the image that `make image` built, its checks from inside included."""
    async with _engine(store, tmp_path_factory.mktemp("engine"), "auto") as engine:
        yield engine


@pytest.fixture(scope="session")
async def attached_engine(
    anyio_backend: object, store: SkillStore, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DockerEngine]:
    """The same engine, speaking to its boxes over Docker's attached stream, as it does where no socket works."""
    async with _engine(store, tmp_path_factory.mktemp("engine"), "attach") as engine:
        yield engine


@asynccontextmanager
async def _engine(
    store: SkillStore, data_dir: Path, channel: Literal["auto", "attach"]
) -> AsyncGenerator[DockerEngine]:
    engine = DockerEngine(
        DockerEngineOptions(
            data_dir=data_dir,
            connection=connection(),
            skills_dir=store.mount_dir,
            marker=store.marker(),
            channel=channel,
        )
    )
    try:
        yield engine
    finally:
        await engine.aclose()


@pytest.fixture(scope="session")
def root_file_systems(daemon: docker.APIClient) -> Path:
    """Where bubblewrap's boxes have their root file system: exported once for this checkout, as that takes seconds."""
    prune(ROOT_FILE_SYSTEMS, frozenset({Wanted().name}))
    provide(daemon, ROOT_FILE_SYSTEMS, Wanted())
    return ROOT_FILE_SYSTEMS


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exports the files before the first test, which has no time for that of its own."""
    needed = any(item.get_closest_marker("bubblewrap") for item in session.items)
    if needed and not session.config.option.collectonly and find(ROOT_FILE_SYSTEMS, Wanted()) is None:
        with suppress(SandboxSkillsError), closing(connect(connection())) as client:  # the fixture tells why
            provide(client, ROOT_FILE_SYSTEMS, Wanted())


@pytest.fixture(scope="session")
async def bubblewrap_engine(
    anyio_backend: object,
    store: SkillStore,
    root_file_systems: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[BubblewrapEngine]:
    """The real engine over the exported image, its checks from inside included."""
    engine = BubblewrapEngine(
        BubblewrapEngineOptions(
            data_dir=tmp_path_factory.mktemp("bubblewrap"),
            skills_dir=store.mount_dir,
            marker=store.marker(),
            rootfs_dir=root_file_systems,
        )
    )
    yield engine
    await engine.aclose()


@pytest.fixture(scope="session")
def local_engine(store: SkillStore, tmp_path_factory: pytest.TempPathFactory) -> LocalEngine:
    """The engine that isolates nothing."""
    return LocalEngine(LocalEngineOptions(tmp_path_factory.mktemp("local"), store.mount_dir))


@dataclass(frozen=True, slots=True)
class Program:
    """`sandbox-skills` as a process of its own, as its users start it; the sample skills are all it knows."""

    home: Path
    data_dir: Path
    cwd: Path

    @property
    def path(self) -> str:
        return str(Path(sys.executable).with_name("sandbox-skills"))

    def environ(self, **more: str) -> dict[str, str]:
        kept = (
            "PATH",
            "DOCKER_CONFIG",
            "DOCKER_CERT_PATH",
            "DOCKER_TLS_VERIFY",
            "TMPDIR",
            "COVERAGE_PROCESS_START",
        )
        mine = {name: os.environ[name] for name in kept if name in os.environ}  # noqa: TID251  # a child's environment
        ours = {"SANDBOX_SKILLS_DATA_DIR": str(self.data_dir), "SKILLS_ROOT": str(ROOT / "skills")}
        # Contexts are found below HOME, which is not the user's here.
        return {**mine, "HOME": str(self.home), "DOCKER_HOST": connection().host, **ours, **more}

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Runs one command line to its end, with no input."""
        return subprocess.run(
            [self.path, *arguments],
            cwd=self.cwd,
            env=self.environ(**environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401  # as Popen
        """Starts one command line in a process group of its own; stdout and stderr are pipes unless given."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        environ = self.environ(**options.pop("environ", {}))
        argv = [self.path, *arguments]
        return subprocess.Popen(argv, cwd=self.cwd, env=environ, process_group=0, **{**pipes, **options})


@pytest.fixture
def program(tmp_path: Path, store: SkillStore) -> Program:
    """Shares one store with the other tests, so that what it leaves in the daemon is known as ours."""
    return Program(home=tmp_path, data_dir=store.mount_dir.parent.parent, cwd=tmp_path)


@pytest.fixture(scope="session", autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where this run, and every program that it starts, has temporary files: those of others lie elsewhere."""
    tmp_path_factory.getbasetemp()  # chosen now, in the usual place: pytest keeps it for who looks into a failure
    with (
        tempfile.TemporaryDirectory(prefix="sandbox-skills-tests-") as name,
        pytest.MonkeyPatch.context() as patch,
    ):
        Path(name).chmod(0o1777)  # as what it stands for: some programs run as another user
        patch.setenv("TMPDIR", name)
        patch.setattr(tempfile, "tempdir", name)
        yield Path(name)


@pytest.fixture(autouse=True)
def nothing_left(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, temporary: Path
) -> Iterator[None]:
    """After each Docker test everything that a sandbox may hold is as it was before."""
    if request.node.get_closest_marker("docker") is None:
        yield
        return
    client: docker.APIClient = request.getfixturevalue("daemon")
    ours = str(tmp_path_factory.getbasetemp())
    before = _inventory(client, ours, temporary)
    yield
    deadline = time.monotonic() + LEAK_SECONDS
    while (left := _inventory(client, ours, temporary) - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, f"left behind: {sorted(left)}"


def _inventory(client: docker.APIClient, ours: str, temporary: Path) -> set[str]:
    """What a sandbox may hold; others may use this daemon, so containers are those on our stores."""
    containers = client.containers(all=True, filters={"label": f"{LABEL_MANAGED}=1"})
    # One that a container still uses is not left behind, and may be a stranger's.
    volumes = client.volumes(filters={"dangling": True})["Volumes"] or []
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return {
        *(f"container {row['Id']}" for row in containers if _mounts_below(row, ours)),
        *(f"volume {row['Name']}" for row in volumes),
        *(f"mount {line.split()[4]}" for line in mounts if ours in line),
        *(f"lease {name}" for name in _own_sockets() if name.startswith("@sandbox-skills-uid-")),
        *(f"temporary {path}" for path in temporary.glob("sandbox-skills-*")),
        *(f"unfinished {path}" for path in Path(ours).glob("*/store/temporary/*")),
        *(f"socket {path}" for path in Path(ours).glob("*/sockets/*/*")),
        *(f"socket {path}" for path in Path(ours).glob("*/store/sockets/*/*")),
    }


def _mounts_below(row: Mapping[str, Any], folder: str) -> bool:
    return any(str(mount.get("Source", "")).startswith(folder) for mount in row["Mounts"])


def _own_sockets() -> set[str]:
    """Names of the abstract sockets that this process holds."""
    inodes = {str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    rows = [line.split() for line in Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()[1:]]
    return {row[7] for row in rows if len(row) > 7 and f"socket:[{row[6]}]" in inodes}
