// Phasor for C++17: a thin layer over phasor.h, which is the manual. Header only; no exceptions, no
// RTTI, no allocation.
//
//   phasor::Result<phasor::Model> model = phasor::Model::open(memory, file);
//   if (!model) report(model.error().text);
//   phasor::Limits limits = model->limits(64, 64);
//
// Errors    A function that can fail returns a Result: a value, or a phasor_error with one line of
//           text. A Result converts to bool.
// Memory    Model and Session are handles: copy them freely. They own nothing, and nothing needs
//           closing. Bytes, File, Ids and Text are views: a pointer and a size.
#ifndef PHASOR_HPP
#define PHASOR_HPP

#include "phasor.h"

namespace phasor {
inline namespace interface {

struct Bytes {
  void* data = nullptr;
  size_t size = 0;
  constexpr Bytes() = default;
  constexpr Bytes(void* d, size_t n) : data(d), size(n) {}
};

struct File {  // the whole .phasor file, aligned to PHASOR_ALIGN
  const void* data = nullptr;
  size_t size = 0;
};

struct Ids {
  const uint32_t* data = nullptr;
  uint32_t count = 0;
  constexpr Ids() = default;
  constexpr Ids(const uint32_t* d, size_t n) : data(d), count(static_cast<uint32_t>(n)) {}
  template <size_t N>
  constexpr Ids(const uint32_t (&d)[N]) : data(d), count(N) {}
  // std::vector, std::array, std::span
  template <class C,
            class = decltype(static_cast<const uint32_t*>(static_cast<const C*>(nullptr)->data()))>
  constexpr Ids(const C& c) : data(c.data()), count(static_cast<uint32_t>(c.size())) {}
};

struct Text {
  const char* data = nullptr;
  size_t size = 0;
  constexpr Text(const char* d, size_t n) : data(d), size(n) {}
  // std::string, std::string_view
  template <class C,
            class = decltype(static_cast<const char*>(static_cast<const C*>(nullptr)->data()))>
  constexpr Text(const C& c) : data(c.data()), size(c.size()) {}
};

struct Error : phasor_error {
  Error() : phasor_error PHASOR_ERROR_INIT {}
  phasor_status status() const { return static_cast<phasor_status>(code); }
};

// A value, or the error. After an error the value is empty.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(phasor_status status, const T& value, const Error& error) : value_(value), error_(error) {
    error_.code = status;
  }
  explicit operator bool() const { return error_.code == PHASOR_OK; }
  phasor_status status() const { return error_.status(); }
  const Error& error() const { return error_; }
  T& operator*() { return value_; }
  const T& operator*() const { return value_; }
  T* operator->() { return &value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_;
  Error error_;
};

struct Limits : phasor_limits {
  Limits() : phasor_limits PHASOR_LIMITS_INIT {}
};
struct Side : phasor_side {
  Side() : phasor_side PHASOR_SIDE_INIT {}
};
struct GenerateOptions : phasor_generate_options {
  GenerateOptions() : phasor_generate_options PHASOR_GENERATE_OPTIONS_INIT {}
};
struct Generation : phasor_generation {
  Generation() : phasor_generation PHASOR_GENERATION_INIT {}
};
struct BeamOptions : phasor_beam_options {
  BeamOptions() : phasor_beam_options PHASOR_BEAM_OPTIONS_INIT {}
};
struct BeamResult : phasor_beam_result {
  BeamResult() : phasor_beam_result PHASOR_BEAM_RESULT_INIT {}
};
struct Hypothesis : phasor_hypothesis {
  Hypothesis() : phasor_hypothesis PHASOR_HYPOTHESIS_INIT {}
  Ids tokens() const { return {ids, count}; }
};
struct Random : phasor_random {
  explicit Random(uint64_t seed) { phasor_random_seed(this, seed); }
};

struct Message : phasor_chat_message {
  Message(Text who, Text what)
      : phasor_chat_message{sizeof(phasor_chat_message), who.data, who.size, what.data, what.size} {
  }
};

class Model {
 public:
  Model() = default;
  explicit Model(phasor_model* handle) : handle_(handle) {}

  static Result<size_t> size(File file) {
    Error error;
    size_t need = 0;
    const phasor_status status = phasor_model_size(&need, file.data, file.size, &error);
    return {status, need, error};
  }
  static Result<Model> open(Bytes memory, File file, const char* isa = nullptr) {
    Error error;
    phasor_open_options options = PHASOR_OPEN_OPTIONS_INIT;
    options.isa = isa;
    phasor_model* handle = nullptr;
    const phasor_status status = phasor_model_open(&handle, memory.data, memory.size, file.data,
                                                   file.size, &options, &error);
    return {status, Model(handle), error};
  }

  uint32_t stack() const { return phasor_model_stack(handle_); }
  const char* isa() const { return phasor_model_isa(handle_); }
  Result<Side> side(uint32_t which) const {
    Side out;
    const phasor_status status = phasor_model_side(handle_, which, &out);
    return {status, out, Error()};
  }
  Result<bool> check() const {
    Error error;
    const phasor_status status = phasor_model_check(handle_, &error);
    return {status, status == PHASOR_OK, error};
  }
  Limits limits(uint32_t source, uint32_t target) const {
    Limits out;
    (void)phasor_limits_for(handle_, source, target, &out);
    return out;
  }
  Result<size_t> session_size(const phasor_limits& limits) const {
    Error error;
    size_t need = 0;
    const phasor_status status = phasor_session_size(&need, handle_, &limits, &error);
    return {status, need, error};
  }
  // The options that the file recommends.
  GenerateOptions generation_defaults() const {
    GenerateOptions out;
    (void)phasor_generation_defaults(handle_, &out);
    return out;
  }
  // The same for beam search.
  BeamOptions beam_defaults() const {
    BeamOptions out;
    (void)phasor_beam_defaults(handle_, &out);
    return out;
  }
  bool can_chat() const { return phasor_chat_available(handle_) != 0; }
  phasor_model* handle() const { return handle_; }

 private:
  phasor_model* handle_ = nullptr;
};

class Session {
 public:
  Session() = default;
  explicit Session(phasor_session* handle) : handle_(handle) {}

  static Result<Session> open(Bytes arena, Model model, const phasor_limits& limits,
                              const phasor_parallel* parallel = nullptr) {
    Error error;
    phasor_session* handle = nullptr;
    const phasor_status status = phasor_session_open(&handle, arena.data, arena.size,
                                                     model.handle(), &limits, parallel, &error);
    return {status, Session(handle), error};
  }

  // Returns the number of ids. Status PHASOR_FULL if capacity is too small.
  Result<size_t> to_ids(uint32_t side, Text text, uint32_t* ids, size_t capacity,
                        bool template_ids = true) {
    Error error;
    size_t count = 0;
    const phasor_status status = phasor_text_to_ids(handle_, side, template_ids, ids, capacity,
                                                    &count, text.data, text.size, &error);
    return {status, count, error};
  }
  // Returns the length of the formatted conversation. Status PHASOR_FULL if capacity is too small.
  Result<size_t> chat_text(const Message* messages, uint32_t count, char* out, size_t capacity,
                           bool add_generation_prompt = true) {
    Error error;
    size_t bytes = 0;
    const phasor_status status = phasor_chat_to_text(handle_, add_generation_prompt, out, capacity,
                                                     &bytes, messages, count, &error);
    return {status, bytes, error};
  }
  Result<bool> encode(Ids ids, uint32_t sequence = 0) {
    Error error;
    const phasor_item item = item_of(ids, PHASOR_LOGITS_NONE, sequence);
    const phasor_status status = phasor_encode(handle_, &item, 1, &error);
    return {status, status == PHASOR_OK, error};
  }
  Result<bool> step(Ids ids, uint32_t logits = PHASOR_LOGITS_LAST, uint32_t sequence = 0) {
    Error error;
    const phasor_item item = item_of(ids, logits, sequence);
    const phasor_status status = phasor_step(handle_, &item, 1, &error);
    return {status, status == PHASOR_OK, error};
  }
  Result<Generation> generate(Ids prompt, uint32_t* out, uint32_t capacity,
                              const phasor_generate_options& options = GenerateOptions(),
                              uint32_t sequence = 0) {
    Error error;
    Generation result;
    const phasor_status status = phasor_generate(handle_, sequence, prompt.data, prompt.count, out,
                                                 capacity, &options, &result, &error);
    return {status, result, error};
  }
  // Needs limits.beams. hypothesis(0) is the best output.
  Result<BeamResult> beam_search(Ids prompt, const phasor_beam_options& options = BeamOptions(),
                                 uint32_t sequence = 0) {
    Error error;
    BeamResult result;
    const phasor_status status =
        phasor_beam_search(handle_, sequence, prompt.data, prompt.count, &options, &result, &error);
    return {status, result, error};
  }
  Result<Hypothesis> hypothesis(uint32_t index = 0) const {
    Hypothesis out;
    const phasor_status status = phasor_hypothesis_get(handle_, index, &out);
    return {status, out, Error()};
  }
  // Chooses a token from a row of logits, for your own decoding loop. To draw, set options.random.
  // ids is the sequence so far; its last new_count tokens are new.
  Result<uint32_t> choose(Ids ids, uint32_t new_count, const phasor_generate_options& options,
                          uint32_t row = 0, float* probabilities = nullptr) {
    Error error;
    uint32_t id = PHASOR_NONE;
    const phasor_status status = phasor_choose(handle_, &id, probabilities, row, ids.data,
                                               ids.count, new_count, &options, &error);
    return {status, id, error};
  }
  // Computes an encoder's rows of logits or classes: logits(0) to logits(count - 1).
  Result<bool> output(uint32_t first = 0, uint32_t count = 1, uint32_t sequence = 0) {
    Error error;
    const phasor_status status = phasor_encoder_output(handle_, sequence, first, count, &error);
    return {status, status == PHASOR_OK, error};
  }
  // Computes one vector for an encoded sequence: dim values.
  Result<bool> embedding(float* out, uint32_t dim, uint32_t pooling = PHASOR_POOL_MODEL,
                         uint32_t normalize = PHASOR_NORMALIZE_MODEL, uint32_t sequence = 0) {
    Error error;
    const phasor_status status =
        phasor_embedding(handle_, sequence, pooling, normalize, out, dim, &error);
    return {status, status == PHASOR_OK, error};
  }
  float* logits(uint32_t row = 0) { return phasor_logits(handle_, row); }
  uint32_t length(uint32_t sequence = 0) const { return phasor_sequence_length(handle_, sequence); }
  Ids ids(uint32_t sequence = 0) const {
    return {phasor_sequence_ids(handle_, sequence), length(sequence)};
  }
  uint32_t common(Ids ids, uint32_t sequence = 0) const {
    return phasor_sequence_common(handle_, sequence, ids.data, ids.count);
  }
  void clear(uint32_t sequence = 0) { (void)phasor_sequence_clear(handle_, sequence); }
  phasor_session* handle() const { return handle_; }

 private:
  static phasor_item item_of(Ids ids, uint32_t logits, uint32_t sequence) {
    phasor_item item = PHASOR_ITEM_INIT;
    item.sequence = sequence;
    item.count = ids.count;
    item.logits = logits;
    item.ids = ids.data;
    return item;
  }

  phasor_session* handle_ = nullptr;
};

}  // namespace interface
}  // namespace phasor
#endif
