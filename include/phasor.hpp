// Phasor for C++17: a thin layer over phasor.h, which is the manual. Header only; no RTTI.
//
//   phasor::Result<phasor::OwnedModel> model = phasor::OwnedModel::open(file);
//   if (!model) report(model.error().text);
//   phasor::Limits limits = model->limits(64, 64);
//
// Errors    A function that can fail returns a Result: a value, or a phasor_error with one line of
//           text. A Result converts to bool. With exceptions, phasor::value(result) returns the
//           value or throws phasor::Exception.
// Memory    Model and Session are handles: copy them freely. They own nothing, and nothing needs
//           closing. OwnedModel and OwnedSession also own their Block of memory, and free it. Only
//           Block allocates. Bytes, File, Span and Text are views: a pointer and a size.
#ifndef PHASOR_HPP
#define PHASOR_HPP

#include "phasor.h"

#include <new>
#ifdef __cpp_exceptions
#include <exception>
#endif

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
  constexpr File() = default;
  constexpr File(const void* d, size_t n) : data(d), size(n) {}
  constexpr File(Bytes bytes) : data(bytes.data), size(bytes.size) {}
};

// Elements that follow each other in memory.
template <class T>
struct Span {
  T* data = nullptr;
  uint32_t count = 0;
  constexpr Span() = default;
  constexpr Span(T* d, size_t n) : data(d), count(static_cast<uint32_t>(n)) {}
  template <size_t N>
  constexpr Span(T (&d)[N]) : data(d), count(N) {}
  // std::vector, std::array, std::span
  template <class C, class = decltype(static_cast<T*>(static_cast<C*>(nullptr)->data()))>
  constexpr Span(C& c) : data(c.data()), count(static_cast<uint32_t>(c.size())) {}
  template <class C, class = decltype(static_cast<T*>(static_cast<const C*>(nullptr)->data()))>
  constexpr Span(const C& c) : data(c.data()), count(static_cast<uint32_t>(c.size())) {}
  constexpr size_t size() const { return count; }
  constexpr T* begin() const { return data; }
  constexpr T* end() const { return data + count; }
  constexpr T& operator[](size_t i) const { return data[i]; }
};
using Ids = Span<const uint32_t>;

struct Text {  // without a terminator
  const char* data = nullptr;
  size_t size = 0;
  constexpr Text() = default;
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
  Result(phasor_status status, T&& value, const Error& error)
      : value_(static_cast<T&&>(value)), error_(error) {
    error_.code = status;
    if (status == PHASOR_OK || error_.text[0] != 0) return;
    const char* name = phasor_status_name(status);  // of a call without an error of its own
    for (size_t i = 0; name[i] != 0 && i + 1 < sizeof error_.text; ++i) error_.text[i] = name[i];
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

// The result of call(T* value, phasor_error*), which returns a status.
template <class T, class Call>
Result<T> result(Call call) {
  Error error;
  T value{};
  const phasor_status status = call(&value, &error);
  return {status, static_cast<T&&>(value), error};
}
// The same of call(phasor_error*). The value is whether the call succeeded.
template <class Call>
Result<bool> done(Call call) {
  Error error;
  const phasor_status status = call(&error);
  return {status, status == PHASOR_OK, error};
}

#ifdef __cpp_exceptions
class Exception : public std::exception {
 public:
  explicit Exception(const Error& error) : error_(error) {}
  const char* what() const noexcept override { return error_.text; }
  phasor_status status() const { return error_.status(); }
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// The value. Throws Exception if there is none.
template <class T>
T value(Result<T>&& result) {
  if (!result) throw Exception(result.error());
  return static_cast<T&&>(*result);
}
#endif

// ---------------------------------------------------------------- structs, initialized

struct OpenOptions : phasor_open_options {
  OpenOptions() : phasor_open_options PHASOR_OPEN_OPTIONS_INIT {}
};
struct Side : phasor_side {
  Side() : phasor_side PHASOR_SIDE_INIT {}
};
struct Limits : phasor_limits {
  Limits() : phasor_limits PHASOR_LIMITS_INIT {}
};
struct Parallel : phasor_parallel {
  Parallel() : phasor_parallel PHASOR_PARALLEL_INIT {}
};
struct TextState : phasor_text {  // of one text that ids become
  TextState() : phasor_text PHASOR_TEXT_INIT {}
};
struct Item : phasor_item {
  Item() : phasor_item PHASOR_ITEM_INIT {}
  explicit Item(Ids tokens, uint32_t wanted = PHASOR_LOGITS_NONE, uint32_t of = 0) : Item() {
    sequence = of;
    count = tokens.count;
    logits = wanted;
    ids = tokens.data;
  }
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
struct Job : phasor_job {
  Job() : phasor_job PHASOR_JOB_INIT {}
  Job(Ids given, Span<uint32_t> room) : Job() {
    ids = given.data;
    count = given.count;
    out = room.data;
    capacity = room.count;
  }
};
struct Output : phasor_output {
  Output() : phasor_output PHASOR_OUTPUT_INIT {}
};
struct Prompt {
  Text name, text;
};
struct Message : phasor_chat_message {
  Message() : phasor_chat_message PHASOR_CHAT_MESSAGE_INIT {}
  Message(Text who, Text what) : Message() {
    role = who.data;
    role_bytes = who.size;
    content = what.data;
    content_bytes = what.size;
  }
};
struct Random : phasor_random {
  explicit Random(uint64_t seed) { phasor_random_seed(this, seed); }
};
struct Best {  // the best token of a row, and its logit
  uint32_t id = PHASOR_NONE;
  float logit = 0;
};
struct Rows {  // row r begins at data + r * stride, in floats
  const float* data = nullptr;
  uint32_t count = 0, stride = 0;
};
struct Tensor : phasor_tensor {
  Tensor() : phasor_tensor PHASOR_TENSOR_INIT {}
};
struct Field : phasor_field {
  Field() : phasor_field PHASOR_FIELD_INIT {}
};
struct Callbacks : phasor_callbacks {
  Callbacks() : phasor_callbacks PHASOR_CALLBACKS_INIT {}
};
struct Vector : phasor_vector {
  Vector() : phasor_vector PHASOR_VECTOR_INIT {}
};
struct VectorResult : phasor_vector_result {
  VectorResult() : phasor_vector_result PHASOR_VECTOR_RESULT_INIT {}
};
struct Record : phasor_record {
  Record() : phasor_record PHASOR_RECORD_INIT {}
};
struct QuantizeOptions : phasor_quantize_options {
  QuantizeOptions() : phasor_quantize_options PHASOR_QUANTIZE_OPTIONS_INIT {}
};
struct Rounding : phasor_rounding {
  Rounding() : phasor_rounding PHASOR_ROUNDING_INIT {}
};
struct Cost : phasor_cost {  // experimental
  Cost() : phasor_cost PHASOR_COST_INIT {}
};
struct Part {  // of an arena; experimental
  const char* name = nullptr;
  uint64_t bytes = 0;
};

// ---------------------------------------------------------------- the library

inline uint32_t version() { return phasor_version(); }
inline uint32_t numerics() { return phasor_numerics(); }
inline uint32_t format_max() { return phasor_format_max(); }
inline const char* name(phasor_status status) { return phasor_status_name(status); }
inline const char* isa_name(uint32_t index) { return phasor_isa_name(index); }

inline Result<size_t> quantize_size(File file, const phasor_quantize_options& options) {
  return result<size_t>([&](size_t* need, phasor_error* error) {
    return phasor_quantize_size(need, file.data, file.size, &options, error);
  });
}
// roundings: PHASOR_TYPES of them, or none.
inline Result<bool> quantize(Bytes out, File file, const phasor_quantize_options& options,
                             Span<Rounding> roundings = {}) {
  return done([&](phasor_error* error) {
    return phasor_quantize(out.data, out.size, roundings.data, roundings.count, file.data,
                           file.size, &options, error);
  });
}

// Memory for a file, a model or an arena. Empty if there is not enough.
class Block {
 public:
  Block() = default;
  explicit Block(size_t size)
      : bytes_(::operator new(size, std::align_val_t(PHASOR_ALIGN), std::nothrow), size) {
    if (bytes_.data == nullptr) bytes_.size = 0;
  }
  Block(Block&& other) noexcept : bytes_(other.bytes_) { other.bytes_ = {}; }
  Block& operator=(Block&& other) noexcept {
    const Bytes mine = bytes_;
    bytes_ = other.bytes_;
    other.bytes_ = mine;
    return *this;
  }
  ~Block() { ::operator delete(bytes_.data, std::align_val_t(PHASOR_ALIGN)); }
  explicit operator bool() const { return bytes_.data != nullptr; }
  operator Bytes() const { return bytes_; }
  void* data() const { return bytes_.data; }
  size_t size() const { return bytes_.size; }

 private:
  Bytes bytes_;
};

// ---------------------------------------------------------------- a model

class Model {
 public:
  Model() = default;
  explicit Model(phasor_model* handle) : handle_(handle) {}

  static Result<size_t> size(File file) {
    return result<size_t>([&](size_t* need, phasor_error* error) {
      return phasor_model_size(need, file.data, file.size, error);
    });
  }
  static Result<Model> open(Bytes memory, File file, const phasor_open_options& options) {
    return result<Model>([&](Model* out, phasor_error* error) {
      return phasor_model_open(&out->handle_, memory.data, memory.size, file.data, file.size,
                               &options, error);
    });
  }
  static Result<Model> open(Bytes memory, File file, const char* isa = nullptr) {
    OpenOptions options;
    options.isa = isa;
    return open(memory, file, options);
  }

  uint32_t stack() const { return phasor_model_stack(handle_); }
  const char* isa() const { return phasor_model_isa(handle_); }
  Result<Side> side(uint32_t which) const {
    return result<Side>(
        [&](Side* out, phasor_error*) { return phasor_model_side(handle_, which, out); });
  }
  Result<bool> check() const {
    return done([&](phasor_error* error) { return phasor_model_check(handle_, error); });
  }
  Limits limits(uint32_t source, uint32_t target) const {
    Limits out;
    (void)phasor_limits_for(handle_, source, target, &out);
    return out;
  }
  Result<size_t> session_size(const phasor_limits& limits) const {
    return result<size_t>([&](size_t* need, phasor_error* error) {
      return phasor_session_size(need, handle_, &limits, error);
    });
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

  // Returns the number of bytes. Status PHASOR_FULL if capacity is too small: call again.
  Result<size_t> to_text(uint32_t side, TextState& state, uint32_t id, char* out,
                         size_t capacity) const {
    return result<size_t>([&](size_t* bytes, phasor_error*) {
      return phasor_id_to_text(handle_, side, &state, id, out, capacity, bytes);
    });
  }
  // The bytes that are held back at the end of a text.
  Result<size_t> flush(uint32_t side, TextState& state, char* out, size_t capacity) const {
    return result<size_t>([&](size_t* bytes, phasor_error*) {
      return phasor_text_flush(handle_, side, &state, out, capacity, bytes);
    });
  }
  // A token as the tokenizer stores it. No data: there is no such token.
  Text piece(uint32_t side, uint32_t id) const {
    Text out;
    out.data = phasor_piece(handle_, side, id, &out.size);
    return out;
  }
  uint32_t piece_flags(uint32_t side, uint32_t id) const {
    return phasor_piece_flags(handle_, side, id);
  }

  Output output() const {
    Output out;
    (void)phasor_model_output(handle_, &out);
    return out;
  }
  // The name of a class. No data: the file has none.
  Text label(uint32_t index) const {
    Text out;
    out.data = phasor_label(handle_, index, &out.size);
    return out;
  }
  Result<Prompt> prompt(uint32_t index) const {
    return result<Prompt>([&](Prompt* out, phasor_error*) {
      return phasor_prompt(handle_, index, &out->name.data, &out->name.size, &out->text.data,
                           &out->text.size);
    });
  }

  uint32_t tensor_count() const { return phasor_tensor_count(handle_); }
  Result<Tensor> tensor(uint32_t index) const {
    return result<Tensor>(
        [&](Tensor* out, phasor_error*) { return phasor_tensor_get(handle_, index, out); });
  }
  uint32_t field_count() const { return phasor_field_count(handle_); }
  Result<Field> field(uint32_t index) const {
    return result<Field>(
        [&](Field* out, phasor_error*) { return phasor_field_get(handle_, index, out); });
  }
  uint32_t vector_count() const { return phasor_vector_count(handle_); }
  Result<Vector> vector(uint32_t index) const {
    return result<Vector>(
        [&](Vector* out, phasor_error*) { return phasor_vector_get(handle_, index, out); });
  }
  // hashes: vector_count() of them, or NULL. file: the one that the model was opened with.
  Result<bool> record(void* file, const uint64_t* hashes, float tolerance) const {
    return done([&](phasor_error* error) {
      return phasor_vector_record(handle_, file, hashes, tolerance, error);
    });
  }
  Result<Record> record() const {
    return result<Record>(
        [&](Record* out, phasor_error*) { return phasor_record_get(handle_, out); });
  }
  Result<bool> put_record(void* file, const phasor_record& record) const {
    return done([&](phasor_error* error) {
      return phasor_record_put(handle_, file, &record, error);
    });
  }

  // Experimental.
  Result<Part> part(const phasor_limits& limits, uint32_t index) const {
    return result<Part>([&](Part* out, phasor_error*) {
      return phasor_session_part(handle_, &limits, index, &out->name, &out->bytes);
    });
  }
  Result<Cost> cost(uint32_t source, uint32_t position) const {
    return result<Cost>([&](Cost* out, phasor_error*) {
      return phasor_model_cost(handle_, source, position, out);
    });
  }
  uint64_t peak(uint32_t what, uint64_t rounds) const {
    return phasor_model_peak(handle_, what, rounds);
  }
  Ids skipped() const {
    Ids out;
    out.data = phasor_skipped(handle_, &out.count);
    return out;
  }

  phasor_model* handle() const { return handle_; }

 private:
  phasor_model* handle_ = nullptr;
};

// A model and its memory. Keep the file.
class OwnedModel : public Model {
 public:
  OwnedModel() = default;
  static Result<OwnedModel> open(File file, const phasor_open_options& options = OpenOptions()) {
    return result<OwnedModel>([&](OwnedModel* out, phasor_error* error) {
      size_t need = 0;
      const phasor_status status = phasor_model_size(&need, file.data, file.size, error);
      if (status != PHASOR_OK) return status;
      out->block_ = Block(need);
      if (!out->block_) return PHASOR_NO_MEMORY;
      auto opened = Model::open(out->block_, file, options);
      *error = opened.error();
      static_cast<Model&>(*out) = *opened;
      return opened.status();
    });
  }

 private:
  Block block_;
};

// ---------------------------------------------------------------- a session

class Session {
 public:
  Session() = default;
  explicit Session(phasor_session* handle) : handle_(handle) {}

  static Result<Session> open(Bytes arena, Model model, const phasor_limits& limits,
                              const phasor_parallel* parallel = nullptr) {
    return result<Session>([&](Session* out, phasor_error* error) {
      return phasor_session_open(&out->handle_, arena.data, arena.size, model.handle(), &limits,
                                 parallel, error);
    });
  }

  // Returns the number of ids. Status PHASOR_FULL if capacity is too small.
  Result<size_t> to_ids(uint32_t side, Text text, uint32_t* ids, size_t capacity,
                        bool template_ids = true) {
    return result<size_t>([&](size_t* count, phasor_error* error) {
      return phasor_text_to_ids(handle_, side, template_ids, ids, capacity, count, text.data,
                                text.size, error);
    });
  }
  // The same for two texts. segments may be NULL.
  Result<size_t> pair_to_ids(uint32_t side, Text first, Text second, uint32_t* ids,
                             uint32_t* segments, size_t capacity) {
    return result<size_t>([&](size_t* count, phasor_error* error) {
      return phasor_pair_to_ids(handle_, side, ids, segments, capacity, count, first.data,
                                first.size, second.data, second.size, error);
    });
  }
  // The same with where each token lies. offsets: 2 * capacity.
  Result<size_t> to_offsets(uint32_t side, Text text, uint32_t* ids, uint32_t* offsets,
                            size_t capacity, bool template_ids = true) {
    return result<size_t>([&](size_t* count, phasor_error* error) {
      return phasor_text_to_offsets(handle_, side, template_ids, ids, offsets, capacity, count,
                                    text.data, text.size, error);
    });
  }
  // Returns the length of the formatted conversation. Status PHASOR_FULL if capacity is too small.
  Result<size_t> chat_text(Span<const Message> messages, char* out, size_t capacity,
                           bool add_generation_prompt = true) {
    return result<size_t>([&](size_t* bytes, phasor_error* error) {
      return phasor_chat_to_text(handle_, add_generation_prompt, out, capacity, bytes,
                                 messages.data, messages.count, error);
    });
  }

  Result<bool> encode(Span<const Item> items) {
    return done([&](phasor_error* error) {
      return phasor_encode(handle_, items.data, items.count, error);
    });
  }
  Result<bool> encode(Ids ids, uint32_t sequence = 0) {
    const Item item(ids, PHASOR_LOGITS_NONE, sequence);
    return encode(Span<const Item>(&item, 1));
  }
  Result<bool> step(Span<const Item> items) {
    return done(
        [&](phasor_error* error) { return phasor_step(handle_, items.data, items.count, error); });
  }
  Result<bool> step(Ids ids, uint32_t logits = PHASOR_LOGITS_LAST, uint32_t sequence = 0) {
    const Item item(ids, logits, sequence);
    return step(Span<const Item>(&item, 1));
  }
  Result<Generation> generate(Ids prompt, Span<uint32_t> out,
                              const phasor_generate_options& options = GenerateOptions(),
                              uint32_t sequence = 0) {
    return result<Generation>([&](Generation* made, phasor_error* error) {
      return phasor_generate(handle_, sequence, prompt.data, prompt.count, out.data, out.count,
                             &options, made, error);
    });
  }
  // Needs limits.beams. hypothesis(0) is the best output.
  Result<BeamResult> beam_search(Ids prompt, const phasor_beam_options& options = BeamOptions(),
                                 uint32_t sequence = 0) {
    return result<BeamResult>([&](BeamResult* made, phasor_error* error) {
      return phasor_beam_search(handle_, sequence, prompt.data, prompt.count, &options, made,
                                error);
    });
  }
  Result<Hypothesis> hypothesis(uint32_t index = 0) const {
    return result<Hypothesis>(
        [&](Hypothesis* out, phasor_error*) { return phasor_hypothesis_get(handle_, index, out); });
  }

  // Jobs. A step returns how many are unfinished.
  Result<uint32_t> jobs_step(Span<Job> jobs, const phasor_generate_options& options) {
    return result<uint32_t>([&](uint32_t* left, phasor_error* error) {
      return phasor_jobs_step(handle_, jobs.data, jobs.count, &options, left, error);
    });
  }
  Result<uint32_t> jobs_step(Span<Job> jobs, const phasor_beam_options& options) {
    return result<uint32_t>([&](uint32_t* left, phasor_error* error) {
      return phasor_beam_jobs_step(handle_, jobs.data, jobs.count, &options, left, error);
    });
  }
  Result<bool> jobs_run(Span<Job> jobs, const phasor_generate_options& options) {
    return done([&](phasor_error* error) {
      return phasor_jobs_run(handle_, jobs.data, jobs.count, &options, error);
    });
  }
  Result<bool> jobs_run(Span<Job> jobs, const phasor_beam_options& options) {
    return done([&](phasor_error* error) {
      return phasor_beam_jobs_run(handle_, jobs.data, jobs.count, &options, error);
    });
  }

  // Chooses a token from a row of logits, for your own decoding loop. To draw, set options.random.
  // ids is the sequence so far; its last new_count tokens are new.
  Result<uint32_t> choose(Ids ids, uint32_t new_count, const phasor_generate_options& options,
                          uint32_t row = 0, float* probabilities = nullptr) {
    return result<uint32_t>([&](uint32_t* id, phasor_error* error) {
      *id = PHASOR_NONE;
      return phasor_choose(handle_, id, probabilities, row, ids.data, ids.count, new_count,
                           &options, error);
    });
  }
  Result<Best> argmax(uint32_t row = 0) {
    return result<Best>([&](Best* best, phasor_error*) {
      return phasor_argmax(handle_, row, &best->id, &best->logit);
    });
  }
  // Computes an encoder's rows of logits or classes: logits(0) to logits(count - 1).
  Result<bool> output(uint32_t first = 0, uint32_t count = 1, uint32_t sequence = 0) {
    return done([&](phasor_error* error) {
      return phasor_encoder_output(handle_, sequence, first, count, error);
    });
  }
  // Computes one vector for an encoded sequence.
  Result<bool> embedding(Span<float> out, uint32_t pooling = PHASOR_POOL_MODEL,
                         uint32_t normalize = PHASOR_NORMALIZE_MODEL, uint32_t sequence = 0) {
    return done([&](phasor_error* error) {
      return phasor_embedding(handle_, sequence, pooling, normalize, out.data, out.count, error);
    });
  }
  float* logits(uint32_t row = 0) { return phasor_logits(handle_, row); }
  Rows hidden(uint32_t sequence = 0) const {
    Rows out;
    out.data = phasor_hidden(handle_, sequence, &out.count, &out.stride);
    return out;
  }

  uint32_t length(uint32_t sequence = 0) const { return phasor_sequence_length(handle_, sequence); }
  phasor_status status(uint32_t sequence = 0) const {
    return phasor_sequence_status(handle_, sequence);
  }
  Ids ids(uint32_t sequence = 0) const {
    return {phasor_sequence_ids(handle_, sequence), length(sequence)};
  }
  uint32_t common(Ids ids, uint32_t sequence = 0) const {
    return phasor_sequence_common(handle_, sequence, ids.data, ids.count);
  }
  Result<bool> truncate(uint32_t length, uint32_t sequence = 0) {
    return done([&](phasor_error*) { return phasor_sequence_truncate(handle_, sequence, length); });
  }
  Result<bool> fork(uint32_t to, uint32_t from = 0) {
    return done([&](phasor_error*) { return phasor_sequence_fork(handle_, to, from); });
  }
  Result<bool> clear(uint32_t sequence = 0) {
    return done([&](phasor_error*) { return phasor_sequence_clear(handle_, sequence); });
  }
  Result<size_t> state_size(uint32_t sequence = 0) const {
    return result<size_t>(
        [&](size_t* need, phasor_error*) { return phasor_state_size(handle_, sequence, need); });
  }
  Result<bool> save(Bytes out, uint32_t sequence = 0) const {
    return done(
        [&](phasor_error*) { return phasor_state_save(handle_, sequence, out.data, out.size); });
  }
  Result<bool> restore(File state, uint32_t sequence = 0) {
    return done([&](phasor_error* error) {
      return phasor_state_restore(handle_, sequence, state.data, state.size, error);
    });
  }

  // NULL removes all.
  Result<bool> callbacks(const phasor_callbacks* callbacks) {
    return done([&](phasor_error*) { return phasor_session_callbacks(handle_, callbacks); });
  }
  // Runs a test vector of the file.
  Result<VectorResult> vector(uint32_t index) {
    return result<VectorResult>([&](VectorResult* out, phasor_error* error) {
      return phasor_vector_run(handle_, index, out, error);
    });
  }

  phasor_session* handle() const { return handle_; }

 private:
  phasor_session* handle_ = nullptr;
};

// A session and its arena. Keep the model.
class OwnedSession : public Session {
 public:
  OwnedSession() = default;
  static Result<OwnedSession> open(Model model, const phasor_limits& limits,
                                   const phasor_parallel* parallel = nullptr) {
    return result<OwnedSession>([&](OwnedSession* out, phasor_error* error) {
      size_t need = 0;
      const phasor_status status = phasor_session_size(&need, model.handle(), &limits, error);
      if (status != PHASOR_OK) return status;
      out->block_ = Block(need);
      if (!out->block_) return PHASOR_NO_MEMORY;
      auto opened = Session::open(out->block_, model, limits, parallel);
      *error = opened.error();
      static_cast<Session&>(*out) = *opened;
      return opened.status();
    });
  }

 private:
  Block block_;
};

// ---------------------------------------------------------------- experimental

inline bool request_amx() { return phasor_request_amx() != 0; }

}  // namespace interface
}  // namespace phasor
#endif
