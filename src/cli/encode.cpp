// cli: `phasor embed`, `phasor fill`, `phasor classify`, `phasor tag`, `phasor answer` and
// `phasor rank`. Texts are read in batches, encoded together, and answered in their order.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "capture.h"
#include "commands.h"
#include "engine.h"
#include "exponential.h"
#include "input.h"
#include "json.h"
#include "spans.h"

namespace cli {
namespace {

// texts that are encoded in one call, tokens that share a product, tokens that are labelled at once
constexpr uint32_t kBatch = 32, kBatchTokens = 256, kRows = 16;

// One text of a batch.
struct Text {
  string where, error, given;
  TokenIds ids, segments;
  size_t last = 0;  // ids of the text, or of the second of two, without those around it
};

// One class or token with its score.
struct Scored {
  uint32_t index;
  double score;
};

int not_one_line() {
  return data_error("--logits, --hidden and --attention: expected exactly one line of input");
}

// What the commands share; each answers for one encoded sequence.
class Encoder {
 public:
  explicit Encoder(const Options& options) : o_(options) {}
  int run() {
    if (!e_.open(o_)) return 1;
    (void)phasor_model_output(e_.model, &output_);
    const bool both = e_.stack == PHASOR_ENCODER_DECODER;
    if (e_.stack != PHASOR_ENCODER && !(classifies() && decodes()))
      return data_error("%s: is %s, expected an encoder", e_.path,
                        both ? "an encoder-decoder" : "a decoder");
    if (both && o_.arrays())
      return usage_error("--logits, --hidden, --attention: this model is an encoder-decoder");
    if (const char* why = refusal()) return data_error("%s: %s", e_.path, why);
    if (o_.segments.given && (!o_.ids.given || o_.ids.from_input))
      return usage_error("--segments: goes with one list of --ids");
    if (o_.prompt != nullptr && o_.prompt_text != nullptr)
      return usage_error("--prompt: expected either --prompt or --prompt-text, not both");
    if (o_.pair) find_template();
    if (joined_ && o_.truncate)
      return usage_error("--truncate: the model reads two texts in a template, which is not cut");
    if (!find_prompt() || !capture_.open(o_) || !start() || !prepare()) return 1;
    Inputs inputs(o_, false, LineReader::kLongest - std::min(prompt_.size(), LineReader::kLongest));
    for (Input input; e_.going_on() && inputs.next(&input);) {
      batch_.emplace_back();
      (void)read(input, &batch_.back());
      if (batch_.size() == e_.limits.sequences) encode();
    }
    encode();
    if (inputs.failed() || !e_.going_on() || !finish()) return 1;
    if (capture_.wanted() && !captured_) return status_ != 0 ? 1 : not_one_line();
    if (!capture_.commit() || !commit()) return 1;
    if (status_ == 0 && !o_.quiet) print_figures(e_, "text", number_, tokens_, seconds_);
    return status_;
  }

 protected:
  // what the command says of this model and these flags, or NULL
  virtual const char* refusal() const = 0;
  virtual bool prepare() { return true; }
  virtual bool answer(uint32_t sequence, const Text& text, string* error) = 0;
  // A text without an answer; the exit status.
  virtual int bad(const Text& text) { return bad_line(e_, o_, text.where, number_, text.error); }
  virtual bool finish() { return true; }                 // outputs of its own
  virtual size_t longest_question() const { return 0; }  // bytes that asks() adds
  virtual bool commit() { return true; }
  virtual uint32_t logit_rows() const { return 0; }
  virtual bool classifies() const { return false; }  // one row of classes for a text
  // answer encodes what it asks, and not the text alone
  virtual bool asks() const { return false; }

  // whether classes come from a decoder that reads the text once more
  bool decodes() const {
    return e_.stack == PHASOR_ENCODER_DECODER && output_.output == PHASOR_OUTPUT_CLASSES;
  }
  // The classes of an encoded text, for phasor_logits: of what is pooled; behind a decoder, which
  // reads the text behind its start token, those at the text's last end token.
  bool classes(uint32_t sequence, const TokenIds& ids, string* why) {
    if (!decodes()) return rows(sequence, 0, 1, why);
    const uint32_t* const ends = e_.source.end;
    size_t last = ids.size();
    while (last != 0 &&
           std::find(ends, ends + e_.source.end_count, ids[last - 1]) == ends + e_.source.end_count)
      --last;
    if (last == 0) return *why = "no end token, at which the classes are read", false;
    TokenIds read{e_.start_id()};
    read.insert(read.end(), ids.begin(), ids.begin() + static_cast<ptrdiff_t>(last - 1));
    phasor_item item = item_of(read.data(), read.size(), PHASOR_LOGITS_LAST);
    item.sequence = sequence;
    if (!e_.done(phasor_step(e_.session, &item, 1, &e_.error), why)) return false;
    if (all_finite(phasor_logits(e_.session, 0), output_.width)) return true;
    return *why = "a class is not a number", false;
  }
  string piece(uint32_t id) const { return piece_text(e_, PHASOR_SOURCE, id); }
  string label(uint32_t index) const {
    size_t bytes = 0;
    const char* text = phasor_label(e_.model, index, &bytes);
    return text != nullptr ? string(text, bytes) : format("class %u", index);
  }
  // Of a text's own tokens, or the second's of two: the place of the first, and where all lie.
  bool places(const Text& text, size_t* first, vector<Span>* spans, string* why) const {
    *first = text.ids.size() - e_.source.suffix_count - text.last;
    return token_spans(e_, PHASOR_SOURCE, text.given, text.ids.data() + *first, text.last, spans,
                       why);
  }
  // Calls `take` with each position and its row of logits.
  template <class Take>
  bool each_row(uint32_t sequence, uint32_t count, string* why, Take take) {
    for (uint32_t place = 0; place < count; ++place) {
      const uint32_t row = place % kRows;
      if (row == 0 && !rows(sequence, place, std::min(count - place, kRows), why)) return false;
      take(place, phasor_logits(e_.session, row));
    }
    return true;
  }
  // Rows of logits from `first` on, for phasor_logits.
  bool rows(uint32_t sequence, uint32_t first, uint32_t count, string* why) {
    if (!e_.done(phasor_encoder_output(e_.session, sequence, first, count, &e_.error), why))
      return false;
    for (uint32_t row = 0; row < count; ++row)
      if (!all_finite(phasor_logits(e_.session, row), output_.width))
        return *why = "a logit is not a number", false;
    return true;
  }

  // The --top best, or `most`; best first, ties to the lowest index.
  vector<Scored> best(const vector<double>& scores, size_t most) const {
    vector<Scored> all;
    for (const double score : scores) all.push_back({count_of(all), score});
    std::sort(all.begin(), all.end(), [](const Scored& a, const Scored& b) {
      return a.score != b.score ? a.score > b.score : a.index < b.index;
    });
    all.resize(std::min(all.size(), o_.top != 0 ? size_t{o_.top} : most));
    return all;
  }

  // the answer in either form, as a line
  bool print(const string& text, const Json& json) const {
    return output((o_.json ? json.str() : text) + "\n");
  }

  const Options& o_;
  Engine e_;
  phasor_output output_ = sized<phasor_output>();
  string prompt_;              // put before each text
  size_t tab_ = string::npos;  // of a pair, where it is known
  uint64_t number_ = 0;        // lines answered

 private:
  // The file's prompt of that name; without --prompt its first one.
  bool find_prompt() {
    if (o_.prompt_text != nullptr) return prompt_ = o_.prompt_text, true;
    string known;
    for (uint32_t i = 0; i < output_.prompts; ++i) {
      const char *name = nullptr, *text = nullptr;
      size_t name_bytes = 0, text_bytes = 0;
      if (phasor_prompt(e_.model, i, &name, &name_bytes, &text, &text_bytes) != PHASOR_OK) break;
      const string found(name, name_bytes);
      if (o_.prompt == nullptr ? i == 0 : found == o_.prompt)
        return prompt_.assign(text, text_bytes), true;
      known += (i == 0 ? "" : ", ") + found;
    }
    if (o_.prompt == nullptr) return true;
    data_error("%s: --prompt %s: %s%s", e_.path, o_.prompt,
               known.empty() ? "the file has no prompts" : "expected one of ", known.c_str());
    return false;
  }

  // The file's prompt "pair", where it has a place for each of two texts that are read in it.
  void find_template() {
    for (uint32_t i = 0; i < output_.prompts && !joined_; ++i) {
      const char *name = nullptr, *text = nullptr;
      size_t name_bytes = 0, text_bytes = 0;
      if (phasor_prompt(e_.model, i, &name, &name_bytes, &text, &text_bytes) != PHASOR_OK) break;
      if (string(name, name_bytes) != "pair") continue;
      const string whole(text, text_bytes), places[] = {"{query}", "{document}"};
      const size_t first = whole.find(places[0]), after = first + places[0].size();
      const size_t second = first == string::npos ? first : whole.find(places[1], after);
      if (second == string::npos) continue;
      around_[0] = whole.substr(0, first);
      around_[1] = whole.substr(after, second - after);
      around_[2] = whole.substr(second + places[1].size());
      joined_ = true;
    }
  }

  // The two texts in the template, as one.
  bool join(const string& texts, string* out, string* why) const {
    size_t tab = 0;
    if (!split_pair(texts, tab_, &tab, why)) return false;
    *out = around_[0] + texts.substr(0, tab) + around_[1] + texts.substr(tab + 1) + around_[2];
    return true;
  }

  // Ids that the model's makers cut a text to; 0: they say nothing.
  uint32_t longest_text() const {
    auto field = sized<phasor_field>();
    for (uint32_t i = 0; phasor_field_get(e_.model, i, &field) == PHASOR_OK; ++i)
      if (strcmp(field.name, "source.longest_text") == 0)
        return static_cast<uint32_t>(strtoul(field.value, nullptr, 10));
    return 0;
  }

  bool start() {
    phasor_limits limits = default_limits(e_, o_);
    const uint32_t longest = o_.truncate && o_.source == 0 ? longest_text() : 0;
    if (longest != 0 && (longest < limits.source || e_.source.max_positions == 0))
      limits.source = std::min(longest, kMostByDefault);
    make_room_for_ids(&limits, e_, o_);
    const bool terminal = !o_.ids.given && o_.texts.empty() && isatty(0) != 0;
    limits.sequences = o_.batch != 0 ? o_.batch : terminal ? 1 : kBatch;
    if (capture_.wanted() || decodes() || asks()) limits.sequences = 1;
    if (decodes()) limits.target = limits.source;
    if (!o_.texts.empty()) limits.sequences = std::min(limits.sequences, count_of(o_.texts));
    limits.chunk = static_cast<uint32_t>(
        std::min<uint64_t>(uint64_t{limits.sequences} * limits.source, kBatchTokens));
    limits.logit_rows = logit_rows();
    size_t more = prompt_.size();
    for (const string& part : around_) more += part.size();
    make_text_room(&limits, longest_argument(o_) + more + longest_question());
    if (capture_.wants_attention()) limits.outputs |= PHASOR_WANT_ATTENTION;
    return e_.start(limits);
  }

  // False: text->error says why.
  bool read(const Input& input, Text* text) {
    text->where = input.where;
    string* why = &text->error;
    *why = input.error;
    if (!why->empty()) return false;
    text->ids = input.ids;
    text->given = input.text;
    if (!input.is_ids && !read_text(prompt_ + input.text, text)) return false;
    if (input.is_ids) text->segments = o_.segments.values;
    drop_padding(text);
    const size_t count = text->ids.size();
    if (count == 0) return *why = "no tokens, expected at least one", false;
    if (o_.segments.given && text->segments.size() != count)
      *why = format("%zu segments for %zu ids", text->segments.size(), count);
    if (count > e_.limits.source)
      *why = no_room(count, e_.limits.source,
                     input.is_ids || asks() ? "--source" : "--source; --truncate cuts");
    return why->empty();
  }

  // A class of the last position is of the last one that is no padding (of the first, where all
  // are), as transformers has it for decoders; what is behind it counts for nothing.
  void drop_padding(Text* text) const {
    if (output_.output != PHASOR_OUTPUT_CLASSES || output_.pooling != PHASOR_POOL_LAST) return;
    const bool both = text->segments.size() == text->ids.size();
    while (text->ids.size() > 1 && text->ids.back() == e_.source.pad) text->ids.pop_back();
    if (both) text->segments.resize(text->ids.size());
  }

  // A text, or with --pair two with a tab between them.
  bool read_text(const string& input, Text* text) {
    size_t first = 0;
    string whole;
    if (joined_)
      return join(input, &whole, &text->error) && e_.hold_text(whole.size(), &text->error) &&
             text_ids(e_, PHASOR_SOURCE, true, whole, &text->ids, &text->error);
    if (!e_.hold_text(input.size(), &text->error)) return false;
    if (!(o_.pair ? pair_ids(e_, PHASOR_SOURCE, input, tab_, &text->ids, &text->segments, &first,
                             &text->error)
                  : text_ids(e_, PHASOR_SOURCE, true, input, &text->ids, &text->error)))
      return false;
    const size_t count = text->ids.size(), of_texts = count - std::min(count, around());
    if (!o_.pair) first = of_texts;
    text->last = o_.pair ? of_texts - first : first;
    if (o_.truncate && count > e_.limits.source) shorten(text, first, of_texts - first);
    return true;
  }

  // Ids around and between the texts.
  size_t around() const {
    size_t count = e_.source.prefix_count + e_.source.suffix_count;
    if (o_.pair)
      (void)phasor_pair_to_ids(e_.session, PHASOR_SOURCE, nullptr, nullptr, 0, &count, "", 0, "", 0,
                               nullptr);
    return count;
  }

  // Drops ids from the end of the longer text until all fit (of the second, where both are as
  // long). The ids around and between the texts stay.
  void shorten(Text* text, size_t first_count, size_t second_count) const {
    const size_t count = text->ids.size(), begin = e_.source.prefix_count,
                 end = count - std::min<size_t>(count, e_.source.suffix_count);
    size_t first = first_count, second = second_count;
    for (size_t left = count - e_.limits.source; left != 0 && first + second != 0; --left)
      --(first > second ? first : second);
    const size_t second_begin = end - second_count;
    for (TokenIds* list : {&text->ids, &text->segments}) {
      if (list->empty()) continue;
      uint32_t* at = list->data();
      TokenIds kept(at, at + begin + first);
      kept.insert(kept.end(), at + begin + first_count, at + second_begin + second);
      kept.insert(kept.end(), at + end, at + count);
      *list = kept;
    }
    text->last = o_.pair ? second : first;
  }

  void encode() {
    vector<phasor_item> items;
    for (uint32_t i = 0; i < batch_.size(); ++i) {
      const Text& text = batch_[i];
      if (!text.error.empty()) continue;
      phasor_item item = item_of(text.ids.data(), text.ids.size(), PHASOR_LOGITS_NONE);
      item.sequence = i;
      if (!text.segments.empty()) item.segments = text.segments.data();
      if (!asks()) items.push_back(item);
    }
    const double begin = now();
    if (phasor_encode(e_.session, items.data(), count_of(items), &e_.error) ==
        PHASOR_BAD_INPUT) {  // one of them: find out which
      const auto is_bad = [this](const phasor_item& item) {
        string* why = &batch_[item.sequence].error;
        if (phasor_encode(e_.session, &item, 1, &e_.error) == PHASOR_BAD_INPUT)
          *why = e_.error.text;
        return !why->empty();
      };
      items.erase(std::remove_if(items.begin(), items.end(), is_bad), items.end());
      (void)phasor_encode(e_.session, items.data(), count_of(items), &e_.error);
    }
    seconds_ += now() - begin;
    for (uint32_t i = 0; i < batch_.size() && !output_failed(); ++i) {
      Text& text = batch_[i];
      ++number_;
      if (text.error.empty() && !asks())
        (void)e_.done(phasor_sequence_status(e_.session, i), &text.error);
      if (!text.error.empty() || !answer(i, text, &text.error) || !capture(text)) {
        status_ = text.error.empty() ? 1 : bad(text);
      }
      tokens_ += text.ids.size();
    }
    output_flush();
    batch_.clear();
  }

  bool capture(const Text& t) {
    if (!capture_.wanted()) return true;
    if (!output_flush() || !e_.file.unchanged()) return false;  // the files stay as they were
    captured_ = false;
    if (number_ != 1) return not_one_line(), false;
    const uint32_t has = output_.output;
    const bool rows = has == PHASOR_OUTPUT_LOGITS || has == PHASOR_OUTPUT_CLASSES;
    captured_ = capture_.replay_encoder(e_, t.ids, t.segments, rows ? output_ : phasor_output{});
    return captured_;
  }

  string around_[3];  // of a template for two texts: before, between and behind them
  bool joined_ = false;
  Capture capture_;
  bool captured_ = false;  // of the one text
  vector<Text> batch_;
  uint64_t tokens_ = 0;
  double seconds_ = 0;
  int status_ = 0;
};

// Softmax in double, in the order of the row.
vector<double> softmax(const float* row, uint32_t width) {
  const double largest = *std::max_element(row, row + width);
  double sum = 0;
  vector<double> out(row, row + width);
  for (double& value : out) sum += value = exponential(value - largest);
  for (double& value : out) value /= sum;
  return out;
}

// What a row of classes says, as the file wants it said.
vector<double> class_scores(const phasor_output& output, const float* row) {
  if (output.scores == PHASOR_SCORES_SOFTMAX) return softmax(row, output.width);
  vector<double> out(row, row + output.width);
  for (double& value : out)
    if (output.scores == PHASOR_SCORES_SIGMOID) value = 1 / (1 + exponential(-value));
  return out;
}

// ---- embed

class Embed final : public Encoder {
 public:
  using Encoder::Encoder;

 private:
  const char* refusal() const override {
    if (o_.sparse && (o_.pooling.given || o_.normalise || o_.no_normalise || o_.dim != 0))
      return "--sparse: goes without --pooling, --normalise, --no-normalise and --dim";
    if (!o_.sparse && o_.top != 0) return "--top: goes with --sparse";
    if (o_.sparse)
      return output_.output == PHASOR_OUTPUT_LOGITS
                 ? nullptr
                 : "--sparse: is no masked language model: it has no logits";
    if (!o_.pooling.given && output_.pooling == 0 && output_.output == PHASOR_OUTPUT_LOGITS)
      return "says nothing of pooling: choose one with --pooling mean, first or last, or --sparse";
    if (!o_.pooling.given && output_.pooling == 0)
      return "says nothing of pooling: choose one with --pooling mean, first or last";
    if (o_.normalise && o_.no_normalise)
      return "--normalise: expected either --normalise or --no-normalise, not both";
    return nullptr;
  }
  uint32_t logit_rows() const override { return o_.sparse ? kRows : 0; }
  bool prepare() override {
    const bool own = o_.sparse || output_.output == PHASOR_OUTPUT_POOLED;
    const uint32_t width = own ? output_.width : e_.source.width;
    if (o_.dim > width)
      return data_error("%s: --dim %u: the vectors have %u values", e_.path, uint32_t{o_.dim},
                        width),
             false;
    vector_.resize(o_.dim != 0 ? o_.dim : width);
    return o_.npy == nullptr || npy_.open(o_.npy);
  }
  // A weight for each token of the vocabulary: ln(1 + its largest logit), 0 where that is not above
  // 0 (SPLADE: Formal et al. 2021, "SPLADE v2").
  bool sparse(uint32_t sequence, const Text& text, string* why) {
    std::fill(vector_.begin(), vector_.end(), 0.0f);
    const auto take = [this](uint32_t, const float* row) {
      for (size_t i = 0; i < vector_.size(); ++i) vector_[i] = std::max(vector_[i], row[i]);
    };
    if (!each_row(sequence, count_of(text.ids), why, take)) return false;
    for (float& value : vector_) value = static_cast<float>(logarithm(1.0 + double{value}));
    if (npy_.is_open()) return ++rows_, npy_.append(vector_.data(), vector_.size());
    string lines;
    Json json;
    json.open('{').add("line", number_).add("tokens", text.ids.size()).open("weights", '[');
    for (const Scored& one : best({vector_.begin(), vector_.end()}, vector_.size())) {
      if (one.score == 0) break;
      json.open('{').add("id", one.index).add("piece", piece(one.index));
      json.add("weight", static_cast<float>(one.score)).close('}');
      lines += format("%u\t", one.index) + piece(one.index) + format("\t%.9g\n", one.score);
    }
    return print(lines, json.close(']').close('}'));
  }
  bool answer(uint32_t sequence, const Text& text, string* why) override {
    if (o_.sparse) return sparse(sequence, text, why);
    uint32_t pooling = PHASOR_POOL_MODEL;
    if (o_.pooling.given) pooling = PHASOR_POOL_MEAN + o_.pooling;
    const uint32_t normalise = o_.normalise      ? PHASOR_NORMALISE_YES
                               : o_.no_normalise ? PHASOR_NORMALISE_NO
                                                 : PHASOR_NORMALISE_MODEL;
    if (!e_.done(phasor_embedding(e_.session, sequence, pooling, normalise, vector_.data(),
                                  count_of(vector_), &e_.error),
                 why))
      return false;
    if (!all_finite(vector_.data(), vector_.size()))
      return *why = "a value of the vector is not a number", false;
    if (npy_.is_open()) {
      ++rows_;
      return npy_.append(vector_.data(), vector_.size());
    }
    Json json;
    string line;
    json.open('{').add("line", number_).add("tokens", text.ids.size());
    json.add("embedding", vector_).close('}');
    for (const float value : vector_) line += format(line.empty() ? "%.9g" : " %.9g", value);
    return print(line, json);
  }
  bool finish() override { return !npy_.is_open() || npy_.finish({rows_, vector_.size()}); }
  bool commit() override { return npy_.commit(); }

  vector<float> vector_;
  NpyWriter npy_;
  uint64_t rows_ = 0;
};

// ---- fill

class Fill final : public Encoder {
 public:
  using Encoder::Encoder;

 private:
  const char* refusal() const override {
    if (output_.output != PHASOR_OUTPUT_LOGITS)
      return "is no masked language model: it has no logits";
    return mask() == PHASOR_NONE ? "has no mask token: --mask ID says which one it is" : nullptr;
  }
  uint32_t mask() const { return o_.mask.given ? uint32_t(o_.mask) : e_.source.mask; }
  uint32_t logit_rows() const override { return 1; }
  bool answer(uint32_t sequence, const Text& text, string* why) override {
    string lines;
    Json json;
    json.open('{').add("line", number_).open("masks", '[');
    bool any = false;
    for (uint32_t place = 0; place < text.ids.size(); ++place) {
      if (text.ids[place] != mask()) continue;
      any = true;
      if (!rows(sequence, place, 1, why)) return false;
      json.open('{').add("place", place).open("best", '[');
      for (const Scored& one : best(softmax(phasor_logits(e_.session, 0), output_.width), 5)) {
        lines +=
            format("%u\t%u\t", place, one.index) + piece(one.index) + format("\t%.6f\n", one.score);
        json.open('{').add("id", one.index).add("piece", piece(one.index));
        json.add("probability", one.score).close('}');
      }
      json.close(']').close('}');
    }
    if (!any) return *why = "no mask token (" + piece(mask()) + ") in the text", false;
    return print(lines, json.close(']').close('}'));
  }
};

// ---- classify

class Classify final : public Encoder {
 public:
  using Encoder::Encoder;

 private:
  const char* refusal() const override {
    return output_.output != PHASOR_OUTPUT_CLASSES ? "is no classifier: it has no classes"
                                                   : nullptr;
  }
  uint32_t logit_rows() const override { return output_.pooling != 0 || decodes() ? 1 : kRows; }
  bool classifies() const override { return true; }

  // "label<TAB>score" for each class that is shown.
  string show(const float* row, Json* json) const {
    string line;
    json->open("labels", '[');
    for (const Scored& one : best(class_scores(output_, row), output_.width)) {
      const string name = label(one.index);
      line += (line.empty() ? "" : "\t") + name + format("\t%.6f", one.score);
      json->open('{').add("label", name).add("score", one.score).close('}');
    }
    json->close(']');
    return line;
  }
  bool answer(uint32_t sequence, const Text& text, string* why) override {
    Json json;
    string lines;
    json.open('{').add("line", number_);
    if (output_.pooling != 0 || decodes()) {
      if (!classes(sequence, text.ids, why)) return false;
      lines = show(phasor_logits(e_.session, 0), &json);
      return print(lines, json.close('}'));
    }
    json.open("tokens", '[');
    const auto take = [&](uint32_t place, const float* row) {
      const uint32_t id = text.ids[place];
      json.open('{').add("place", place).add("id", id).add("piece", piece(id));
      lines += format("%u\t%u\t", place, id) + piece(id) + "\t" + show(row, &json) + "\n";
      json.close('}');
    };
    return each_row(sequence, count_of(text.ids), why, take) &&
           print(lines, json.close(']').close('}'));
  }
};

// A stretch of a text, as a line and as an object that is open still.
string stretch(const string& text, const Span& s, Json* json) {
  const size_t begin = characters(text, s.begin), end = characters(text, s.end);
  const string part = text.substr(s.begin, s.end - s.begin);
  json->open('{').add("start", begin).add("end", end).add("text", part);
  return format("%zu\t%zu\t", begin, end) + part;
}

// ---- tag

// Tokens of one label that follow each other are one entity (aggregation "simple" of transformers'
// pipeline): B- begins a new one, O is none.
class Tag final : public Encoder {
 public:
  using Encoder::Encoder;

 private:
  const char* refusal() const override {
    return output_.output != PHASOR_OUTPUT_CLASSES || output_.pooling != 0
               ? "labels no tokens: it is no classifier of them"
               : nullptr;
  }
  uint32_t logit_rows() const override { return kRows; }

  struct Entity {
    string label;  // without B- or I-
    Span span;
    double score;  // of all tokens
    uint32_t tokens;
  };

  bool answer(uint32_t sequence, const Text& text, string* why) override {
    size_t first = 0;
    vector<Span> spans;
    vector<Entity> found;
    if (!places(text, &first, &spans, why)) return false;
    const auto take = [&](uint32_t place, const float* row) {
      if (place < first || place >= first + spans.size()) return;
      const Scored top = best(class_scores(output_, row), 1)[0];
      const string name = label(top.index), mark = name.substr(0, 2);
      const bool marked = mark == "B-" || mark == "I-";
      const string plain = marked ? name.substr(2) : name;
      const Span& span = spans[place - first];
      if (found.empty() || found.back().label != plain || mark == "B-")
        found.push_back({plain, span, 0, 0});
      found.back().span.end = span.end;
      found.back().score += top.score;
      ++found.back().tokens;
    };
    if (!each_row(sequence, count_of(text.ids), why, take)) return false;
    string lines;
    Json json;
    json.open('{').add("line", number_).open("entities", '[');
    for (const Entity& one : found) {
      if (one.label == "O") continue;
      const double score = one.score / one.tokens;
      const string place = stretch(text.given, one.span, &json);
      json.add("label", one.label).add("score", score).close('}');
      lines += one.label + format("\t%.6f\t", score) + place + "\n";
    }
    return print(lines, json.close(']').close('}'));
  }
};

// ---- answer

// The question, which is --prompt-text with a tab behind it, and each text.
class Answer final : public Encoder {
 public:
  explicit Answer(const Options& options) : Encoder(options) {
    tab_ = strlen(options.prompt_text) - 1;
  }

 private:
  const char* refusal() const override {
    return output_.output != PHASOR_OUTPUT_CLASSES || output_.pooling != 0 || output_.width != 2 ||
                   label(0) != "start" || label(1) != "end"
               ? "answers no questions: it has no classes start and end"
               : nullptr;
  }
  uint32_t logit_rows() const override { return kRows; }

  // Softmax over the text's tokens and the first one of all, which stands for "no answer".
  vector<double> chances(const vector<float>& logits, size_t first, size_t count) const {
    vector<float> some{e_.source.prefix_count != 0 ? logits[0]
                                                   : -std::numeric_limits<float>::infinity()};
    some.insert(some.end(), logits.data() + first, logits.data() + first + count);
    return softmax(some.data(), count_of(some));
  }

  struct Found {
    size_t first, last;  // tokens of the text
    double score;
  };
  // Best first, ties to the first; no more than `most`.
  vector<Found> spans_of(const vector<double>& start, const vector<double>& end,
                         size_t most) const {
    vector<Found> all;
    const auto better = [](const Found& a, const Found& b) { return a.score > b.score; };
    const auto keep = [&] {
      std::stable_sort(all.begin(), all.end(), better);
      if (all.size() > most) all.resize(most);
    };
    for (size_t s = 1; s < start.size(); ++s) {
      for (size_t e = s; e < end.size() && e - s < o_.max_answer; ++e)
        all.push_back({s - 1, e - 1, start[s] * end[e]});
      if (all.size() > most + kMostSpans) keep();
    }
    keep();
    return all;
  }

  bool answer(uint32_t sequence, const Text& text, string* why) override {
    size_t first = 0;
    vector<Span> spans;
    vector<float> starts, ends;
    if (text.last == 0) return *why = "no tokens in the text, expected at least one", false;
    if (!places(text, &first, &spans, why)) return false;
    const auto take = [&](uint32_t, const float* row) {
      starts.push_back(row[0]);
      ends.push_back(row[1]);
    };
    if (!each_row(sequence, count_of(text.ids), why, take)) return false;
    const vector<double> start = chances(starts, first, spans.size());
    const vector<double> end = chances(ends, first, spans.size());
    const size_t most = o_.top != 0 ? size_t{o_.top} : 1;
    vector<Found> found = spans_of(start, end, most);
    if (o_.null_answer) {
      const double none = start[0] * end[0];
      const auto at = std::find_if(found.begin(), found.end(),
                                   [none](const Found& one) { return one.score < none; });
      found.insert(at, {spans.size(), spans.size(), none});
      if (found.size() > most) found.resize(most);
    }
    string lines;
    Json json;
    json.open('{').add("line", number_).open("answers", '[');
    for (const Found& one : found) {
      const bool none = one.first == spans.size();
      const Span span = none ? Span{0, 0} : Span{spans[one.first].begin, spans[one.last].end};
      const string place = stretch(text.given, span, &json);
      json.add("score", one.score).close('}');
      lines += format("%.6f\t", one.score) + place + "\n";
    }
    return print(lines, json.close(']').close('}'));
  }

  static constexpr size_t kMostSpans = 1 << 12;  // between two sorts
};

// ---- classify --labels

// Classes that a model of inference was not trained on (Yin et al. 2019): it says whether a text
// entails a sentence with each label.
class ZeroShot final : public Encoder {
 public:
  using Encoder::Encoder;
  // The labels, between commas; 0, or the exit status.
  int read_flags() {
    const string all = o_.labels, form = form_of(o_);
    for (size_t from = 0, end = 0; end != string::npos; from = end + 1) {
      end = all.find(',', from);
      const string one = all.substr(from, end == string::npos ? end : end - from);
      const size_t first = one.find_first_not_of(' '), last = one.find_last_not_of(' ');
      if (first != string::npos) labels_.push_back(one.substr(first, last - first + 1));
    }
    if (labels_.empty())
      return usage_error("--labels: expected some, separated by commas, such as \"sport,art\"");
    if (labels_.size() > kMostLabels)
      return usage_error("--labels: %zu of them, expected at most %zu", labels_.size(),
                         kMostLabels);
    const size_t at = form.find("{}");
    if (at == string::npos || form.find_first_of("{}") != at ||
        form.find_first_of("{}", at + 2) != string::npos)
      return usage_error("--template %s: expected one {}, where a label is put", form.c_str());
    const char* flag = o_.arrays() ? "--logits, --hidden, --attention"
                                   : o_.first_given({"--ids", "--pair", "--truncate"});
    return flag != nullptr ? usage_error("%s: does not go with --labels", flag) : 0;
  }

 private:
  static constexpr size_t kMostLabels = 1024;

  static string form_of(const Options& o) {
    return o.hypothesis != nullptr ? o.hypothesis : "This example is {}.";
  }
  string sentence(const string& label) const {
    string out = form_of(o_);
    return out.replace(out.find("{}"), 2, label);
  }

  const char* refusal() const override {
    if (output_.output != PHASOR_OUTPUT_CLASSES || (output_.pooling == 0 && !decodes()))
      return "is no classifier of texts";
    return entails() == output_.width || output_.width < 2
               ? "has no class that begins with entail, which --labels asks for"
               : nullptr;
  }
  uint32_t logit_rows() const override { return 1; }
  bool classifies() const override { return true; }
  bool asks() const override { return true; }
  size_t longest_question() const override {
    size_t longest = 0;
    for (const string& one : labels_) longest = std::max(longest, sentence(one).size() + 1);
    return longest;
  }

  // The class of entailment; their number, where there is none.
  uint32_t entails() const {
    for (uint32_t i = 0; i < output_.width; ++i) {
      string name = label(i).substr(0, 6);
      for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
      if (name == "entail") return i;
    }
    return output_.width;
  }

  // The classes of a text and a sentence.
  bool ask(const string& text, const string& label, string* why) {
    const string both = text + "\t" + sentence(label);
    TokenIds ids, segments;
    size_t first = 0;
    if (!e_.hold_text(both.size(), why) ||
        !pair_ids(e_, PHASOR_SOURCE, both, text.size(), &ids, &segments, &first, why))
      return false;
    if (ids.size() > e_.limits.source)
      return *why = no_room(ids.size(), e_.limits.source, "--source"), false;
    phasor_item item = item_of(ids.data(), ids.size(), PHASOR_LOGITS_NONE);
    if (e_.stack == PHASOR_ENCODER) item.segments = segments.data();
    return e_.done(phasor_encode(e_.session, &item, 1, &e_.error), why) &&
           e_.done(phasor_sequence_status(e_.session, 0), why) && classes(0, ids, why);
  }

  // A softmax of entailment over the labels; of a label alone, or with --multi-label, against
  // contradiction.
  bool answer(uint32_t, const Text& text, string* why) override {
    const uint32_t yes = entails(), no = yes == 0 ? output_.width - 1 : 0;
    const bool each = o_.multi_label || labels_.size() == 1;
    vector<float> found;
    vector<double> scores;
    for (const string& one : labels_) {
      if (!ask(prompt_ + text.given, one, why)) return false;
      const float* row = phasor_logits(e_.session, 0);
      const float pair[] = {row[no], row[yes]};
      if (each) scores.push_back(softmax(pair, 2)[1]);
      found.push_back(row[yes]);
    }
    if (!each) scores = softmax(found.data(), count_of(found));
    string line;
    Json json;
    json.open('{').add("line", number_).open("labels", '[');
    for (const Scored& one : best(scores, scores.size())) {
      const string& name = labels_[one.index];
      line += (line.empty() ? "" : "\t") + name + format("\t%.6f", one.score);
      json.open('{').add("label", name).add("score", one.score).close('}');
    }
    return print(line, json.close(']').close('}'));
  }

  vector<string> labels_;
};

// ---- rank

// Pairs of the query, which is --prompt-text with a tab behind it, and each text.
class Rank final : public Encoder {
 public:
  explicit Rank(const Options& options) : Encoder(options) {
    tab_ = strlen(options.prompt_text) - 1;
  }

 private:
  const char* refusal() const override {
    return output_.output != PHASOR_OUTPUT_CLASSES || output_.pooling == 0 || output_.width != 1
               ? "does not rank: it is no classifier with one class"
               : nullptr;
  }
  uint32_t logit_rows() const override { return 1; }

  bool answer(uint32_t sequence, const Text& text, string* why) override {
    if (!rows(sequence, 0, 1, why)) return false;
    const float* row = phasor_logits(e_.session, 0);
    all_.push_back({*row, class_scores(output_, row)[0], number_, text.given});
    if (o_.top != 0 && all_.size() >= 2 * size_t{o_.top}) sort();
    return true;
  }
  // There is no line of output whose place it would take.
  int bad(const Text& text) override { return bad_input(e_, text.where, text.error); }
  // Best first, ties in the order of the input; no more than --top.
  void sort() {
    std::sort(all_.begin(), all_.end(), [](const Ranked& a, const Ranked& b) {
      return a.logit != b.logit ? a.logit > b.logit : a.line < b.line;
    });
    if (o_.top != 0 && all_.size() > o_.top) all_.resize(o_.top);
  }
  bool finish() override {
    sort();
    for (const Ranked& one : all_) {
      Json json;
      json.open('{').add("line", one.line).add("score", one.score).add("text", one.text);
      if (!print(format("%.6f\t%" PRIu64 "\t", one.score, one.line) + one.text, json.close('}')))
        return false;
    }
    return output_flush();
  }

  struct Ranked {
    float logit;  // which a score of 1 has lost
    double score;
    uint64_t line;
    string text;
  };
  vector<Ranked> all_;
};

}  // namespace

int embed(const Options& options) { return Embed(options).run(); }
int fill(const Options& options) { return Fill(options).run(); }
int classify(const Options& options) {
  if (options.labels == nullptr) {
    const char* flag = options.first_given({"--template", "--multi-label"});
    return flag != nullptr ? usage_error("%s: goes with --labels", flag) : Classify(options).run();
  }
  ZeroShot asked(options);
  const int status = asked.read_flags();
  return status != 0 ? status : asked.run();
}
int tag(const Options& options) { return Tag(options).run(); }

namespace {

// A command whose first text is put before each of the others, with a tab between them.
template <class Pairs>
int run_pairs(const Options& options, const char* what) {
  if (options.texts.empty()) return usage_error("%s", what);
  Options pairs = options;
  const string query = string(options.texts[0]) + "\t";
  pairs.texts.erase(pairs.texts.begin());
  pairs.prompt_text = query.c_str();
  pairs.pair = true;
  return Pairs(pairs).run();
}

}  // namespace

int rank(const Options& options) {
  return run_pairs<Rank>(options, "rank: expected a query (phasor rank --help)");
}
int answer(const Options& options) {
  return run_pairs<Answer>(options, "answer: expected a question (phasor answer --help)");
}

}  // namespace cli
