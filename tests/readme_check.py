#!/usr/bin/env python3
"""Pastes every `sh` block of README.md, in order, into one shell, in a copy of the tracked files:
no command of the page may fail on a machine where nothing was built. Objects that a build with
WERROR=1 has compiled here go into the copy, so that they are not compiled twice; nothing that is
linked does, so each command still has to ask for what it needs.

    python3 tests/readme_check.py
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def compiled(folder: Path) -> None:
    """What was compiled, with its times and the flags that it was compiled with."""
    for name in ("obj/src", "include", "flags", "flags.cli"):
        if (ROOT / "build" / name).exists():
            (folder / "build" / name).parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", ROOT / "build" / name, folder / "build" / name], check=True)


def main() -> int:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.S | re.M)
    if not blocks:
        print("readme: the page has no block")
        return 1
    with tempfile.TemporaryDirectory(prefix="phasor-readme-") as folder:
        files = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z"], check=True, stdout=subprocess.PIPE
        ).stdout
        pack = subprocess.Popen(
            ["tar", "-C", str(ROOT), "--null", "-T", "-", "-c"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        unpack = subprocess.Popen(["tar", "-C", folder, "-x"], stdin=pack.stdout)
        pack.stdin.write(files)
        pack.stdin.close()
        if unpack.wait() or pack.wait():
            print("readme: the tracked files could not be copied")
            return 1
        for words in (["init", "-q"], ["add", "-A", "-f"]):
            subprocess.run(["git", "-C", folder, *words], check=True, stderr=subprocess.DEVNULL)
        compiled(Path(folder))
        script = (
            "set -eu\n"
            + "".join(f"echo '== block {i}'\n{block}" for i, block in enumerate(blocks, 1))
            + "echo '== end'\n"
        )
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=folder,
            env={**os.environ, "WERROR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        left = subprocess.run(
            ["git", "-C", folder, "status", "--porcelain"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        left = [line for line in left.splitlines() if not line.startswith("A  ")]
    print(done.stdout)
    reached = len(re.findall(r"^== block \d+$", done.stdout, re.M))
    ended = done.returncode == 0 and "== end" in done.stdout
    said = all(answer in done.stdout for answer in ("I have a cat.", "The capital of France is"))
    for line in left:
        print(f"readme: the page's commands leave a file that git does not ignore: {line}")
    good = ended and said and not left
    print(f"readme: {reached if ended else reached - 1} passed, {0 if good else 1} failed")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
