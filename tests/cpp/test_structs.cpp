// Rule 3.9: every struct of the header that begins with struct_size, in every size. One between the
// first release's and today's works, and nothing is read or written beyond it; others are refused
// by name.
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "../../src/structs.h"
#include "cases.h"
#include "format/record.h"
#include "support.h"
#include "weight_file.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

namespace {

constexpr std::size_t kSizeField = sizeof(uint32_t), kAlign = alignof(max_align_t);
constexpr unsigned char kCanary = 0xC5;

// Bytes before a page that nobody may touch. What lies between them and the page, so that they
// begin aligned, has a known value and is poisoned for the address sanitizer.
class Tail {
 public:
  explicit Tail(std::size_t bytes) : bytes_(bytes), page_(getpagesize()) {
    REQUIRE(bytes <= 2 * page_);
    void* p = mmap(nullptr, 3 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(p != MAP_FAILED);
    pages_ = static_cast<unsigned char*>(p);
    REQUIRE(mprotect(pages_ + 2 * page_, page_, PROT_NONE) == 0);
    data_ = pages_ + 2 * page_ - (bytes + kAlign - 1) / kAlign * kAlign;
    std::memset(data_ + bytes_, kCanary, gap());
    ASAN_POISON_MEMORY_REGION(data_ + bytes_, gap());
  }
  Tail(const Tail&) = delete;
  Tail& operator=(const Tail&) = delete;
  ~Tail() {
    ASAN_UNPOISON_MEMORY_REGION(data_ + bytes_, gap());
    munmap(pages_, 3 * page_);
  }
  unsigned char* data() const { return data_; }
  bool whole() const {
    ASAN_UNPOISON_MEMORY_REGION(data_ + bytes_, gap());
    const bool same = std::all_of(data_ + bytes_, pages_ + 2 * page_,
                                  [](unsigned char c) { return c == kCanary; });
    ASAN_POISON_MEMORY_REGION(data_ + bytes_, gap());
    return same;
  }

 private:
  std::size_t gap() const { return static_cast<std::size_t>(pages_ + 2 * page_ - data_) - bytes_; }
  std::size_t bytes_, page_;
  unsigned char *pages_, *data_;
};

using Call = std::function<phasor_status(void* structs, phasor_error* error)>;

struct Case {
  const char* name;
  std::size_t first, size, align;    // of one struct: in the first release, and today
  std::vector<unsigned char> valid;  // one or more of them, as the call takes them
  bool result;                       // the call fills them
  bool says;                         // and has a phasor_error for its line
  Call call;
};

template <class T>
std::vector<unsigned char> bytes_of(std::vector<T> structs) {
  for (T& one : structs) one.struct_size = sizeof(T);
  std::vector<unsigned char> out(structs.size() * sizeof(T));
  std::memcpy(out.data(), structs.data(), out.size());
  return out;
}

template <class T>
Case options_case(const char* name, std::vector<T> valid, Call call, bool says = true) {
  return {name, phasor::kFirstSize<T>, sizeof(T), alignof(T), bytes_of(std::move(valid)), false,
          says, std::move(call)};
}

template <class T>
Case result_case(const char* name, Call call, bool says = false, std::size_t count = 1) {
  Case c = options_case<T>(name, std::vector<T>(count), std::move(call), says);
  c.result = true;
  return c;
}

uint32_t size_at(const unsigned char* p) {
  uint32_t size;
  std::memcpy(&size, p, sizeof size);
  return size;
}

void walk(const Case& c) {
  const std::string name = c.name;
  CAPTURE(name);
  const std::size_t count = c.valid.size() / c.size;
  std::vector<unsigned char> full = c.valid;
  phasor_error error = PHASOR_ERROR_INIT;
  REQUIRE(c.call(full.data(), &error) == PHASOR_OK);
  for (std::size_t size = 0; size <= c.size + 16; ++size) {
    CAPTURE(size);
    const std::size_t room = std::max(size, kSizeField);
    const Tail t(room * count);
    std::memset(t.data(), 0, room * count);
    for (std::size_t i = 0; i < count; ++i) {
      unsigned char* one = t.data() + i * room;
      const uint32_t stated = static_cast<uint32_t>(size);
      std::memcpy(one, c.valid.data() + i * c.size, std::min(room, c.size));
      std::memcpy(one, &stated, sizeof stated);
    }
    const std::vector<unsigned char> given(t.data(), t.data() + room * count);
    error = PHASOR_ERROR_INIT;
    const phasor_status status = c.call(t.data(), &error);
    CHECK(t.whole());
    if (size < c.first || size > c.size) {
      CHECK(status == PHASOR_BAD_INPUT);
      CHECK(std::equal(given.begin(), given.end(), t.data()));
      const std::string limit =
          size < c.first ? "least " + std::to_string(c.first) : "most " + std::to_string(c.size);
      if (c.says)
        CHECK(error.text == name + ".struct_size: " + std::to_string(size) + ", expected at " +
                                limit + ": compile with this library's phasor.h");
      continue;
    }
    CAPTURE(error.text);
    CHECK(status == PHASOR_OK);
    for (std::size_t i = 0; i < count; ++i) {
      const unsigned char* one = t.data() + i * size;
      CHECK(size_at(one) == size);
      const unsigned char* expected = c.result ? full.data() + i * c.size : given.data() + i * size;
      const std::size_t whole = std::max(size / c.align * c.align, kSizeField);
      CHECK(std::equal(one + kSizeField, one + whole, expected + kSizeField));
      CHECK(std::equal(one + whole, one + size, given.data() + i * size + whole));
    }
  }
}

// Every struct of the header that begins with struct_size.
std::set<std::string> structs_of_the_header() {
  std::ifstream file("include/phasor.h");
  REQUIRE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str(), begin = "typedef struct ",
                    size = " {\n  uint32_t struct_size;\n";
  std::set<std::string> out;
  for (std::size_t at = 0; (at = all.find(size, at)) != std::string::npos; ++at) {
    const std::size_t line = all.rfind(begin, at) + begin.size();
    out.insert(all.substr(line, at - line));
  }
  std::size_t fields = 0;  // written in another way they would be missed
  for (std::size_t at = 0; (at = all.find("struct_size;", at)) != std::string::npos; ++at) ++fields;
  REQUIRE(out.size() == fields);
  return out;
}

phasor_limits limits_of(const phasor_model* model) {
  phasor_limits limits = limits_for_vectors(model);
  limits.sequences = 2;
  limits.outputs = PHASOR_WANT_SAMPLING;
  limits.text_bytes = 1000;
  limits.beams = 2;
  limits.logit_rows = std::max(limits.logit_rows, 2u);
  return limits;
}

// The golden file with a record that has no outputs.
Block with_record(const std::string& golden) {
  weight_files::WeightFile file(golden);
  std::string record(16 + 2 * phasor::kDigestBytes + phasor::kMethodBytes, '\0');
  record[16 + 2 * phasor::kDigestBytes] = 'a';
  file.sections[phasor::kSectionRecord] = {0, record};
  return file.write();
}

struct Fixture {
  Block file = with_record("tiny-chat-f32");
  Engine probe{file, nullptr};
  phasor_limits limits = limits_of(probe.model);
  Engine e{file, nullptr, &limits};
  Block block{1 << 20}, arena{1 << 20}, made{1 << 20};  // an arena has red zones
  const uint32_t ids[2] = {5, 6};
  uint32_t out[8] = {}, offsets[16] = {};

  void fresh() {
    phasor_sequence_clear(e.session, 0);
    phasor_sequence_clear(e.session, 1);
  }
  phasor_status generate(const void* options, void* result, phasor_error* error) {
    fresh();
    return phasor_generate(e.session, 0, ids, 2, out, 4,
                           static_cast<const phasor_generate_options*>(options),
                           static_cast<phasor_generation*>(result), error);
  }
  phasor_status search(const void* options, void* result, phasor_error* error) {
    fresh();
    return phasor_beam_search(e.session, 0, ids, 2,
                              static_cast<const phasor_beam_options*>(options),
                              static_cast<phasor_beam_result*>(result), error);
  }
};

std::vector<Case> options_cases(Fixture* f) {
  phasor_item items[2] = {PHASOR_ITEM_INIT, PHASOR_ITEM_INIT};
  for (uint32_t i = 0; i < 2; ++i) items[i].sequence = i, items[i].count = 2, items[i].ids = f->ids;
  phasor_chat_message message{};
  message.role = "user";
  message.role_bytes = 4;
  message.content = "hello";
  message.content_bytes = 5;
  phasor_quantize_options q8 = PHASOR_QUANTIZE_OPTIONS_INIT;
  q8.type = "q8";
  phasor_generate_options generation = PHASOR_GENERATE_OPTIONS_INIT;
  generation.max_new = 3;
  phasor_beam_options beams = PHASOR_BEAM_OPTIONS_INIT;
  beams.max_new = 3;
  const auto see = [](void*, const phasor_view* view) {
    CHECK(view->struct_size == sizeof(phasor_view));
  };
  phasor_callbacks callbacks{};
  callbacks.see = see;
  phasor_parallel parallel{};
  parallel.run = run_threads;
  phasor_job over = PHASOR_JOB_INIT;
  over.finish = PHASOR_FINISH_END;
  phasor_record record = PHASOR_RECORD_INIT;
  CHECK(phasor_record_get(f->e.model, &record) == PHASOR_OK);
  return {
      options_case<phasor_open_options>(
          "phasor_open_options", {{0, "scalar", nullptr, nullptr}},
          [f](void* p, phasor_error* error) {
            phasor_model* model;
            return phasor_model_open(&model, f->block.data(), f->block.size(), f->file.data(),
                                     f->file.size(), static_cast<phasor_open_options*>(p), error);
          }),
      options_case<phasor_parallel>("phasor_parallel", {parallel},
                                    [f](void* p, phasor_error* error) {
                                      phasor_session* session;
                                      return phasor_session_open(
                                          &session, f->arena.data(), f->arena.size(), f->e.model,
                                          &f->limits, static_cast<phasor_parallel*>(p), error);
                                    }),
      options_case<phasor_item>("phasor_item", {items[0], items[1]},
                                [f](void* p, phasor_error* error) {
                                  f->fresh();
                                  return phasor_step(f->e.session, static_cast<phasor_item*>(p), 2,
                                                     error);
                                }),
      options_case<phasor_callbacks>(
          "phasor_callbacks", {callbacks},
          [f](void* p, phasor_error* error) {
            const auto status =
                phasor_session_callbacks(f->e.session, static_cast<phasor_callbacks*>(p));
            phasor_generation made = PHASOR_GENERATION_INIT;
            if (status == PHASOR_OK) CHECK(f->generate(nullptr, &made, error) == PHASOR_OK);
            CHECK(phasor_session_callbacks(f->e.session, nullptr) == PHASOR_OK);
            return status;
          },
          false),
      options_case<phasor_generate_options>("phasor_generate_options", {generation},
                                            [f](void* p, phasor_error* error) {
                                              phasor_generation made = PHASOR_GENERATION_INIT;
                                              return f->generate(p, &made, error);
                                            }),
      options_case<phasor_beam_options>("phasor_beam_options", {beams},
                                        [f](void* p, phasor_error* error) {
                                          phasor_beam_result made = PHASOR_BEAM_RESULT_INIT;
                                          return f->search(p, &made, error);
                                        }),
      // Over already, so that nothing of them changes.
      options_case<phasor_job>("phasor_job", {over, over},
                               [f](void* p, phasor_error* error) {
                                 uint32_t left = 0;
                                 return phasor_jobs_step(f->e.session, static_cast<phasor_job*>(p),
                                                         2, nullptr, &left, error);
                               }),
      options_case<phasor_chat_message>("phasor_chat_message", {message},
                                        [f](void* p, phasor_error* error) {
                                          char text[1000];
                                          size_t bytes = 0;
                                          return phasor_chat_to_text(
                                              f->e.session, 1, text, sizeof text, &bytes,
                                              static_cast<phasor_chat_message*>(p), 1, error);
                                        }),
      options_case<phasor_record>("phasor_record", {record},
                                  [f](void* p, phasor_error* error) {
                                    return phasor_record_put(f->e.model, f->file.data(),
                                                             static_cast<phasor_record*>(p), error);
                                  }),
      options_case<phasor_quantize_options>("phasor_quantize_options", {q8},
                                            [f](void* p, phasor_error* error) {
                                              size_t bytes = 0;
                                              return phasor_quantize_size(
                                                  &bytes, f->file.data(), f->file.size(),
                                                  static_cast<phasor_quantize_options*>(p), error);
                                            }),
      // A view is the library's own: `see` looks at its size above.
      {"phasor_view", 0, 0, 1, {}, false, false, nullptr}};
}

std::vector<Case> result_cases(Fixture* f) {
  const phasor_model* m = f->e.model;
  phasor_session* s = f->e.session;
  phasor_beam_result found = PHASOR_BEAM_RESULT_INIT;
  phasor_error said = PHASOR_ERROR_INIT;
  REQUIRE(f->search(nullptr, &found, &said) == PHASOR_OK);
  return {
      result_case<phasor_side>("phasor_side",
                               [m](void* p, phasor_error*) {
                                 return phasor_model_side(m, PHASOR_TARGET,
                                                          static_cast<phasor_side*>(p));
                               }),
      result_case<phasor_output>("phasor_output",
                                 [m](void* p, phasor_error*) {
                                   return phasor_model_output(m, static_cast<phasor_output*>(p));
                                 }),
      result_case<phasor_tensor>("phasor_tensor",
                                 [m](void* p, phasor_error*) {
                                   return phasor_tensor_get(m, 1, static_cast<phasor_tensor*>(p));
                                 }),
      result_case<phasor_field>("phasor_field",
                                [m](void* p, phasor_error*) {
                                  return phasor_field_get(m, 1, static_cast<phasor_field*>(p));
                                }),
      result_case<phasor_limits>("phasor_limits",
                                 [m](void* p, phasor_error*) {
                                   return phasor_limits_for(m, 0, 20,
                                                            static_cast<phasor_limits*>(p));
                                 }),
      options_case<phasor_limits>("phasor_limits", {f->limits},
                                  [m](void* p, phasor_error* error) {
                                    size_t need = 0;
                                    return phasor_session_size(
                                        &need, m, static_cast<phasor_limits*>(p), error);
                                  }),
      result_case<phasor_cost>("phasor_cost",
                               [m](void* p, phasor_error*) {
                                 return phasor_model_cost(m, 0, 3, static_cast<phasor_cost*>(p));
                               }),
      result_case<phasor_hypothesis>("phasor_hypothesis",
                                     [s](void* p, phasor_error*) {
                                       return phasor_hypothesis_get(
                                           s, 0, static_cast<phasor_hypothesis*>(p));
                                     }),
      result_case<phasor_vector>("phasor_vector",
                                 [m](void* p, phasor_error*) {
                                   return phasor_vector_get(m, 0, static_cast<phasor_vector*>(p));
                                 }),
      result_case<phasor_record>("phasor_record",
                                 [m](void* p, phasor_error*) {
                                   return phasor_record_get(m, static_cast<phasor_record*>(p));
                                 }),
      result_case<phasor_text>("phasor_text",
                               [m](void* p, phasor_error*) {
                                 char out[16];
                                 size_t bytes = 0;
                                 return phasor_id_to_text(m, PHASOR_TARGET,
                                                          static_cast<phasor_text*>(p), 20, out,
                                                          sizeof out, &bytes);
                               }),
      result_case<phasor_generation>(
          "phasor_generation",
          [f](void* p, phasor_error* error) { return f->generate(nullptr, p, error); }, true),
      result_case<phasor_rounding>(
          "phasor_rounding",
          [f](void* p, phasor_error* error) {
            phasor_quantize_options q8 = PHASOR_QUANTIZE_OPTIONS_INIT;
            q8.type = "q8";
            return phasor_quantize(f->made.data(), f->made.size(), static_cast<phasor_rounding*>(p),
                                   PHASOR_TYPES + 1, f->file.data(), f->file.size(), &q8, error);
          },
          true, PHASOR_TYPES + 1),
      result_case<phasor_vector_result>(
          "phasor_vector_result",
          [s](void* p, phasor_error* error) {
            return phasor_vector_run(s, 0, static_cast<phasor_vector_result*>(p), error);
          },
          true),
      result_case<phasor_beam_result>(
          "phasor_beam_result",
          [f](void* p, phasor_error* error) { return f->search(nullptr, p, error); }, true)};
}

}  // namespace

TEST_CASE("rule 3.9: structs of every size, of every struct of the header") {
  Fixture f;
  std::set<std::string> known = {"phasor_error"};  // in the next case
  for (const auto& cases : {options_cases(&f), result_cases(&f)})
    for (const Case& c : cases) {
      known.insert(c.name);
      if (c.call) walk(c);
    }
  CHECK(known == structs_of_the_header());
}

TEST_CASE("rule 3.9: an error of an unknown size is left as it is") {
  Fixture f;
  walk(result_case<phasor_error>("phasor_error", [&f](void* p, phasor_error*) {
    const auto error = static_cast<phasor_error*>(p);
    CHECK(phasor_state_restore(f.e.session, 99, f.out, 0, error) == PHASOR_BAD_INPUT);
    return error->struct_size == sizeof *error ? PHASOR_OK : PHASOR_BAD_INPUT;
  }));
}

// A struct that a later release made longer by two fields.
namespace {
struct Grown {
  uint32_t struct_size, count;
  const void* data;
  uint32_t added;
  uint64_t last;
};
}  // namespace
template <>
constexpr std::size_t phasor::kFirstSize<Grown> = offsetof(Grown, added);

TEST_CASE("rule 3.9: a struct that grows is read and written as far as its caller knows it") {
  const Grown defaults = {0, 1, &defaults, 2, 3}, given = {0, 4, &given, 5, 6};
  const auto is_read = [&](const Grown& read, const Grown& otherwise, const void* p) {
    const std::size_t size = size_at(static_cast<const unsigned char*>(p));
    const bool has_added = size >= offsetof(Grown, last), has_last = size == sizeof(Grown);
    CHECK((read.count == 4 && read.data == &given));
    CHECK(read.added == (has_added ? 5 : otherwise.added));
    CHECK(read.last == (has_last ? 6 : otherwise.last));
  };
  walk(options_case<Grown>("grown", {given}, [&](void* p, phasor_error* error) {
    Grown all = defaults;
    const auto status = phasor::read_options(&all, static_cast<Grown*>(p), "grown", error);
    if (status == PHASOR_OK) is_read(all, defaults, p);
    return status;
  }));
  walk(options_case<Grown>("grown", {given, given}, [&](void* p, phasor_error* error) {
    const phasor::Given<Grown> both(static_cast<Grown*>(p));
    const auto status = both.check("grown", 2, error);
    for (uint32_t i = 0; i < 2 && status == PHASOR_OK; ++i) is_read(both[i], Grown{}, p);
    if (status == PHASOR_OK) is_read((both + 1)[0], Grown{}, p);
    return status;
  }));
  walk(result_case<Grown>(
      "grown",
      [&](void* p, phasor_error* error) {
        return phasor::write_result(static_cast<Grown*>(p), given, "grown", error);
      },
      true));
}

#if !defined(NDEBUG)
TEST_CASE("rule 3.5: a NULL for a required pointer ends a build with assertions") {
  Fixture f;
  size_t need = 0;
  phasor_generation made = PHASOR_GENERATION_INIT;
  const std::vector<std::function<void()>> calls = {
      [&] { phasor_model_size(nullptr, f.file.data(), f.file.size(), nullptr); },
      [&] { phasor_model_size(&need, nullptr, 0, nullptr); },
      [&] { phasor_model_stack(nullptr); },
      [&] { phasor_model_side(f.e.model, PHASOR_TARGET, nullptr); },
      [&] { phasor_session_size(&need, f.e.model, nullptr, nullptr); },
      [&] { phasor_step(f.e.session, nullptr, 1, nullptr); },
      [&] { phasor_step(nullptr, nullptr, 0, nullptr); },
      [&] { phasor_generate(f.e.session, 0, f.ids, 2, f.out, 1, nullptr, nullptr, nullptr); },
      [&] { phasor_generate(nullptr, 0, f.ids, 2, f.out, 1, nullptr, &made, nullptr); },
      [&] { phasor_state_size(f.e.session, 0, nullptr); },
      [&] { phasor_quantize_size(&need, f.file.data(), f.file.size(), nullptr, nullptr); }};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    CAPTURE(i);
    const pid_t child = fork();
    if (child == 0) {
      std::freopen("/dev/null", "w", stderr);
      signal(SIGILL, SIG_DFL);
      signal(SIGTRAP, SIG_DFL);
      calls[i]();
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK((WIFSIGNALED(status) && (WTERMSIG(status) == SIGILL || WTERMSIG(status) == SIGTRAP)));
  }
}
#endif

TEST_CASE("structs: nothing is read of an array of none") {
  const Block file = golden_file("tiny-lm-f32"), none(1);
  const Engine e(file, nullptr);
  auto* const items = reinterpret_cast<phasor_item*>(none.data());  // a sanitizer sees its end
  phasor_error error = PHASOR_ERROR_INIT;
  CHECK(phasor_step(e.session, items, 0, &error) == PHASOR_OK);
  CHECK(phasor_step(e.session, nullptr, 0, &error) == PHASOR_OK);
}

// ---- Every number that a caller gives

namespace {

struct NumberField {
  std::string name;
  std::size_t offset, bytes;
  bool real;
};

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::string text_of_the_header() {
  std::ifstream file("include/phasor.h");
  REQUIRE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  std::string all = text.str();
  for (std::size_t at; (at = all.find("/*")) != std::string::npos;)
    all.erase(at, all.find("*/", at) + 2 - at);
  std::string out;  // without the preprocessor's lines
  std::istringstream lines(all);
  bool goes_on = false;
  for (std::string line; std::getline(lines, line);) {
    const bool theirs = goes_on || line.compare(0, 1, "#") == 0;
    goes_on = theirs && ends_with(line, "\\");
    if (!theirs) out += line + "\n";
  }
  return out;
}

// The words between two marks, cut at `by`.
std::vector<std::string> parts_of(const std::string& text, char by) {
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, by);) {
    const std::size_t from = part.find_first_not_of(" \n"), to = part.find_last_not_of(" \n");
    if (from != std::string::npos) out.push_back(part.substr(from, to + 1 - from));
  }
  return out;
}

// Whether a number says how many things a pointer of the caller has: any other one is the caller's
// bug, which the library cannot see.
bool is_size_of_a_block(const std::string& name) {
  return name == "count" || name == "capacity" || name == "bytes" || ends_with(name, "_count") ||
         ends_with(name, "_bytes");
}

struct OfEight {
  char before;
  uint64_t number;  // aligned to 4 bytes in structs of 32-bit x86
};

// The numbers of a struct of the header with their places, by the rules of C; `bytes` is where the
// last field ends.
std::vector<NumberField> numbers_of(const std::string& header, const std::string& name,
                                    std::size_t* bytes) {
  static const std::map<std::string, std::size_t> sizes = {
      {"uint32_t", 4}, {"int32_t", 4}, {"float", 4}, {"uint64_t", 8}, {"size_t", sizeof(size_t)},
      {"char", 1}};
  const std::string begin = "typedef struct " + name + " {";
  const std::size_t at = header.find(begin), from = at + begin.size();
  REQUIRE(at != std::string::npos);
  std::vector<NumberField> out;
  std::size_t end = 0;
  bool pointers = false;
  const auto place = [&end](std::size_t size, std::size_t align) {
    const std::size_t here = (end + align - 1) / align * align;
    end = here + size;
    return here;
  };
  const std::string body = header.substr(from, header.find("}", from) - from);
  for (const std::string& field : parts_of(body, ';')) {
    if (field.find('*') != std::string::npos) {
      place(sizeof(void*), alignof(void*));
      pointers = true;
      continue;
    }
    const std::size_t space = field.find(' ');
    const std::string type = field.substr(0, space);
    for (std::string one : parts_of(field.substr(space), ',')) {
      std::size_t count = type == "phasor_random" ? 4 : 1;
      if (const std::size_t open = one.find('['); open != std::string::npos)
        count = std::stoul(one.substr(open + 1)), one = one.substr(0, open);
      const auto known = sizes.find(type == "phasor_random" ? "uint64_t" : type);
      CAPTURE(field);
      REQUIRE(known != sizes.end());
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t align = std::min(known->second, offsetof(OfEight, number));
        const std::size_t here = place(known->second, align);
        if (one != "struct_size" && type != "char")
          out.push_back({one, here, known->second, type == "float"});
      }
    }
  }
  if (pointers)
    out.erase(std::remove_if(out.begin(), out.end(),
                             [](const NumberField& f) { return is_size_of_a_block(f.name); }),
              out.end());
  *bytes = end;
  return out;
}

const uint64_t kWholes[] = {0,           1,
                            2,           0x7F,
                            0x7FFFFFFF,  0x80000000,
                            0xFFFFFFFE,  0xFFFFFFFF,
                            0x1FFFFFFFF, uint64_t{1} << 63,
                            UINT64_MAX,  UINT64_MAX - 1};
const float kReals[] = {0.0f,  -0.0f,  1e-45f, 1.0f, -1.0f,    0.5f,      1.0001f,
                        1e30f, -1e30f, 1e-30f, 4.0f, INFINITY, -INFINITY, NAN};

// A status of the header, and a line where it is not PHASOR_OK and the call has one.
void check_answer(phasor_status status, const phasor_error* error) {
  CHECK((status >= PHASOR_OK && status <= PHASOR_MISMATCH));
  if (status != PHASOR_OK && error != nullptr) CHECK(error->text[0] != 0);
}

}  // namespace

TEST_CASE("values: every number of every struct of the header, at its ends and past them") {
  Fixture f;
  const std::string header = text_of_the_header();
  std::size_t tried = 0;
  for (const auto& cases : {options_cases(&f), result_cases(&f)})
    for (const Case& c : cases) {
      if (!c.call) continue;
      std::size_t bytes = 0;
      const std::vector<NumberField> fields = numbers_of(header, c.name, &bytes);
      CAPTURE(c.name);
      REQUIRE((bytes + c.align - 1) / c.align * c.align == c.size);
      for (const NumberField& field : fields) {
        CAPTURE(field.name);
        const auto with = [&](const void* value) {
          std::vector<unsigned char> given = c.valid;
          std::memcpy(given.data() + field.offset, value, field.bytes);
          phasor_error error = PHASOR_ERROR_INIT;
          const phasor_status status = c.call(given.data(), &error);
          check_answer(status, c.says ? &error : nullptr);
          ++tried;
          return status;
        };
        if (!field.real)
          for (const uint64_t value : kWholes) (void)with(&value);
        for (std::size_t i = 0; field.real && i < std::size(kReals); ++i) {
          CAPTURE(kReals[i]);
          const phasor_status status = with(&kReals[i]);
          if (!c.result && !std::isfinite(kReals[i])) CHECK(status == PHASOR_BAD_INPUT);
        }
      }
    }
  CHECK(tried > 1500);
}

namespace {

// The numbers that functions take, "phasor_label.index", but for sizes of blocks behind pointers.
std::set<std::string> numbers_of_functions(const std::string& header) {
  std::set<std::string> out;
  for (const std::string& statement : parts_of(header, ';')) {
    const std::size_t open = statement.find('('), close = statement.rfind(')');
    if (open == std::string::npos || statement.find('{') != std::string::npos ||
        statement.find("typedef") != std::string::npos)
      continue;
    const std::size_t from = statement.rfind(' ', open) + 1, star = statement.rfind('*', open) + 1;
    const std::string name = statement.substr(std::max(from, star), open - std::max(from, star));
    if (name.compare(0, 7, "phasor_") != 0) continue;
    bool behind_pointer = false;
    for (const std::string& given : parts_of(statement.substr(open + 1, close - open - 1), ',')) {
      const bool pointer = given.find('*') != std::string::npos;
      const std::string one = given.substr(given.rfind(' ') + 1);
      if (!pointer && given != "void" && given.find("phasor_") == std::string::npos &&
          !(behind_pointer && is_size_of_a_block(one)))
        out.insert(name + "." + one);
      behind_pointer = pointer;
    }
  }
  return out;
}

using NumberCall = std::function<void(uint64_t whole, float real)>;

std::map<std::string, NumberCall> number_calls(Fixture* f, std::vector<float>* floats) {
  const phasor_model* m = f->e.model;
  phasor_session* s = f->e.session;
  const auto n = [](uint64_t whole) { return static_cast<uint32_t>(whole); };
  static std::size_t bytes;
  static phasor_error error;
  static char text[64];
  static uint32_t count;
  error = PHASOR_ERROR_INIT;
  const auto said = [](phasor_status status) { check_answer(status, nullptr); };
  const auto line = [](phasor_status status) {
    check_answer(status, &error);
    error = PHASOR_ERROR_INIT;
  };
  const auto result = [](auto struct_of) {
    struct_of.struct_size = sizeof struct_of;
    return struct_of;
  };
  return {
      {"phasor_isa_name.index", [=](uint64_t v, float) { (void)phasor_isa_name(n(v)); }},
      {"phasor_model_side.side",
       [=](uint64_t v, float) {
         auto out = result(phasor_side{});
         said(phasor_model_side(m, n(v), &out));
       }},
      {"phasor_label.index", [=](uint64_t v, float) { (void)phasor_label(m, n(v), &bytes); }},
      {"phasor_prompt.index",
       [=](uint64_t v, float) {
         const char *name = nullptr, *of = nullptr;
         said(phasor_prompt(m, n(v), &name, &bytes, &of, &bytes));
       }},
      {"phasor_tensor_get.index",
       [=](uint64_t v, float) {
         auto out = result(phasor_tensor{});
         said(phasor_tensor_get(m, n(v), &out));
       }},
      {"phasor_field_get.index",
       [=](uint64_t v, float) {
         auto out = result(phasor_field{});
         said(phasor_field_get(m, n(v), &out));
       }},
      {"phasor_limits_for.source",
       [=](uint64_t v, float) {
         auto out = result(phasor_limits{});
         said(phasor_limits_for(m, n(v), 3, &out));
       }},
      {"phasor_limits_for.target",
       [=](uint64_t v, float) {
         auto out = result(phasor_limits{});
         said(phasor_limits_for(m, 0, n(v), &out));
         (void)phasor_session_size(&bytes, m, &out, nullptr);
       }},
      {"phasor_session_part.index",
       [=](uint64_t v, float) {
         const char* name = nullptr;
         uint64_t part = 0;
         said(phasor_session_part(m, &f->limits, n(v), &name, &part));
       }},
      {"phasor_model_cost.source",
       [=](uint64_t v, float) {
         auto out = result(phasor_cost{});
         said(phasor_model_cost(m, n(v), 0, &out));
       }},
      {"phasor_model_cost.position",
       [=](uint64_t v, float) {
         auto out = result(phasor_cost{});
         said(phasor_model_cost(m, 0, n(v), &out));
       }},
      {"phasor_model_peak.what", [=](uint64_t v, float) { (void)phasor_model_peak(m, n(v), 1); }},
      // so many are done: only small ones end
      {"phasor_model_peak.rounds",
       [=](uint64_t v, float) { (void)phasor_model_peak(m, PHASOR_PEAK_F32, v & 255); }},
      {"phasor_logits.row", [=](uint64_t v, float) { (void)phasor_logits(s, n(v)); }},
      {"phasor_hidden.sequence",
       [=](uint64_t v, float) { (void)phasor_hidden(s, n(v), &count, &count); }},
      {"phasor_encoder_output.sequence",
       [=](uint64_t v, float) { line(phasor_encoder_output(s, n(v), 0, 1, &error)); }},
      {"phasor_encoder_output.first",
       [=](uint64_t v, float) { line(phasor_encoder_output(s, 0, n(v), 1, &error)); }},
      {"phasor_encoder_output.count",
       [=](uint64_t v, float) { line(phasor_encoder_output(s, 0, 0, n(v), &error)); }},
      {"phasor_embedding.sequence",
       [=](uint64_t v, float) {
         line(phasor_embedding(s, n(v), 1, 0, floats->data(), 1, &error));
       }},
      {"phasor_embedding.pooling",
       [=](uint64_t v, float) {
         line(phasor_embedding(s, 0, n(v), 0, floats->data(), 1, &error));
       }},
      {"phasor_embedding.normalize",
       [=](uint64_t v, float) {
         line(phasor_embedding(s, 0, 1, n(v), floats->data(), 1, &error));
       }},
      {"phasor_embedding.dim",
       [=](uint64_t v, float) {
         line(phasor_embedding(s, 0, 1, 0, floats->data(), n(v), &error));
       }},
      {"phasor_argmax.row",
       [=](uint64_t v, float) { said(phasor_argmax(s, n(v), &count, floats->data())); }},
      {"phasor_sequence_length.sequence",
       [=](uint64_t v, float) { (void)phasor_sequence_length(s, n(v)); }},
      {"phasor_sequence_status.sequence",
       [=](uint64_t v, float) { said(phasor_sequence_status(s, n(v))); }},
      {"phasor_sequence_ids.sequence",
       [=](uint64_t v, float) { (void)phasor_sequence_ids(s, n(v)); }},
      {"phasor_sequence_common.sequence",
       [=](uint64_t v, float) { (void)phasor_sequence_common(s, n(v), f->ids, 2); }},
      {"phasor_sequence_truncate.sequence",
       [=](uint64_t v, float) { said(phasor_sequence_truncate(s, n(v), 0)); }},
      {"phasor_sequence_truncate.length",
       [=](uint64_t v, float) { said(phasor_sequence_truncate(s, 0, n(v))); }},
      {"phasor_sequence_fork.to",
       [=](uint64_t v, float) { said(phasor_sequence_fork(s, n(v), 0)); }},
      {"phasor_sequence_fork.from",
       [=](uint64_t v, float) { said(phasor_sequence_fork(s, 0, n(v))); }},
      {"phasor_sequence_clear.sequence",
       [=](uint64_t v, float) { said(phasor_sequence_clear(s, n(v))); }},
      {"phasor_state_size.sequence",
       [=](uint64_t v, float) { said(phasor_state_size(s, n(v), &bytes)); }},
      {"phasor_state_save.sequence",
       [=](uint64_t v, float) {
         said(phasor_state_save(s, n(v), f->made.data(), f->made.size()));
       }},
      {"phasor_state_restore.sequence",
       [=](uint64_t v, float) {
         line(phasor_state_restore(s, n(v), f->made.data(), f->made.size(), &error));
       }},
      {"phasor_random_seed.seed",
       [=](uint64_t v, float) {
         phasor_random random{};
         phasor_random_seed(&random, v);
         CHECK((random.state[0] | random.state[1] | random.state[2] | random.state[3]) != 0);
       }},
      {"phasor_generate.sequence",
       [=](uint64_t v, float) {
         phasor_generation made = PHASOR_GENERATION_INIT;
         line(phasor_generate(s, n(v), f->ids, 2, f->out, 2, nullptr, &made, &error));
       }},
      {"phasor_beam_search.sequence",
       [=](uint64_t v, float) {
         phasor_beam_result made = PHASOR_BEAM_RESULT_INIT;
         phasor_beam_options options = PHASOR_BEAM_OPTIONS_INIT;
         options.max_new = 2;
         line(phasor_beam_search(s, n(v), f->ids, 2, &options, &made, &error));
       }},
      {"phasor_hypothesis_get.index",
       [=](uint64_t v, float) {
         auto out = result(phasor_hypothesis{});
         said(phasor_hypothesis_get(s, n(v), &out));
       }},
      {"phasor_choose.row",
       [=](uint64_t v, float) {
         line(phasor_choose(s, &count, nullptr, n(v), f->ids, 2, 1, nullptr, &error));
       }},
      {"phasor_choose.new_count",
       [=](uint64_t v, float) {
         line(phasor_choose(s, &count, nullptr, 0, f->ids, 2, n(v), nullptr, &error));
       }},
      {"phasor_text_to_ids.side",
       [=](uint64_t v, float) {
         line(phasor_text_to_ids(s, n(v), 1, f->out, 8, &bytes, "ab", 2, &error));
       }},
      {"phasor_text_to_ids.template_ids",
       [=](uint64_t v, float) {
         line(phasor_text_to_ids(s, PHASOR_TARGET, static_cast<int>(n(v)), f->out, 8, &bytes, "ab",
                                 2, &error));
       }},
      {"phasor_text_to_offsets.side",
       [=](uint64_t v, float) {
         line(phasor_text_to_offsets(s, n(v), 1, f->out, f->offsets, 8, &bytes, "ab", 2, &error));
       }},
      {"phasor_text_to_offsets.template_ids",
       [=](uint64_t v, float) {
         line(phasor_text_to_offsets(s, PHASOR_TARGET, static_cast<int>(n(v)), f->out, f->offsets,
                                     8, &bytes, "ab", 2, &error));
       }},
      {"phasor_pair_to_ids.side",
       [=](uint64_t v, float) {
         line(phasor_pair_to_ids(s, n(v), f->out, nullptr, 8, &bytes, "a", 1, "b", 1, &error));
       }},
      {"phasor_id_to_text.side",
       [=](uint64_t v, float) {
         phasor_text state = PHASOR_TEXT_INIT;
         said(phasor_id_to_text(m, n(v), &state, 5, text, sizeof text, &bytes));
       }},
      {"phasor_id_to_text.id",
       [=](uint64_t v, float) {
         phasor_text state = PHASOR_TEXT_INIT;
         said(phasor_id_to_text(m, PHASOR_TARGET, &state, n(v), text, sizeof text, &bytes));
       }},
      {"phasor_text_flush.side",
       [=](uint64_t v, float) {
         phasor_text state = PHASOR_TEXT_INIT;
         said(phasor_text_flush(m, n(v), &state, text, sizeof text, &bytes));
       }},
      {"phasor_piece.side", [=](uint64_t v, float) { (void)phasor_piece(m, n(v), 5, &bytes); }},
      {"phasor_piece.id",
       [=](uint64_t v, float) { (void)phasor_piece(m, PHASOR_TARGET, n(v), &bytes); }},
      {"phasor_piece_flags.side", [=](uint64_t v, float) { (void)phasor_piece_flags(m, n(v), 5); }},
      {"phasor_piece_flags.id",
       [=](uint64_t v, float) { (void)phasor_piece_flags(m, PHASOR_TARGET, n(v)); }},
      {"phasor_chat_to_text.add_generation_prompt",
       [=](uint64_t v, float) {
         auto message = result(phasor_chat_message{});
         message.role = "user", message.role_bytes = 4;
         line(phasor_chat_to_text(s, static_cast<int>(n(v)), text, sizeof text, &bytes, &message, 1,
                                  &error));
       }},
      {"phasor_vector_get.index",
       [=](uint64_t v, float) {
         auto out = result(phasor_vector{});
         said(phasor_vector_get(m, n(v), &out));
       }},
      {"phasor_vector_run.index",
       [=](uint64_t v, float) {
         auto out = result(phasor_vector_result{});
         line(phasor_vector_run(s, n(v), &out, &error));
       }},
      {"phasor_vector_record.tolerance", [=](uint64_t, float v) {
         line(phasor_vector_record(m, f->file.data(), nullptr, v, &error));
       }}};
}

}  // namespace

TEST_CASE("values: every number that a function of the header takes") {
  Fixture f;
  std::vector<float> floats(4096);
  const auto calls = number_calls(&f, &floats);
  std::set<std::string> known;
  for (const auto& [name, call] : calls) {
    CAPTURE(name);
    known.insert(name);
    for (const uint64_t whole : kWholes) {
      f.fresh();
      phasor_item item = PHASOR_ITEM_INIT;
      item.ids = f.ids, item.count = 2, item.logits = PHASOR_LOGITS_LAST;
      REQUIRE(phasor_step(f.e.session, &item, 1, nullptr) == PHASOR_OK);
      call(whole, 1.0f);
    }
    for (const float real : kReals) call(0, real);
  }
  CHECK(known == numbers_of_functions(text_of_the_header()));
}
