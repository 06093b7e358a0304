"""The tools of the `full` image at work under the filter of calls, each once: `make full-tools`.

Not among the tests that run each time: the image takes minutes to build, and 2.3 GB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sandbox_skills.engines.docker import DockerEngine, DockerEngineOptions
from sandbox_skills.spec import MIB, WORKSPACE, Command, Exited, Limits, SandboxLimits, SandboxSpec
from sandbox_skills.workspace.layout import run_environment
from tests.docker_host import connection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sandbox_skills.engines.base import Sandbox
    from sandbox_skills.workspace.staging import SkillStore

pytestmark = [pytest.mark.anyio, pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(180)]

SPEC = SandboxSpec(limits=SandboxLimits(memory=1536 * MIB, pids=512))
"""LibreOffice needs more than a script does."""

OFFICE = "soffice --headless --convert-to"

PROGRAMS = {
    "pandoc": "printf '# Title\\n\\ntext\\n' > a.md; pandoc a.md -o a.docx; pandoc a.docx -t plain | grep Title",
    "libreoffice writer": f"{OFFICE} pdf a.docx > log; pdftotext a.pdf - | grep Title",
    "libreoffice calc": f"echo a,b > a.csv; {OFFICE} xlsx a.csv > log; {OFFICE} pdf a.xlsx > log; ls a.pdf",
    "libreoffice impress": f"{OFFICE} odp a.pptx > log; {OFFICE} pdf a.odp > log; pdftotext a.pdf - | grep slide",
    "ffmpeg": "ffmpeg -v error -f lavfi -i testsrc=d=1 -f lavfi -i sine=d=1 a.mp4; ffprobe -v error a.mp4; ls a.mp4",
    "imagemagick": "convert -size 600x120 -pointsize 60 -font DejaVu-Sans label:SKILLS a.png; identify a.png",
    "tesseract": "tesseract a.png - 2> log | grep SKILLS",
    "qpdf": "qpdf --linearize a.pdf b.pdf; qpdf --check b.pdf | grep -c linearized",
    "poppler": "pdftoppm -r 50 -png a.pdf page; ls page*.png; pdfinfo a.pdf | grep Pages",
}
"""In this order: some take what another has made."""

LIBRARIES = """
import io, multiprocessing, threading
import numpy, pandas, scipy.linalg, sklearn.cluster, matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
from concurrent.futures import ProcessPoolExecutor
square = numpy.random.default_rng(0).random((400, 400))
assert numpy.allclose(square @ numpy.linalg.inv(square), numpy.eye(400), atol=1e-6)
assert scipy.linalg.svdvals(square).shape == (400,)
assert sklearn.cluster.KMeans(3, n_init=1).fit(square).labels_.shape == (400,)
plt.plot([1, 2, 3]); plt.savefig("chart.png")
with ProcessPoolExecutor(2) as pool:
    assert list(pool.map(abs, [-1, -2])) == [1, 2]
pandas.DataFrame({"a": [1, 2]}).to_excel("b.xlsx")
assert pandas.read_excel("b.xlsx")["a"].sum() == 3
import docx, pptx, pypdf, pdf2image, fitz, PIL.Image, lxml.etree, yaml, bs4, jsonschema, pydantic, markitdown
from cryptography.fernet import Fernet
from reportlab.pdfgen.canvas import Canvas
assert Fernet(key := Fernet.generate_key()).decrypt(Fernet(key).encrypt(b"x")) == b"x"
canvas = Canvas("c.pdf"); canvas.drawString(100, 700, "reportlab"); canvas.save()
assert "reportlab" in pypdf.PdfReader("c.pdf").pages[0].extract_text()
assert "reportlab" in fitz.open("c.pdf")[0].get_text()
assert pdf2image.convert_from_path("c.pdf", dpi=30)[0].size[0] > 100
show = pptx.Presentation()
show.slides.add_slide(show.slide_layouts[0]).shapes.title.text = "a slide"; show.save("a.pptx")
assert "a slide" in markitdown.MarkItDown(enable_plugins=False).convert("a.pptx").text_content
import httpx, requests
try:
    requests.get("http://192.0.2.1", timeout=2)
except requests.ConnectionError:
    print("done")
"""

PACKAGES = """
import sharp from "sharp"; import {Document, Packer, Paragraph} from "docx"; import pptxgen from "pptxgenjs";
import {PDFDocument} from "pdf-lib"; import {marked} from "marked"; import {load} from "js-yaml"; import {z} from "zod";
import {readFileSync, writeFileSync} from "node:fs";
const red = {create: {width: 64, height: 64, channels: 3, background: "red"}};
const image = await sharp(red).resize(32).png().toBuffer();
if ((await sharp(image).metadata()).width !== 32) throw new Error("sharp");
writeFileSync("n.docx", await Packer.toBuffer(new Document({sections: [{children: [new Paragraph("node")]}]})));
const show = new pptxgen(); show.addSlide().addText("node"); await show.writeFile({fileName: "n.pptx"});
const pdf = await PDFDocument.create(); pdf.addPage(); writeFileSync("n.pdf", await pdf.save());
if (!marked.parse("# x").startsWith("<h1") || load("a: 1").a !== 1 || !z.string().safeParse("x").success) throw 1;
console.log("done");
"""


@pytest.fixture(scope="module")
async def full(
    store: SkillStore, anyio_backend: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Sandbox]:
    engine = DockerEngine(
        DockerEngineOptions(
            tmp_path_factory.mktemp("full"), connection(), store.mount_dir, store.marker(), target="full"
        )
    )
    async with engine.open(SPEC) as sandbox:
        yield sandbox
    await engine.aclose()


async def works(full: Sandbox, *argv: str) -> bytes:
    environment = run_environment(None, skill_name="", run_id="test")
    command = Command(argv, cwd=WORKSPACE / "work", env=environment)
    outcome = await full.run(command, limits=Limits(wall_seconds=120))
    assert (outcome.ending, outcome.limits_hit) == (Exited(0), frozenset()), outcome.stderr.decode()
    return outcome.stdout


async def test_the_python_libraries_work(full: Sandbox) -> None:
    assert await works(full, "python3", "-c", LIBRARIES) == b"done\n"


async def test_the_node_packages_work(full: Sandbox) -> None:
    # A module is found from its own folder upwards, and what `-e` runs has the working directory as that.
    assert await works(full, "node", "--input-type=module", "-e", PACKAGES) == b"done\n"


async def test_the_programs_work(full: Sandbox) -> None:
    for name, script in PROGRAMS.items():
        assert await works(full, "bash", "-eo", "pipefail", "-c", script), name
