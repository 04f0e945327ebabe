// The C++ layer says what the C interface says: a small model is opened, run, and refused, through
// include/phasor.hpp alone.
#include <doctest/doctest.h>
#include <phasor.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "items.h"

namespace {

struct Block {
  explicit Block(size_t bytes)
      : size(bytes),
        data(std::aligned_alloc(PHASOR_ALIGN,
                                (bytes + PHASOR_ALIGN - 1) / PHASOR_ALIGN * PHASOR_ALIGN)) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { std::free(data); }
  size_t size;
  void* data;
};

std::unique_ptr<Block> read(const char* path) {
  std::FILE* f = std::fopen(path, "rb");
  if (f == nullptr) return nullptr;
  std::fseek(f, 0, SEEK_END);
  auto block = std::make_unique<Block>(static_cast<size_t>(std::ftell(f)));
  std::rewind(f);
  const size_t n = std::fread(block->data, 1, block->size, f);
  std::fclose(f);
  return n == block->size ? std::move(block) : nullptr;
}

}  // namespace

TEST_CASE("phasor.hpp: a translation, and the same through the C interface") {
  const auto bytes = read("tests/golden/models/tiny-d2l-f32.phasor");
  REQUIRE(bytes);
  const phasor::File file{bytes->data, bytes->size};
  const auto need = phasor::Model::size(file);
  REQUIRE(need);
  Block memory(*need);
  auto model = phasor::Model::open({memory.data, *need}, file);
  REQUIRE_MESSAGE(model, model.error().text);
  CHECK(model->stack() == PHASOR_ENCODER_DECODER);
  CHECK(model->check());
  CHECK(model->side(PHASOR_TARGET)->vocabulary == 47);

  const phasor::Limits limits = model->limits(16, 16);
  const auto size = model->session_size(limits);
  REQUIRE(size);
  Block arena(*size);
  auto session = phasor::Session::open({arena.data, *size}, *model, limits);
  REQUIRE_MESSAGE(session, session.error().text);
  std::array<uint32_t, 16> ids{};
  const auto count =
      session->to_ids(PHASOR_SOURCE, std::string("source7 source11"), ids.data(), ids.size());
  REQUIRE(count);
  CHECK(*count == 3);
  REQUIRE(session->encode({ids.data(), *count}));
  std::vector<uint32_t> out(8), plain(8);
  const auto made = session->generate({}, out.data(), 8);
  REQUIRE(made);
  CHECK(made->count >= 1);

  phasor_item item = item_of(0, static_cast<uint32_t>(*count), 0, ids.data());
  phasor_generation result = PHASOR_GENERATION_INIT;
  REQUIRE(phasor_encode(session->handle(), &item, 1, nullptr) == PHASOR_OK);
  REQUIRE(phasor_generate(session->handle(), 0, nullptr, 0, plain.data(), 8, nullptr, &result,
                          nullptr) == PHASOR_OK);
  CHECK(result.count == made->count);
  CHECK(out == plain);
  CHECK(session->length() == made->count);
  CHECK(session->ids().count == made->count);
  CHECK(session->common({plain.data(), 0}) == 0);
  CHECK(model->generation_defaults().temperature == 0);
  REQUIRE(session->step({plain.data(), 1}));
  const auto best = session->choose(session->ids(), 1, phasor::GenerateOptions());
  REQUIRE(best);
  CHECK(*best < 47);
  phasor::Random random(3);
  phasor::GenerateOptions drawn;
  drawn.temperature = 1;
  drawn.random = &random;
  // the limits have no room for it
  CHECK(session->choose(session->ids(), 1, drawn).status() == PHASOR_BAD_INPUT);

  phasor::Limits wide = model->limits(20, 30);
  wide.beams = 3;
  Block beam_arena(*model->session_size(wide));
  auto beams = phasor::Session::open({beam_arena.data, beam_arena.size}, *model, wide);
  REQUIRE(beams);
  REQUIRE(beams->encode({ids.data(), *count}));
  phasor::BeamOptions search;
  search.beams = 1;
  search.max_new = 8;
  const auto one = beams->beam_search({}, search);
  REQUIRE(one);
  CHECK(one->count == 1);
  const auto hypothesis = beams->hypothesis();
  REQUIRE(hypothesis);
  REQUIRE(hypothesis->tokens().count == made->count);
  CHECK(std::equal(plain.begin(), plain.begin() + made->count, hypothesis->tokens().data));
  CHECK(beams->hypothesis(1).status() == PHASOR_BAD_INPUT);
  CHECK(session->beam_search({}, search).status() == PHASOR_BAD_INPUT);  // the limits have no beams

  session->clear();
  CHECK(session->length() == 0);
  const std::vector<uint32_t> wrong{99};
  CHECK(session->encode(wrong).status() == PHASOR_BAD_INPUT);
}

TEST_CASE("phasor.hpp: an error has a status and a line") {
  alignas(64) static const char nonsense[64] = "not a weight file";
  const auto size = phasor::Model::size({nonsense, sizeof nonsense});
  CHECK_FALSE(size);
  CHECK(size.status() != PHASOR_OK);
  CHECK(size.error().text[0] != 0);
  const auto bytes = read("tests/golden/models/tiny-lm-q8.phasor");
  REQUIRE(bytes);
  const phasor::File file{bytes->data, bytes->size};
  Block memory(*phasor::Model::size(file));
  CHECK(phasor::Model::open({memory.data, memory.size - 1}, file).status() == PHASOR_NO_MEMORY);
  CHECK(phasor::Model::open({memory.data, memory.size}, file, "no such level").status() ==
        PHASOR_UNSUPPORTED);
}

TEST_CASE("phasor.hpp: a conversation") {
  const auto bytes = read("tests/golden/models/tiny-chat-f32.phasor");
  REQUIRE(bytes);
  const phasor::File file{bytes->data, bytes->size};
  Block memory(*phasor::Model::size(file));
  auto model = phasor::Model::open({memory.data, memory.size}, file);
  REQUIRE(model);
  CHECK(model->can_chat());
  const phasor::Limits limits = model->limits(0, 64);
  Block arena(*model->session_size(limits));
  auto session = phasor::Session::open({arena.data, arena.size}, *model, limits);
  REQUIRE(session);
  const std::string role = "user", text = "Hello";
  const phasor::Message messages[] = {{role, text}};
  std::array<char, 64> out{};
  const auto made = session->chat_text(messages, 1, out.data(), 10);
  CHECK(made.status() == PHASOR_FULL);
  REQUIRE(session->chat_text(messages, 1, out.data(), out.size()));
  CHECK(std::string(out.data(), *made) ==
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
}
