"""Puts the projects that `make test-samples` adopts into ``.samples/``, or does nothing when they are there.

``requirements/samples.txt`` pins each of them with its hash; pip fetches the source distribution from the index that it
is set up for. Nothing of it is installed.
"""

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PINS = ROOT / "requirements" / "samples.txt"
PLACE = ROOT / ".samples"


def main() -> int:
    """0 when every project is in place; the status of pip when one cannot be fetched."""
    pins = [line.split()[0] for line in PINS.read_text().splitlines() if "==" in line]
    wanted = [pin.replace("==", "-") for pin in pins]
    if all((PLACE / name).is_dir() for name in wanted):
        return 0
    PLACE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=PLACE, prefix=".fetch-") as folder:
        words = [
            "download",
            "-q",
            "--no-deps",
            "--no-binary",
            ":all:",
            "--require-hashes",
            "-r",
            str(PINS),
            "-d",
            folder,
        ]
        status = subprocess.run([sys.executable, "-m", "pip", *words], check=False).returncode
        if status:
            return status
        for archive in Path(folder).glob("*.tar.gz"):
            unpack(archive, PLACE / archive.name.removesuffix(".tar.gz"))
    return 0


def unpack(archive: Path, place: Path) -> None:
    """Unpacks a source distribution in one step; what is there already stays."""
    if place.exists():
        return
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".unpack-") as folder, tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
        (inner,) = Path(folder).iterdir()
        inner.rename(place)


if __name__ == "__main__":
    sys.exit(main())
