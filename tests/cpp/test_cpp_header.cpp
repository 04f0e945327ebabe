// The C++ layer says what the C interface says: a small model is opened, run, and refused, through
// include/phasor.hpp alone.
#include <phasor.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cases.h"
#include "items.h"

namespace {

using phasor::Block;

Block read(const char* path) {
  std::FILE* f = std::fopen(path, "rb");
  if (f == nullptr) return {};
  std::fseek(f, 0, SEEK_END);
  Block block(static_cast<size_t>(std::ftell(f)));
  std::rewind(f);
  const size_t n = std::fread(block.data(), 1, block.size(), f);
  std::fclose(f);
  return n == block.size() ? std::move(block) : Block();
}

}  // namespace

TEST_CASE("phasor.hpp: a translation, and the same through the C interface") {
  const auto bytes = read("tests/golden/models/tiny-d2l-f32.phasor");
  REQUIRE(bytes);
  const phasor::File file = phasor::Bytes(bytes);
  const auto need = phasor::Model::size(file);
  REQUIRE(need);
  Block memory(*need);
  auto model = phasor::Model::open(memory, file);
  REQUIRE_MESSAGE(model, model.error().text);
  CHECK(model->stack() == PHASOR_ENCODER_DECODER);
  CHECK(model->check());
  CHECK(model->side(PHASOR_TARGET)->vocabulary == 47);

  const phasor::Limits limits = model->limits(16, 16);
  const auto size = model->session_size(limits);
  REQUIRE(size);
  Block arena(*size);
  auto session = phasor::Session::open(arena, *model, limits);
  REQUIRE_MESSAGE(session, session.error().text);
  std::array<uint32_t, 16> ids{};
  const auto count =
      session->to_ids(PHASOR_SOURCE, std::string("source7 source11"), ids.data(), ids.size());
  REQUIRE(count);
  CHECK(*count == 3);
  REQUIRE(session->encode({ids.data(), *count}));
  std::vector<uint32_t> out(8), plain(8);
  const auto made = session->generate({}, out);
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
  auto beams = phasor::Session::open(beam_arena, *model, wide);
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

  REQUIRE(session->clear());
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
  const phasor::File file = phasor::Bytes(bytes);
  Block memory(*phasor::Model::size(file));
  CHECK(phasor::Model::open({memory.data(), memory.size() - 1}, file).status() == PHASOR_NO_MEMORY);
  CHECK(phasor::Model::open(memory, file, "no such level").status() == PHASOR_UNSUPPORTED);
}

TEST_CASE("phasor.hpp: a conversation") {
  const auto bytes = read("tests/golden/models/tiny-chat-f32.phasor");
  REQUIRE(bytes);
  const phasor::File file = phasor::Bytes(bytes);
  Block memory(*phasor::Model::size(file));
  auto model = phasor::Model::open(memory, file);
  REQUIRE(model);
  CHECK(model->can_chat());
  const phasor::Limits limits = model->limits(0, 64);
  Block arena(*model->session_size(limits));
  auto session = phasor::Session::open(arena, *model, limits);
  REQUIRE(session);
  const std::string role = "user", text = "Hello";
  const phasor::Message messages[] = {{role, text}};
  std::array<char, 64> out{};
  const auto made = session->chat_text(messages, out.data(), 10);
  CHECK(made.status() == PHASOR_FULL);
  REQUIRE(session->chat_text(messages, out.data(), out.size()));
  CHECK(std::string(out.data(), *made) ==
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("phasor.hpp: a model that owns its memory, and what its file says") {
  CHECK(phasor::version() == PHASOR_VERSION);
  CHECK(phasor::numerics() == phasor_numerics());
  CHECK(phasor::format_max() >= 1);
  CHECK(std::string(phasor::name(PHASOR_FULL)) == phasor_status_name(PHASOR_FULL));
  CHECK(phasor::isa_name(0) != nullptr);
  CHECK(phasor::request_amx() == (phasor_request_amx() == 1));

  const Block bytes = read("tests/golden/models/tiny-d2l-f32.phasor");
  phasor::OpenOptions options;
  options.isa = "scalar";
  auto opened = phasor::OwnedModel::open(phasor::Bytes(bytes), options);
  REQUIRE_MESSAGE(opened, opened.error().text);
  const phasor::OwnedModel model = std::move(*opened);  // the memory moves with it
  CHECK(std::string(model.isa()) == "scalar");
  CHECK(model.output().width == 47);
  CHECK(model.label(0).data == nullptr);
  CHECK(model.prompt(0).status() == PHASOR_BAD_INPUT);
  CHECK(model.beam_defaults().length_penalty == 1);
  REQUIRE(model.tensor_count() > 5);
  CHECK(model.tensor(0)->rows > 0);
  const auto none = model.tensor(model.tensor_count());
  CHECK(none.status() == PHASOR_BAD_INPUT);
  CHECK(std::string(none.error().text) == phasor_status_name(PHASOR_BAD_INPUT));
  REQUIRE(model.field_count() > 5);
  CHECK(std::string(model.field(0)->name) == "model.stack");
  const phasor::Text piece = model.piece(PHASOR_SOURCE, 7);
  CHECK(piece.size > 0);
  CHECK(model.piece(PHASOR_SOURCE, 9999).data == nullptr);
  CHECK(model.piece_flags(PHASOR_SOURCE, 7) == 0);
  CHECK(model.skipped().size() == 0);
  CHECK(model.cost(8, 4)->step_macs > 0);
  (void)model.peak(PHASOR_PEAK_F32, 1);
  uint64_t sum = 0;
  const phasor::Limits limits = model.limits(8, 8);
  for (uint32_t i = 0; const auto part = model.part(limits, i); ++i) sum += part->bytes;
  CHECK(sum == *model.session_size(limits));

  phasor::TextState state;
  std::array<char, 64> text{};
  CHECK(model.to_text(PHASOR_TARGET, state, 9, text.data(), 0).status() == PHASOR_FULL);
  REQUIRE(model.to_text(PHASOR_TARGET, state, 9, text.data(), text.size()));
  CHECK(*model.flush(PHASOR_TARGET, state, text.data(), text.size()) == 0);

  alignas(64) static const char nonsense[64] = "not a weight file";
  const auto wrong = phasor::OwnedModel::open({nonsense, sizeof nonsense});
  CHECK(wrong.status() == PHASOR_BAD_FILE);
  CHECK(wrong.error().text[0] != 0);
  CHECK(phasor::OwnedSession::open(model, model.limits(1u << 30, 8)).status() != PHASOR_OK);
}

TEST_CASE("phasor.hpp: sequences, states, jobs and test vectors") {
  Block bytes = read("tests/golden/models/tiny-d2l-f32.phasor");
  const auto model = phasor::OwnedModel::open(phasor::Bytes(bytes));
  REQUIRE(model);
  phasor::Limits limits = model->limits(16, 16);
  limits.sequences = 2;
  limits.beams = 2;
  limits.outputs = PHASOR_WANT_OFFSETS;
  auto opened = phasor::OwnedSession::open(*model, limits);
  REQUIRE_MESSAGE(opened, opened.error().text);
  phasor::OwnedSession session = std::move(*opened);

  uint32_t ids[16], places[32], segments[16];
  const auto count = session.to_offsets(PHASOR_SOURCE, std::string("source7"), ids, places, 16);
  REQUIRE(count);
  CHECK(*count == *session.to_ids(PHASOR_SOURCE, std::string("source7"), ids, 16));
  CHECK(places[1] == std::strlen("source7"));
  size_t needed = 0;  // the file has no template for pairs
  CHECK(session.pair_to_ids(PHASOR_SOURCE, {"a", 1}, {"b", 1}, ids, segments, 16).status() ==
        phasor_pair_to_ids(session.handle(), PHASOR_SOURCE, ids, segments, 16, &needed, "a", 1, "b",
                           1, nullptr));
  const phasor::Item both[] = {phasor::Item(phasor::Ids(ids, *count)),
                               phasor::Item(phasor::Ids(ids, 1), PHASOR_LOGITS_NONE, 1)};
  REQUIRE(session.encode(both));
  CHECK(session.status(0) == PHASOR_OK);
  CHECK(session.hidden().count == *count);
  const uint32_t start[] = {model->side(PHASOR_TARGET)->decoder_start};
  REQUIRE(session.step(start));
  const auto best = session.argmax();
  REQUIRE(best);
  CHECK(session.logits()[best->id] == best->logit);
  CHECK(session.argmax(5).status() == PHASOR_BAD_INPUT);
  const phasor::Item again[] = {phasor::Item(start, PHASOR_LOGITS_LAST, 1)};
  REQUIRE(session.step(again));

  Block saved(*session.state_size());
  REQUIRE(session.save(saved));
  REQUIRE(session.truncate(0));
  CHECK(session.length() == 0);
  REQUIRE(session.restore(phasor::Bytes(saved)));
  CHECK(session.length() == 1);
  CHECK(session.restore({saved.data(), 8}).status() != PHASOR_OK);
  REQUIRE(session.fork(1));
  CHECK(session.length(1) == 1);
  CHECK(session.fork(7).status() == PHASOR_BAD_INPUT);

  static int layers;
  phasor::Callbacks callbacks;
  callbacks.progress = [](void*, uint32_t, uint32_t, uint32_t) { return ++layers, 0; };
  REQUIRE(session.callbacks(&callbacks));
  std::array<uint32_t, 8> alone{}, first{}, second{}, beams{};
  REQUIRE(session.encode({ids, *count}));
  const auto made = session.generate({}, alone);
  REQUIRE(made);
  CHECK(layers > 0);
  REQUIRE(session.callbacks(nullptr));
  const phasor::Ids source(ids, *count);
  phasor::Job jobs[] = {phasor::Job(source, first), phasor::Job(source, second)};
  const phasor::GenerateOptions greedy;
  for (auto left = session.jobs_step(jobs, greedy); left && *left != 0;)
    left = session.jobs_step(jobs, greedy);
  CHECK(first == alone);
  CHECK(second == alone);
  phasor::Job once[] = {phasor::Job(source, second)};
  REQUIRE(session.jobs_run(once, greedy));
  CHECK(second == alone);
  phasor::BeamOptions search;
  search.beams = 2;
  search.max_new = 6;
  phasor::Job searched[] = {phasor::Job(source, beams)};
  REQUIRE(session.jobs_run(searched, search));
  CHECK(searched[0].made >= 1);
  const auto found = beams;
  phasor::Job stepped[] = {phasor::Job(source, beams)};
  for (auto left = session.jobs_step(stepped, search); left && *left != 0;)
    left = session.jobs_step(stepped, search);
  CHECK(beams == found);

  REQUIRE(model->vector_count() > 0);
  CHECK(model->vector(0)->source_count > 0);
  auto runner = phasor::OwnedSession::open(*model, model->limits(0, 0));
  REQUIRE(runner);
  const auto result = runner->vector(0);
  REQUIRE_MESSAGE(result, result.error().text);
  std::vector<uint64_t> hashes;
  for (uint32_t i = 0; i < model->vector_count(); ++i) hashes.push_back(runner->vector(i)->hash);
  CHECK(model->record(bytes.data(), nullptr, -1).status() == PHASOR_BAD_INPUT);
  REQUIRE(model->record(bytes.data(), hashes.data(), 1e-3f));
  const auto recorded = phasor::OwnedModel::open(phasor::Bytes(bytes));
  REQUIRE(recorded);
  CHECK(recorded->vector(0)->hash == hashes[0]);
  CHECK(model->record().status() == PHASOR_BAD_INPUT);  // the file has none
  phasor::Record record;
  record.method = "exact";
  record.method_bytes = 5;
  CHECK(model->put_record(bytes.data(), record).status() == PHASOR_BAD_FILE);
}

TEST_CASE("phasor.hpp: an encoder, and another type of its weights") {
  const Block bytes = read("tests/golden/models/tiny-classes-f32.phasor");
  phasor::QuantizeOptions options;
  options.type = "q8";
  const auto size = phasor::quantize_size(phasor::Bytes(bytes), options);
  REQUIRE(size);
  const Block smaller(*size);
  phasor::Rounding roundings[PHASOR_TYPES];
  REQUIRE(phasor::quantize(smaller, phasor::Bytes(bytes), options, roundings));
  CHECK(*size < bytes.size());
  CHECK(std::any_of(std::begin(roundings), std::end(roundings),
                    [](const phasor::Rounding& one) { return one.largest > 0; }));
  const auto model = phasor::OwnedModel::open(phasor::Bytes(smaller));
  REQUIRE(model);
  const phasor::Text label = model->label(2);
  CHECK(std::string(label.data, label.size) == "positive");
  auto session = phasor::OwnedSession::open(*model, model->limits(16, 0));
  REQUIRE(session);
  const std::vector<uint32_t> ids{2, 9, 11, 3};
  REQUIRE(session->encode(ids));
  REQUIRE(session->output());
  CHECK(session->logits() != nullptr);
  std::vector<float> vector(32);
  REQUIRE(session->embedding(vector, PHASOR_POOL_MEAN, PHASOR_NORMALIZE_YES));
  float length = 0;
  for (const float x : vector) length += x * x;
  CHECK(length == doctest::Approx(1));
}

#ifdef __cpp_exceptions
TEST_CASE("phasor.hpp: with exceptions") {
  const Block bytes = read("tests/golden/models/tiny-lm-f32.phasor");
  const phasor::OwnedModel model = phasor::value(phasor::OwnedModel::open(phasor::Bytes(bytes)));
  phasor::OwnedSession session =
      phasor::value(phasor::OwnedSession::open(model, model.limits(0, 8)));
  const std::vector<uint32_t> wrong{99};
  try {
    (void)phasor::value(session.step(wrong));
    FAIL("no exception");
  } catch (const phasor::Exception& error) {
    CHECK(error.status() == PHASOR_BAD_INPUT);
    CHECK(std::string(error.what()).find("99") != std::string::npos);
  }
}
#endif
