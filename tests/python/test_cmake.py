"""The build by CMake is the Makefile's: the same files with the same flags, the same objects, and
the ways by which a project comes to the library. Needs cmake and ninja (`tools/install.sh
machines`)."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from places import ROOT

pytestmark = pytest.mark.long

SENTENCE, TRANSLATION = "我有一只猫。", "I have a cat.\n"
ENVIRONMENT = {
    k: v
    for k, v in os.environ.items()
    if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CXXFLAGS", "CFLAGS", "LDFLAGS")
}
GCC = {"CC": "gcc", "CXX": "g++"}


def run(*command, good: bool = True, **kw) -> str:
    """What a command says; its time beside it, for `pytest -rP`."""
    start = time.monotonic()
    made = subprocess.run(
        [str(c) for c in command],
        cwd=kw.pop("cwd", ROOT),
        env=ENVIRONMENT | (GCC if command[0] == "cmake" else {}),  # make takes it by itself
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1800,
        check=False,
        **kw,
    )
    print(f"{time.monotonic() - start:6.1f} s  {' '.join(map(str, command))}")
    assert (made.returncode == 0) == good, f"{command}\n{made.stdout[-4000:]}"
    return made.stdout


def configure(build: Path, *options: str, source: Path = ROOT, good: bool = True) -> str:
    out = run("cmake", "-G", "Ninja", "-S", source, "-B", build, *options, good=good)
    return " ".join(out.split())  # it breaks its lines where a place is long


# ---- flags


def plain(command: str) -> tuple[str, list[str]]:
    """The file that a command compiles, and its flags without places, warnings and what is there
    twice."""
    words = shlex.split(command)
    flags: list[str] = []
    skip, source = False, ""
    for word, following in zip(words[1:], [*words[2:], ""]):
        if skip:
            skip = False
        elif word in ("-o", "-MF", "-MT", "-isystem", "-c"):
            skip = True
            source = following if word == "-c" else source
        elif not word.startswith(("-W", "-I", "-M", "-fcallgraph-info")):
            flags.append(word)
    assert source, command
    return os.path.relpath(ROOT / source, ROOT), [
        f for i, f in enumerate(flags) if f != "-std=c++17" or f not in flags[:i]
    ]


def lasting(flags: list[str]) -> list[str]:
    """Of -O the last one; the order of the others says nothing."""
    last = [f for f in flags if f.startswith("-O")][-1:]
    return sorted(f for f in flags if not f.startswith("-O")) + last


def of_cmake(build: Path) -> dict[str, list[str]]:
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    return {f: lasting(flags) for f, flags in (plain(c["command"]) for c in commands)}


def of_make(*arguments: str) -> dict[str, list[str]]:
    out = run("make", "-n", "V=1", *arguments)
    lines = [x for x in out.splitlines() if " -c src/" in x]
    return {f: lasting(flags) for f, flags in map(plain, lines)}


BOARD = {"cortex-m3": "mps2-an385", "cortex-m4": "mps2-an386", "cortex-m7": "mps2-an500"}
BOARD |= {"cortex-m55": "mps3-an547"}


@pytest.mark.parametrize(
    "options, arguments",
    [
        ("", ""),
        ("-DPHASOR_CONFIG=small", "config=small"),
        ("-DPHASOR_CONFIG=scalar", "config=scalar"),
        ("-DPHASOR_ONLY='q8 unigram relu'", "PHASOR_ONLY='q8 unigram relu'"),
        ("-DPHASOR_ONLY='q8 outputs'", "PHASOR_ONLY='q8 outputs'"),
        ("-DCMAKE_BUILD_TYPE=Debug", ""),
        ("--preset aarch64", "TARGET=aarch64"),
        ("--preset armhf", "TARGET=armhf"),
    ],
)
def test_the_same_files_with_the_same_flags(options, arguments, tmp_path):
    build = tmp_path / "build"
    configure(build, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *shlex.split(options))
    want = of_make("all", f"OUT={tmp_path}/make", *shlex.split(arguments))
    have = of_cmake(build)
    if "Debug" in options:
        for flags in have.values():
            flags.remove("-g")
    assert len(want) > 100 and have == want


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64's levels")
def test_a_part_of_the_levels(tmp_path):
    configure(tmp_path / "b", "-DPHASOR_LEVELS=scalar avx2", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    assert of_cmake(tmp_path / "b") == of_make("all", f"OUT={tmp_path}/make", "LEVELS=scalar avx2")
    said = configure(tmp_path / "c", "-DPHASOR_LEVELS=scalar avxvnni", good=False)
    assert "avxvnni needs avx2" in said
    said = configure(tmp_path / "d", "-DPHASOR_LEVELS=scalar neon", good=False)
    assert "'neon' is not one of x86_64's" in said


@pytest.mark.parametrize("cpu", BOARD)
def test_a_microcontroller(cpu, tmp_path):
    configure(tmp_path / "b", "--preset", cpu, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    out = f"BM_OUT={tmp_path}/make"
    want = of_make(f"BOARD={BOARD[cpu]}", out, f"{tmp_path}/make/vectors-all.elf")
    for flags in want.values():
        flags.remove("-fno-builtin-printf")  # the images'
    assert len(want) > 50 and of_cmake(tmp_path / "b") == want


def test_a_list_has_one_form(tmp_path):
    """What make reads in another way than CMake is refused."""
    for line in ("A ?= b", "A := b \\", "$(eval A := b)", "ifeq (a,b)", 'A := "b"'):
        (tmp_path / "lists").write_text(f"{line}\n", encoding="utf-8")
        script = f"include({ROOT}/cmake/lists.cmake)\nphasor_lists({tmp_path}/lists)\n"
        (tmp_path / "x.cmake").write_text(script, encoding="utf-8")
        assert "expected NAME := words" in run("cmake", "-P", tmp_path / "x.cmake", good=False)


# ---- xsimd


def headers_in(build: Path) -> Path:
    return (build / "include/xsimd").resolve()


def test_xsimd_from_a_folder_and_from_an_archive(tmp_path):
    folder = tmp_path / "own"
    shutil.copytree("/usr/include/xsimd", folder / "xsimd")
    configure(tmp_path / "a", f"-DPHASOR_XSIMD={folder}")
    assert headers_in(tmp_path / "a") == folder / "xsimd"

    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        archive.add(folder / "xsimd", "xsimd-8.1.0/include/xsimd")
    digest = hashlib.sha256((tmp_path / "x.tar.gz").read_bytes()).hexdigest()
    url = f"-DPHASOR_XSIMD_URL=file://{tmp_path}/x.tar.gz"
    configure(tmp_path / "b", url, f"-DPHASOR_XSIMD_HASH=SHA256={digest}")
    inside = tmp_path / "b/xsimd-sources/xsimd-8.1.0/include/xsimd"
    assert headers_in(tmp_path / "b") == inside
    said = configure(tmp_path / "c", url, f"-DPHASOR_XSIMD_HASH=SHA256={'0' * 64}", good=False)
    assert f"SHA256={digest} (0" in said and not (tmp_path / "c/xsimd-sources").exists()
    said = configure(tmp_path / "d", url, good=False)
    assert "PHASOR_XSIMD_HASH='': expected SHA256=" in said
    gone = f"-DPHASOR_XSIMD_URL=file://{tmp_path}/gone"
    said = configure(tmp_path / "f", gone, f"-DPHASOR_XSIMD_HASH=SHA256={digest}", good=False)
    assert "/gone: SHA256=" in said
    said = configure(tmp_path / "e", f"-DPHASOR_XSIMD={tmp_path}/none", good=False)
    assert "PHASOR_XSIMD to the folder" in said


def own_xsimd(folder: Path, version: str) -> Path:
    """A folder with headers of another version, which nobody compiles."""
    (folder / "xsimd/config").mkdir(parents=True)
    (folder / "xsimd/xsimd.hpp").touch()
    (folder / "xsimd/config/xsimd_config.hpp").write_text(version, encoding="utf-8")
    return folder


@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64's levels")
def test_another_xsimd_in_a_configured_build(tmp_path):
    """It is taken, and what was compiled with the first is compiled again."""
    one, two = own_xsimd(tmp_path / "one", "1"), own_xsimd(tmp_path / "two", "2")
    build, stamp = tmp_path / "b", tmp_path / "b/include/xsimd.stamp"
    said = []
    for folder in (one, one, two):
        configure(build, f"-DPHASOR_XSIMD={folder}")
        assert headers_in(build) == folder / "xsimd"
        said.append((stamp.read_text(encoding="utf-8"), stamp.stat().st_mtime_ns))
    assert said[0] == said[1] and said[1][0] != said[2][0] and said[1][1] < said[2][1]
    for level in ("sse2", "avx2", "amx"):
        made = f"CMakeFiles/phasor_objects.dir/src/kernels/x86/level_{level}.cpp.o"
        assert " include/xsimd.stamp\n" in run("ninja", "-C", build, "-t", "query", made)
    (two / "xsimd/config/xsimd_config.hpp").write_text("3", encoding="utf-8")
    configure(build)
    assert stamp.read_text(encoding="utf-8") != said[2][0]
    # An archive beside the folder that the cache has, and another archive in place of the first.
    archives = []
    for folder in (one, two):
        with tarfile.open(folder / "x.tar.gz", "w:gz") as archive:
            archive.add(folder / "xsimd", f"{folder.name}/xsimd")
        digest = hashlib.sha256((folder / "x.tar.gz").read_bytes()).hexdigest()
        url = f"-DPHASOR_XSIMD_URL=file://{folder}/x.tar.gz"
        archives.append([url, f"-DPHASOR_XSIMD_HASH=SHA256={digest}"])
    said = configure(build, *archives[0], good=False)
    assert "expected one of them; -UPHASOR_XSIMD forgets the first" in said
    for name, archive in zip(("one", "two"), archives):
        configure(build, "-UPHASOR_XSIMD", *archive)
        assert headers_in(build) == build / "xsimd-sources" / name / "xsimd"

    # Make: the link, and the flags on which all objects depend.
    out = [f"OUT={tmp_path}/make", f"HEADERS={tmp_path}/make/include"]
    seen = []
    for folder in (one, one, two, one):
        made = (f"{tmp_path}/make/flags", f"{tmp_path}/make/include/xsimd")
        run("make", *out, f"XSIMD={folder}", *made)
        assert (tmp_path / "make/include/xsimd").resolve() == folder / "xsimd"
        seen.append((tmp_path / "make/flags").read_text(encoding="utf-8"))
    assert seen[0] == seen[1] == seen[3] != seen[2]
    said = run("make", *out, f"XSIMD={tmp_path}", f"{tmp_path}/make/include/xsimd", good=False)
    assert f"xsimd's headers are not in {tmp_path}" in said


# ---- builds, and projects that use them


WAYS = {
    "find_package": "find_package(phasor CONFIG REQUIRED)",
    "shared": "find_package(phasor 0.1 CONFIG REQUIRED COMPONENTS shared)\nset(LIB phasor::shared)",
    "pkg_config": "find_package(PkgConfig REQUIRED)\n"
    "pkg_check_modules(P REQUIRED IMPORTED_TARGET phasor)\nset(LIB PkgConfig::P)",
    "add_subdirectory": "add_subdirectory(${ROOT} phasor)",
    "FetchContent": "include(FetchContent)\nFetchContent_Declare(phasor SOURCE_DIR ${ROOT})\n"
    "FetchContent_MakeAvailable(phasor)",
    "include": "include(${ROOT}/examples/cmake/phasor.cmake)",
}


INSTALLED = ("find_package", "shared", "pkg_config")


def consumer(folder: Path, way: str) -> Path:
    """A project of C alone, and where nothing is compiled but it, of C++ too."""
    folder.mkdir()
    text = f"""cmake_minimum_required(VERSION 3.18)
project(own C)
set(ROOT {ROOT})
set(LIB phasor::phasor)
{WAYS[way]}
add_executable(translate {ROOT}/examples/c/translate.c)
target_link_libraries(translate ${{LIB}})
"""
    if way in INSTALLED:
        text += f"""enable_language(CXX)
add_executable(own {ROOT}/examples/cpp/translate.cpp)
target_compile_features(own PRIVATE cxx_std_17)
target_link_libraries(own ${{LIB}})
"""
    (folder / "CMakeLists.txt").write_text(text, encoding="utf-8")
    return folder


# Of which no other one has a part: its object is the same in any choice of levels.
LEVELS = "scalar sse2" if platform.machine() == "x86_64" else "scalar"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A C project with Phasor as a folder of it, the program too, all of it installed in
    `prefix`."""
    # Once for all workers of a run.
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    base = tmp_path_factory.getbasetemp()
    top = (base.parent if worker else base) / "built"
    with (top.parent / "built.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (top / "ready").is_file():
            top.mkdir()
            _build(top)
            (top / "ready").touch()
    return top


def _build(top: Path) -> None:
    options = [
        "-DPHASOR_PROGRAM=ON",
        "-DPHASOR_INSTALL=ON",
        f"-DPHASOR_LEVELS={LEVELS}",
        f"-DCMAKE_INSTALL_PREFIX={top}/prefix",
        "-DCMAKE_INSTALL_LIBDIR=lib",
    ]
    source = consumer(top / "own", "add_subdirectory")
    configure(top / "b", *options, source=source)
    jobs = os.cpu_count() or 1
    run("cmake", "--build", top / "b", "-j", jobs)
    run("cmake", "--build", top / "b", "-j", jobs, "--target", "phasor_shared")
    run("cmake", "--install", top / "b")


def translates(program: Path, *, libraries: Path | None = None) -> None:
    environment = ENVIRONMENT | ({"LD_LIBRARY_PATH": str(libraries)} if libraries else {})
    out = subprocess.run(
        [program, ROOT / "models/zh-en.phasor", SENTENCE],
        env=environment,
        stdout=subprocess.PIPE,
        timeout=120,
        check=True,
    )
    assert out.stdout.decode() == TRANSLATION


def test_a_project_of_c_alone(built):
    translates(built / "b/translate")
    # A second build has nothing to do.
    assert "no work to do" in run("ninja", "-C", built / "b", "translate")


def members(archive: Path, folder: Path) -> list[tuple[str, str]]:
    """The name and the hash of each, two of which may have one name."""
    folder.mkdir()
    found: list[tuple[str, str]] = []
    for name in run("ar", "t", archive).split():
        plain = name.replace(".cpp.o", ".o")
        place = [n for n, _ in found].count(plain) + 1
        run("ar", "xN", str(place), archive, name, cwd=folder)
        found.append((plain, hashlib.sha256((folder / name).read_bytes()).hexdigest()))
    return found


def test_the_same_objects(built, phasor, tmp_path):
    """Byte by byte those of make, but the one that names the levels."""
    have = members(built / "b/phasor/libphasor.a", tmp_path / "have")
    want = [
        row
        for row in members(phasor.parent / "libphasor.a", tmp_path / "want")
        if not row[0].startswith("level_") or row[0][len("level_") : -2] in LEVELS.split()
    ]
    assert [n for n, _ in have] == [n for n, _ in want]
    assert {a[0] for a, b in zip(have, want) if a != b} <= {"kernels.o"}


def test_the_same_hashes(built, phasor, golden_models):
    """Every golden model's own vectors, and what the program says of them."""
    models = sorted(golden_models.glob("*.phasor"))
    assert len(models) > 50
    for model in models:
        want = run(phasor, "verify", model, "--isa", "scalar")
        assert run(built / "b/phasor/phasor", "verify", model, "--isa", "scalar") == want


def test_the_shared_library(built):
    """Its names are phasor.h's, it needs no C++ run-time library, and it is a library."""
    libraries = sorted(p.name for p in (built / "prefix/lib").glob("libphasor*"))
    assert libraries[:3] == ["libphasor.a", "libphasor.so", "libphasor.so.0"]
    library = built / "prefix/lib/libphasor.so.0"
    dynamic = run("readelf", "-d", library)
    assert "soname: [libphasor.so.0]" in dynamic and "libstdc++" not in dynamic
    rows = run("nm", "-D", "--defined-only", library).splitlines()
    names = {row.split()[-1].partition("@")[0] for row in rows}
    names -= {n for n in names if n.startswith("PHASOR_")}
    header = (ROOT / "include/phasor.h").read_text(encoding="utf-8")
    assert "phasor_model_open" in names and all(f"{n}(" in header for n in names)
    loaded = ctypes.CDLL(str(library))
    assert loaded.phasor_version() >= 0x100


def test_what_cmake_installs_is_listed_and_gone_with_the_list(built, tmp_path):
    prefix = tmp_path / "prefix"
    run("cmake", "--install", built / "b", "--prefix", prefix)
    listed = (built / "b/install_manifest.txt").read_text(encoding="utf-8").splitlines()
    assert {Path(name) for name in listed} == {p for p in prefix.rglob("*") if not p.is_dir()}
    for name in listed:
        Path(name).unlink()
    assert not [p for p in prefix.rglob("*") if not p.is_dir()]


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_the_library(way, built, tmp_path):
    source, build = consumer(tmp_path / "own", way), tmp_path / "b"
    # What is built from the sources is `built`; here the project with it comes about.
    prefix = built / "prefix"
    pkg = f"-DPKG_CONFIG_ARGN=--with-path={prefix}/lib/pkgconfig"
    configure(build, f"-DCMAKE_PREFIX_PATH={prefix}", "-DPHASOR_CONFIG=scalar", pkg, source=source)
    if way in INSTALLED:
        run("cmake", "--build", build)
        for program in ("translate", "own"):
            translates(build / program, libraries=prefix / "lib")


def test_make_install_is_found_and_uninstalled(phasor, tmp_path):
    assert phasor.is_file()
    prefix = tmp_path / "prefix"
    # With the flags that the tree was built with, -Werror or not.
    kept = ["-o", "build/flags", "-o", "build/flags.cli"]
    run("make", *kept, "install", f"PREFIX={prefix}")
    for way in ("find_package", "pkg_config"):
        source, build = consumer(tmp_path / way, way), tmp_path / f"{way}-b"
        configure(build, f"-DCMAKE_PREFIX_PATH={prefix}", source=source)
        run("cmake", "--build", build)
        translates(build / "translate", libraries=prefix / "lib")
    run("make", "uninstall", f"PREFIX={prefix}")
    assert [p for p in prefix.rglob("*") if not p.is_dir()] == []
