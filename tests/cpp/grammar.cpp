// Output that a grammar allows, through the logits callback: a language model writes a JSON list of
// booleans and numbers, whatever it was trained on.
//   grammar models/positions/rotary.phasor "The scores were" 7
// The automaton reads bytes; a token may come if the automaton takes every byte of its text. So any
// tokenizer will do.
#include <phasor.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace {

// [ value , value … ] with at most five values; a number has at most six characters, and at most
// one space stands between things.
class List {
 public:
  bool take(char c) {
    switch (state_) {
      case kStart:
        return c == '[' ? to(kValue) : space(c);
      case kValue:
        word_ = c == 't' ? "rue" : c == 'f' ? "alse" : nullptr;
        length_ = 1;
        if (word_ != nullptr) return to(kWord);
        return c == '-' ? to(kMinus) : c == '0' ? to(kZero) : digit(c) ? to(kWhole) : space(c);
      case kWord:
        return c == *word_ && to(*++word_ == 0 ? kAfter : kWord);
      case kMinus:
        return longer() && (c == '0' ? to(kZero) : digit(c) && to(kWhole));
      case kZero:
        return (c == '.' && length_ < 5 && longer() && to(kPoint)) || after(c);
      case kWhole:
        return (digit(c) && longer()) || (c == '.' && length_ < 5 && longer() && to(kPoint)) ||
               after(c);
      case kPoint:
        return digit(c) && longer() && to(kPart);
      case kPart:
        return (digit(c) && longer()) || after(c);
      case kAfter:
        return after(c);
      default:
        return false;
    }
  }
  bool done() const { return state_ == kDone; }

 private:
  enum State { kStart, kValue, kWord, kMinus, kZero, kWhole, kPoint, kPart, kAfter, kDone };
  static bool digit(char c) { return c >= '0' && c <= '9'; }
  bool to(State s) { return state_ = s, spaced_ = false, true; }
  bool longer() { return ++length_ <= 6; }
  bool space(char c) { return c == ' ' && !spaced_ && (spaced_ = true); }
  bool after(char c) {
    if (c == ']') return to(kDone);
    if (c == ',') return ++values_ < 5 && to(kValue);
    return space(c) && (state_ = kAfter, true);
  }

  State state_ = kStart;
  const char* word_ = nullptr;
  int length_ = 0, values_ = 0;
  bool spaced_ = false;
};

struct Grammar {
  const phasor_model* model = nullptr;
  uint32_t end = 0, prompt = 0;         // the end token; how many ids the prompt has
  phasor_text text = PHASOR_TEXT_INIT;  // of the ids before `seen`
  uint32_t seen = 0;
  List list = {};

  // The bytes that an id adds after the text so far; an id that adds none is none of the grammar's.
  size_t bytes_of(phasor_text* at, uint32_t id, char (&out)[256]) const {
    size_t bytes = 0;
    return phasor_id_to_text(model, PHASOR_TARGET, at, id, out, sizeof out, &bytes) == PHASOR_OK
               ? bytes
               : 0;
  }
  bool allows(uint32_t id) const {
    char out[256];
    phasor_text at = text;
    List next = list;
    const size_t bytes = bytes_of(&at, id, out);
    for (size_t i = 0; i < bytes; ++i)
      if (!next.take(out[i])) return false;
    return bytes != 0;
  }
  void read(uint32_t id) {
    char out[256];
    const size_t bytes = bytes_of(&text, id, out);
    for (size_t i = 0; i < bytes && seen >= prompt; ++i) list.take(out[i]);
    ++seen;
  }
};

int only_the_grammar(void* user, float* logits, uint32_t vocabulary, const uint32_t* ids,
                     uint32_t count) {
  Grammar& g = *static_cast<Grammar*>(user);
  while (g.seen < count) g.read(ids[g.seen]);
  for (uint32_t id = 0; id < vocabulary; ++id)
    if (!(g.list.done() ? id == g.end : g.allows(id))) logits[id] = -INFINITY;
  return 0;
}

int write(void*, const char* text, size_t bytes) {
  return std::fwrite(text, 1, bytes, stdout) != bytes;
}

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Block = std::unique_ptr<void, Free>;
Block block(size_t bytes) {
  return Block(
      std::aligned_alloc(PHASOR_ALIGN, (bytes + PHASOR_ALIGN - 1) / PHASOR_ALIGN * PHASOR_ALIGN));
}

int fail(const char* text) { return std::fprintf(stderr, "grammar: %s\n", text), 1; }

}  // namespace

int main(int argc, char** argv) {
  std::FILE* f = argc == 4 ? std::fopen(argv[1], "rb") : nullptr;
  if (f == nullptr) return fail("expected a model, a text and a seed");
  std::fseek(f, 0, SEEK_END);
  const size_t size = static_cast<size_t>(std::ftell(f));
  std::rewind(f);
  const Block bytes = block(size);
  const bool whole = std::fread(bytes.get(), 1, size, f) == size;
  std::fclose(f);
  const phasor::File file{bytes.get(), size};
  const auto need = phasor::Model::size(file);
  if (!whole || !need) return fail(need.error().text);
  const Block memory = block(*need);
  auto model = phasor::Model::open({memory.get(), *need}, file);
  if (!model) return fail(model.error().text);
  phasor::Limits limits = model->limits(0, 128);
  limits.outputs = PHASOR_WANT_SAMPLING;
  const auto arena_size = model->session_size(limits);
  if (!arena_size) return fail(arena_size.error().text);
  const Block arena = block(*arena_size);
  auto session = phasor::Session::open({arena.get(), *arena_size}, *model, limits);
  if (!session) return fail(session.error().text);

  std::vector<uint32_t> ids(64), out(60);
  const auto count = session->to_ids(PHASOR_TARGET, phasor::Text(argv[2], std::strlen(argv[2])),
                                     ids.data(), ids.size());
  const auto side = model->side(PHASOR_TARGET);
  if (!count) return fail(count.error().text);
  if (!side || side->end_count == 0) return fail("the model has no end token");
  Grammar grammar{};
  grammar.model = model->handle();
  grammar.end = side->end[0];
  grammar.prompt = static_cast<uint32_t>(*count);
  phasor::GenerateOptions options;
  options.temperature = 1;
  options.seed = std::strtoull(argv[3], nullptr, 10);
  options.logits = only_the_grammar;
  options.text = write;
  options.user = &grammar;
  const auto made = session->generate({ids.data(), *count}, out, options);
  if (!made) return fail(made.error().text);
  std::printf("\n");
  return made->finish == PHASOR_FINISH_END ? 0 : fail("the list did not end");
}
