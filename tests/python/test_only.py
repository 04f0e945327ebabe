"""What a build without a part (PHASOR_ONLY) says of a file that has it: the interface and the model
compiled without chat programs, test vectors and inputs of 16 bits, on top of the library that has
all. Needs a C++
compiler ($CXX, default g++) and build/libphasor.a beside the program.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from places import ROOT, told

WORDS = "q8,byte-bpe,rms-norm,silu,rotary,messages"
SOURCE = r"""
#include <phasor.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
int main(int, char** argv) {
  FILE* f = std::fopen(argv[1], "rb");
  std::fseek(f, 0, SEEK_END);
  const size_t bytes = static_cast<size_t>(std::ftell(f));
  std::rewind(f);
  void* file = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (std::fread(file, 1, bytes, f) != bytes) return 3;
  phasor_error error = PHASOR_ERROR_INIT;
  size_t need = 0, length = 0;
  phasor_model* model = nullptr;
  phasor_session* session = nullptr;
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  if (phasor_model_size(&need, file, bytes, &error) != PHASOR_OK) return 4;
  void* block = std::aligned_alloc(64, (need + 63) / 64 * 64);
  if (phasor_model_open(&model, block, need, file, bytes, nullptr, &error) != PHASOR_OK) {
    std::printf("%s\n", error.text);
    return 5;
  }
  if (phasor_model_check(model, &error) != PHASOR_OK) return 6;
  if (phasor_limits_for(model, 0, 8, &limits) != PHASOR_OK) return 6;
  if (phasor_session_size(&need, model, &limits, &error) != PHASOR_OK) return 7;
  void* arena = std::aligned_alloc(64, (need + 63) / 64 * 64);
  if (phasor_session_open(&session, arena, need, model, &limits, nullptr, &error) != PHASOR_OK)
    return 8;
  const phasor_status status =
      phasor_chat_to_text(session, 1, nullptr, 0, &length, nullptr, 0, &error);
  std::printf("chat %d vectors %u %s: %s\n", phasor_chat_available(model),
              phasor_vector_count(model), phasor_status_name(status), error.text);
}
"""


@pytest.mark.parametrize(
    "words, known",
    [
        (WORDS, True),
        ("unigram", True),
        ("gelu-tanh,ring", True),
        ("q8,pipeline", True),
        ("q8,byte-bpee", False),
        ("q8,silu,silu", False),
        ("", True),
    ],
)
def test_a_word_that_is_none_is_refused(words, known):
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        pytest.skip("no C++ compiler")
    command = [compiler, "-std=c++17", "-fsyntax-only", f"-I{ROOT}/include"]
    done = subprocess.run(
        [*command, f'-DPHASOR_ONLY="{words}"', ROOT / "src/api/model.cpp"],
        capture_output=True,
        text=True,
    )
    assert (done.returncode == 0) == known, done.stderr
    assert known or "PHASOR_ONLY has a word twice" in done.stderr


TOKENIZERS = r"""
#include <cstdio>
#include <vector>
#include "text/tokenizer.h"
int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::FILE* const f = std::fopen(argv[i], "rb");
    std::vector<unsigned char> section(1 << 20);
    section.resize(std::fread(section.data(), 1, section.size(), f));
    std::fclose(f);
    phasor::Tokenizer t;
    const char* why = nullptr;
    const bool opens = phasor::tokenizer_open(&t, section.data(), section.size(), &why);
    std::printf("%d%d\n", phasor::tokenizer_is_built(section.data(), section.size()), opens);
  }
}
"""
GOLDENS = {
    "unigram": "unigram", "bpe": "sentencepiece-bpe", "wordpiece": "wordpiece",
    "bytelevel": "byte-bpe", "composed": "byte-bpe", "metaspace": "metaspace",
    "characters": "char-bpe", "merged": "metaspace-bpe", "pipeline": "pipeline",
}  # fmt: skip


@pytest.mark.parametrize("left_out", ["pipeline", "byte-bpe", "every other one"])
def test_a_tokenizer_of_a_model_that_is_left_out(tmp_path, left_out):
    """Each golden section opens where its model is built, and is told where it is not."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        pytest.skip("no C++ compiler")
    alone = left_out == "every other one"
    words = {"pipeline"} if alone else set(GOLDENS.values()) - {left_out}
    (tmp_path / "main.cpp").write_text(TOKENIZERS)
    sources = [tmp_path / "main.cpp", *sorted((ROOT / "src/text").glob("*.cpp"))]
    flags = ["-std=c++17", "-O0", "-ffp-contract=off", f"-I{ROOT}/include", f"-I{ROOT}/src"]
    only = f'-DPHASOR_ONLY="{",".join(sorted(words))}"'
    subprocess.run([compiler, *flags, only, *sources, "-o", tmp_path / "only"], check=True)
    paths = [ROOT / f"tests/golden/tokenizers/{name}.bin" for name in GOLDENS]
    said = subprocess.run([tmp_path / "only", *paths], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["11" if of in words else "00" for of in GOLDENS.values()]


@pytest.fixture(scope="module")
def program(tmp_path_factory, phasor):
    compiler, library = shutil.which(os.environ.get("CXX", "g++")), phasor.parent / "libphasor.a"
    if compiler is None or not library.is_file():
        pytest.skip(f"no C++ compiler, or no {library.name} beside the program")
    folder, objects = tmp_path_factory.mktemp("only"), []
    (folder / "main.cpp").write_text(SOURCE)
    api = [*sorted((ROOT / "src/api").glob("*.cpp")), ROOT / "src/model/model.cpp"]
    only = [f'-DPHASOR_ONLY="{WORDS}"']
    for source, more in ((folder / "main.cpp", []), *((path, only) for path in api)):
        objects.append(folder / f"{source.parent.name}_{source.stem}.o")
        flags = ["-std=c++17", "-O0", "-ffp-contract=off", f"-I{ROOT}/include", *more]
        subprocess.run([compiler, *flags, "-c", source, "-o", objects[-1]], check=True)
    subprocess.run([compiler, *objects, library, "-pthread", "-o", folder / "only"], check=True)
    return folder / "only"


def opened(program, model) -> tuple[int, str]:
    """What the program says of a file, and its exit status."""
    out = subprocess.run([program, model], capture_output=True, text=True, timeout=60)
    return out.returncode, out.stdout


def test_a_chat_program_that_is_left_out_is_named(program, golden_models):
    assert opened(program, golden_models / "tiny-chat-q8.phasor") == (
        0,
        "chat 0 vectors 0 unsupported: the file has a chat program, this engine is built without "
        "them (PHASOR_ONLY)\n",
    )


def test_inputs_of_16_bits_that_are_left_out_are_named(program, golden_models, phasor, tmp_path):
    model, wide = golden_models / "tiny-rotary-q8.phasor", tmp_path / "m.phasor"
    told(phasor, "quantize", model, wide, "--type", "q8", "--inputs", "16", "--quiet")
    says = "target set 0, embedding: inputs of 16 bits are not in this build (PHASOR_ONLY)\n"
    assert opened(program, wide) == (5, says)


def test_rotated_inputs_that_are_left_out_are_named(program, golden_models):
    says = "target set 0, embedding: rotated inputs are not in this build (PHASOR_ONLY)\n"
    assert opened(program, golden_models / "tiny-rotary-rotated-q8.phasor") == (5, says)


def test_a_file_without_one_is_told_apart(program, golden_models):
    says = "chat 0 vectors 0 unsupported: the file has no chat program\n"
    assert opened(program, golden_models / "tiny-rotary-q8.phasor") == (0, says)
