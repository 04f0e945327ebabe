// cli: `phasor run` for lines one after the other: text is streamed as it is decoded.
#include "runner.h"
#include "sampling.h"

namespace cli {
namespace {

class InTurn {
 public:
  explicit InTurn(Runner* runner) : r_(*runner) {}

  int run(Inputs* inputs) {
    if (!r_.capture.wanted() && !r_.state.is_open()) {
      for (Input input; r_.e.going_on() && inputs->next(&input); r_.tell())
        if (!one(input)) r_.status = 1;
      return 0;
    }
    Input input, second;
    const bool one_line = inputs->next(&input) && !inputs->next(&second);
    if (inputs->failed()) return 1;
    if (!one_line)
      return usage_error(
          "--logits, --hidden, --attention and --save-state: expected exactly one line of input");
    if (!one(input) || !r_.e.going_on() || !r_.capture.commit() ||
        (r_.state.is_open() && !r_.state.commit()))
      r_.status = 1;
    return 0;
  }

 private:
  // False after an error, which has been printed.
  bool one(const Input& input) {
    Line line;
    r_.read(input, &line);
    if (line.why.empty() && r_.o.load_state != nullptr) {
      if (!load(&line.ids)) return false;
      (void)r_.has_room(line.ids, &line.why);
    }
    shown_ = 0;
    const double start = now();
    bool ok = line.why.empty() && (line.nothing || generate(&line));
    if (ok && !line.nothing) ok = r_.complete(&line, 0, true);
    if (ok) line.seconds = now() - start;
    r_.print(line, streams() || !line.sentences.empty());
    output_flush();
    if (!ok) return false;
    r_.seconds += line.seconds;
    r_.all.steps += line.sum.steps;
    r_.all.proposed += line.sum.proposed;
    r_.all.accepted += line.sum.accepted;
    if (!r_.e.going_on()) return false;  // the files stay as they were
    if (r_.state.is_open() && !save(line)) return false;
    if (!r_.capture.wanted()) return true;
    if (line.nothing)
      data_error("%s: no text, expected some for --logits, --hidden and --attention",
                 line.where.c_str());
    return !line.nothing && replay(line);
  }

  // Tokens or text are printed as they come.
  bool streams() const { return !r_.o.json && !r_.beams.wanted() && r_.o.samples == 0; }
  bool by_id() const { return !r_.e.target.has_tokenizer || r_.o.print_ids; }

  // The line, or its sentences one after the other.
  bool generate(Line* line) {
    for (size_t i = 0; i < line->parts(0) && (i == 0 || r_.e.going_on()); ++i) {
      if (i != 0 && !r_.o.json && !(by_id() && streams())) (void)stream(by_id() ? "," : " ");
      if (!generate(line->part(i), line)) return false;
      if (line->sentences.empty() || r_.o.json || streams()) continue;
      const Output& one = line->outputs.back();
      (void)stream(by_id() ? join(one.ids) : one.text);
    }
    return true;
  }

  bool generate(const TokenIds& ids, Line* line) {
    const TokenIds prompt = r_.prompt_of(ids);
    phasor_generate_options options = r_.options;
    options.source = ids.data();
    options.source_count = count_of(ids);
    options.token = streams() ? &on_token : nullptr;
    options.text = streams() && !by_id() ? &on_text : nullptr;
    options.user = this;
    options.reuse = r_.o.load_state != nullptr ? 1 : 0;
    phasor_status status = PHASOR_OK;
    if (r_.e.has_source())
      status = r_.e.encode(ids);
    else if (r_.o.load_state == nullptr)
      status = phasor_sequence_clear(r_.e.session, 0);
    if (!r_.e.done(status, &line->why)) return false;
    if (r_.beams.wanted()) return search(prompt, options, line);
    // the source and the prompt stay in the cache
    const uint32_t samples = max(uint32_t{r_.o.samples}, 1u);
    for (uint32_t i = 0; i < samples && (i == 0 || r_.e.going_on()); ++i) {
      options.seed = seed_of(r_.seed, line->number, i);
      if (i != 0) options.reuse = 1;
      phasor_generation made = PHASOR_GENERATION_INIT;
      out_.resize(r_.capacity);
      if (!r_.e.done(phasor_generate(r_.e.session, 0, prompt.data(), count_of(prompt), out_.data(),
                                     count_of(out_), &options, &made, &r_.e.error),
                     &line->why))
        return false;
      line->outputs.push_back(r_.output_of(*line, ids, out_.data(), made.count, made.finish, i));
      line->sum.steps += made.steps;
      line->sum.proposed += made.proposed;
      line->sum.accepted += made.accepted;
      line->sum.slides += made.slides;
    }
    return true;
  }

  bool search(const TokenIds& prompt, const phasor_generate_options& options, Line* line) {
    vector<Output> found;
    uint32_t steps = 0;
    if (!r_.beams.search(prompt, options, &found, &steps, &line->why)) return false;
    line->sum.steps += steps;
    line->outputs.insert(line->outputs.end(), found.begin(), found.end());
    return true;
  }

  static int on_token(void* self, uint32_t id, uint32_t) {
    InTurn* t = static_cast<InTurn*>(self);
    if (!t->by_id()) return 0;
    return stream((t->shown_++ != 0 ? "," : "") + to_string(id));
  }

  static int on_text(void*, const char* text, size_t bytes) { return stream({text, bytes}); }

  // What was saved goes before the ids of the text.
  bool load(TokenIds* ids) {
    phasor_session* const session = r_.e.session;
    ReadFile file;
    if (!file.open(r_.o.load_state.value, Load::copy, "a saved state")) return false;
    if (phasor_state_restore(session, 0, file.data(), file.bytes(), &r_.e.error) != PHASOR_OK)
      return refuse_state(), false;
    const uint32_t* had = phasor_sequence_ids(session, 0);
    ids->insert(ids->begin(), had, had + phasor_sequence_length(session, 0));
    return true;
  }

  // With the flag by which the state can be read, where there is one.
  void refuse_state() const {
    const string why = r_.e.said();
    string flag;
    if (why.find("cache type") != string::npos)
      flag = "; --cache " + r_.o.cache.choice(r_.e.error.found) + " reads it";
    else if (why.find("do not fit") != string::npos)
      flag = "; --context asks for more room";
    data_error("%s: %s%s", r_.o.load_state.value, why.c_str(), flag.c_str());
  }

  // The last token has not entered the sequence yet.
  bool save(const Line& line) {
    const TokenIds& ids = line.all.ids;
    if (!ids.empty() && r_.e.step(&ids.back(), 1, PHASOR_LOGITS_NONE) != PHASOR_OK)
      return data_error("%s: %s (--context)", r_.o.save_state.value, r_.e.said().c_str()),
             false;
    size_t need = 0;
    (void)phasor_state_size(r_.e.session, 0, &need);
    vector<unsigned char> saved(need);
    (void)phasor_state_save(r_.e.session, 0, saved.data(), need);
    return r_.state.write(saved.data(), need) && r_.state.finish();
  }

  // What the decoder read: the start token or the prompt, and the output but for its last token.
  bool replay(const Line& line) {
    TokenIds target = r_.prompt_of(line.ids);
    if (target.empty()) target.push_back(r_.e.start_id());
    for (size_t i = 0; i + 1 < line.all.ids.size(); ++i) target.push_back(line.all.ids[i]);
    return r_.capture.replay(r_.e, r_.e.has_source() ? line.ids : TokenIds(), target);
  }

  Runner& r_;
  TokenIds out_;
  uint32_t shown_ = 0;  // ids printed on this line
};

}  // namespace

int in_turn(Runner* runner, Inputs* inputs) { return InTurn(runner).run(inputs); }

}  // namespace cli
