#include "models.h"

#include <algorithm>
#include <map>
#include <string>

#include "edit.h"
#include "generator/model_generator.h"

namespace fuzz {
namespace {

// What was made of the last inputs, by their bytes; forgotten all at once.
template <class T>
class Kept {
 public:
  template <class Make>
  const T& get(const Part& part, Make make) {
    const std::string key(reinterpret_cast<const char*>(part.data), part.size);
    const auto found = kept_.find(key);
    if (found != kept_.end()) return *found->second;
    if (kept_.size() == kMost) kept_.clear();
    return *(kept_[key] = make());
  }

 private:
  static constexpr size_t kMost = 64;
  std::map<std::string, std::unique_ptr<T>> kept_;
};

}  // namespace

Model::Model(const uint8_t* file, size_t bytes) : file_(file, bytes) {
  Answer answer;
  size_t need = 0;
  if (!answer(phasor_model_size(&need, file_.as(), bytes, &answer.error)) || need > kMostMemory)
    return;
  memory_ = std::make_unique<Block>(need);
  phasor_error error = PHASOR_ERROR_INIT;
  demand(phasor_model_open(&model_, memory_->as(), need - 1, file_.as(), bytes, nullptr, &error) ==
             PHASOR_NO_MEMORY,
         "a model opens in a byte less than its size");
  (void)answer(
      phasor_model_open(&model_, memory_->as(), need, file_.as(), bytes, nullptr, &answer.error));
}

uint32_t Model::vocabulary(uint32_t side) const {
  auto out = sized<phasor_side>();
  return ok(phasor_model_side(model_, side, &out)) ? out.vocabulary : 0;
}

Session::Session(const Model& model, const phasor_limits& limits) {
  Answer answer;
  size_t need = 0;
  if (!answer(phasor_session_size(&need, model.get(), &limits, &answer.error)) ||
      need > kMostMemory)
    return;
  arena_ = std::make_unique<Block>(need);
  phasor_error error = PHASOR_ERROR_INIT;
  demand(phasor_session_open(&session_, arena_->as(), need - 1, model.get(), &limits, nullptr,
                             &error) == PHASOR_NO_MEMORY,
         "a session opens in a byte less than its size");
  demand(phasor_session_open(&session_, arena_->as(), need, model.get(), &limits, nullptr,
                             &error) == PHASOR_OK,
         "a session does not open in its size");
}

const Bytes& generated_file(const Part& part) {
  static Kept<Bytes> files;
  return files.get(part, [&] {
    Choices choices = part.choices();
    return std::make_unique<Bytes>(generator::generate_model(&choices));
  });
}

const Model* generated_model(const Part& part) {
  static Kept<Model> models;
  if (generated_file(part).size() > kMostFile) return nullptr;
  return &models.get(part, [&] {
    const Bytes& file = generated_file(part);
    auto model = std::make_unique<Model>(file.data(), file.size());
    demand(model->get() != nullptr, "a generated file does not open");
    return model;
  });
}

Bytes edited_file(const Part& model, const Part& edits, uint32_t section) {
  Bytes file = generated_file(model);
  if (file.size() > kMostFile) return {};
  Choices choices = edits.choices();
  edit_file(&file, &choices, section);
  return file;
}

phasor_limits any_limits(Choices* c, const Model& model) {
  auto l = sized<phasor_limits>();
  const uint32_t source = c->of({2u, 1u, 5u, 17u, 33u}), target = c->of({3u, 1u, 9u, 18u, 40u});
  demand(phasor_limits_for(model.get(), source, target, &l) == PHASOR_OK, "limits_for");
  l.sequences = c->of({1u, 2u, 3u});
  l.chunk = c->of({4u, 1u, 3u, 16u, 19u});
  l.text_bytes = c->of({l.text_bytes != 0 ? 48u : 0u, 0u, 100u});
  l.outputs = c->below(4);
  l.tables = c->below(2);
  l.threads = c->of({1u, 1u, 2u});
  l.logit_rows += c->below(5);
  if (model.decodes()) {
    l.best_rows = c->of({0u, 0u, 1u, 5u});
    l.beams = c->of({0u, 0u, 1u, 3u});
    l.searches = l.beams == 3 ? l.sequences : 0;
    l.cache_type = c->of({0u, 0u, 1u, 2u});
  }
  phasor_error error = PHASOR_ERROR_INIT;
  size_t need = 0;
  if (phasor_session_size(&need, model.get(), &l, &error) != PHASOR_OK && c->chance(95)) {
    l.cache_type = PHASOR_CACHE_F32;
    if (!model.encodes()) l.source = 0;
    auto fitting = sized<phasor_limits>();
    if (phasor_session_size(&need, model.get(), &l, &error) != PHASOR_OK &&
        phasor_limits_for(model.get(), 1, 1, &fitting) == PHASOR_OK)
      l.source = fitting.source, l.target = fitting.target;
  }
  return l;
}

std::vector<uint32_t> any_ids(Choices* c, uint32_t vocabulary, uint32_t count) {
  std::vector<uint32_t> ids(count);
  for (uint32_t& id : ids) id = vocabulary == 0 ? 0 : any_id(c, vocabulary);
  return ids;
}

bool encode_any(Choices* c, const Model& model, const Session& session, uint32_t sequence,
                uint32_t most) {
  if (!model.encodes()) return true;
  const std::vector<uint32_t> ids =
      any_ids(c, model.vocabulary(PHASOR_SOURCE), 1 + c->below(std::max(most, 1u)));
  const Block exact(ids.data(), ids.size() * 4);
  phasor_item item = PHASOR_ITEM_INIT;
  item.sequence = sequence;
  item.count = static_cast<uint32_t>(ids.size());
  item.ids = exact.as<uint32_t>();
  if (c->chance(20)) item.seen = c->below(item.count + 2);
  Answer answer;
  return answer(phasor_encode(session.get(), &item, 1, &answer.error),
                {PHASOR_BAD_INPUT, PHASOR_NOT_FINITE});
}

}  // namespace fuzz
