// cli: `phasor embed`, `phasor fill` and `phasor classify`. Texts are read in batches, encoded
// together, and answered in their order.
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "capture.h"
#include "commands.h"
#include "engine.h"
#include "exponential.h"
#include "input.h"
#include "json.h"
#include "text.h"

namespace cli {
namespace {

// texts that are encoded in one call, tokens that share a product
constexpr uint32_t kBatch = 32, kBatchTokens = 256;

// One text of a batch.
struct Text {
  std::string where, error;
  std::vector<uint32_t> ids, segments;
};

// One class or token with its score.
struct Scored {
  uint32_t index;
  double score;
};

// What the three commands share; each answers for one encoded sequence.
class Encoder {
 public:
  explicit Encoder(const Options& options) : o_(options) {}
  virtual ~Encoder() = default;
  int run();

 protected:
  // what the command says of this model and these flags, or NULL
  virtual const char* refusal() const = 0;
  virtual bool prepare() { return true; }
  virtual bool answer(uint32_t sequence, const Text& text, std::string* error) = 0;
  virtual bool finish() { return true; }  // outputs of its own
  virtual bool commit() { return true; }
  virtual uint32_t logit_rows() const { return 0; }

  void piece(Json* json, uint32_t id) const;
  std::string piece(uint32_t id) const;
  bool rows(uint32_t sequence, uint32_t first, uint32_t count, std::string* error);
  std::vector<Scored> best(const std::vector<double>& scores, size_t most) const;

  const Options& o_;
  Engine e_;
  phasor_output output_{};
  std::string prompt_;   // put before each text
  uint64_t number_ = 0;  // lines answered

 private:
  bool find_prompt();
  bool start();
  void read(const Input& input, Text* text);
  bool read_text(const std::string& input, Text* text);
  bool read_pair(const std::string& input, Text* text);
  void shorten(Text* text, size_t first_count) const;
  void encode();
  bool capture(const Text& text);

  Capture capture_;
  bool captured_ = false;  // of the one text
  std::vector<Text> batch_;
  uint64_t tokens_ = 0;
  double seconds_ = 0;
  int status_ = 0;
};

int not_one_line() {
  return data_error("--logits, --hidden and --attention: expected exactly one line of input");
}

// The file's prompt of that name; without --prompt its first one.
bool Encoder::find_prompt() {
  if (o_.prompt_text != nullptr) return prompt_ = o_.prompt_text, true;
  std::string known;
  for (uint32_t i = 0; i < output_.prompts; ++i) {
    const char *name = nullptr, *text = nullptr;
    size_t name_bytes = 0, text_bytes = 0;
    if (phasor_prompt(e_.model, i, &name, &name_bytes, &text, &text_bytes) != PHASOR_OK) break;
    const std::string found(name, name_bytes);
    if (o_.prompt == nullptr ? i == 0 : found == o_.prompt)
      return prompt_.assign(text, text_bytes), true;
    known += (i == 0 ? "" : ", ") + found;
  }
  if (o_.prompt == nullptr) return true;
  data_error("%s: --prompt %s: %s%s", e_.path, o_.prompt,
             known.empty() ? "the file has no prompts" : "expected one of ", known.c_str());
  return false;
}

bool Encoder::start() {
  phasor_limits limits = default_limits(e_, o_);
  if (o_.ids.given && o_.source == 0)
    limits.source = room_for(limits.source, o_.ids.values.size(), e_.source);
  limits.sequences = o_.batch != 0                                         ? o_.batch
                     : o_.ids.given || !o_.texts.empty() || isatty(0) == 0 ? kBatch
                                                                           : 1;
  if (capture_.wanted()) limits.sequences = 1;
  if (!o_.texts.empty() && o_.texts.size() < limits.sequences)
    limits.sequences = static_cast<uint32_t>(o_.texts.size());
  const uint64_t all = uint64_t(limits.sequences) * limits.source;
  limits.chunk = static_cast<uint32_t>(all < kBatchTokens ? all : kBatchTokens);
  limits.logit_rows = logit_rows();
  make_text_room(&limits, longest_argument(o_) + prompt_.size());
  if (capture_.wants_attention()) limits.outputs |= PHASOR_WANT_ATTENTION;
  return e_.start(limits);
}

int Encoder::run() {
  if (!e_.open(o_)) return 1;
  output_.struct_size = sizeof output_;
  (void)phasor_model_output(e_.model, &output_);
  if (e_.stack != PHASOR_ENCODER)
    return data_error("%s: is %s, expected an encoder", e_.path,
                      e_.stack == PHASOR_DECODER ? "a decoder" : "an encoder-decoder");
  if (const char* why = refusal()) return data_error("%s: %s", e_.path, why);
  if (o_.ids.given && !o_.texts.empty())
    return usage_error("--ids: expected either ids or text, not both");
  if (o_.segments.given && (!o_.ids.given || o_.ids.from_input))
    return usage_error("--segments: goes with one list of --ids");
  if (o_.prompt != nullptr && o_.prompt_text != nullptr)
    return usage_error("--prompt: expected either --prompt or --prompt-text, not both");
  if (!find_prompt() || !capture_.open(o_) || !start() || !prepare()) return 1;
  Inputs inputs(o_, false,
                e_.limits.text_bytes > prompt_.size() ? e_.limits.text_bytes - prompt_.size() : 0);
  for (Input input; !output_failed() && e_.file.unchanged() && inputs.next(&input);) {
    batch_.emplace_back();
    read(input, &batch_.back());
    if (batch_.size() == e_.limits.sequences) encode();
  }
  encode();
  if (inputs.failed() || output_failed() || !e_.file.unchanged() || !finish()) return 1;
  if (capture_.wanted() && !captured_) return status_ != 0 ? 1 : not_one_line();
  if (!capture_.commit() || !commit()) return 1;
  if (status_ == 0 && !o_.quiet) print_figures(e_, "text", number_, tokens_, seconds_);
  return status_;
}

void Encoder::read(const Input& input, Text* text) {
  text->where = input.where;
  text->error = input.error;
  if (!text->error.empty()) return;
  if (input.is_ids) {
    text->ids = input.ids;
    text->segments = o_.segments.values;
    if (o_.segments.given && text->segments.size() != text->ids.size())
      text->error = std::to_string(text->segments.size()) + " segments for " +
                    std::to_string(text->ids.size()) + " ids";
  } else if (!(o_.pair ? read_pair(prompt_ + input.text, text)
                       : read_text(prompt_ + input.text, text))) {
    return;
  }
  if (text->error.empty() && text->ids.empty()) text->error = "no tokens, expected at least one";
  if (text->ids.size() > e_.limits.source)
    text->error = std::to_string(text->ids.size()) + " tokens, there is room for " +
                  std::to_string(e_.limits.source) +
                  (input.is_ids ? " (--source)" : " (--source; --truncate cuts)");
}

bool Encoder::read_text(const std::string& input, Text* text) {
  if (!text_ids(e_, PHASOR_SOURCE, true, input.data(), input.size(), &text->ids, &text->error))
    return false;
  const size_t around = size_t{e_.source.prefix_count} + e_.source.suffix_count;
  shorten(text, text->ids.size() > around ? text->ids.size() - around : 0);
  return true;
}

// Two texts with a tab between them.
bool Encoder::read_pair(const std::string& input, Text* text) {
  size_t first = 0;
  if (!pair_ids(e_, PHASOR_SOURCE, input, &text->ids, &text->segments, &first, &text->error))
    return false;
  shorten(text, first);
  return true;
}

// --truncate: drops ids from the end of the longer text until all fit (of the second, where both
// are as long).
void Encoder::shorten(Text* text, size_t first_count) const {
  const size_t room = e_.limits.source, count = text->ids.size();
  if (!o_.truncate || count <= room) return;
  const size_t prefix = e_.source.prefix_count, suffix = e_.source.suffix_count,
               second_end = count - suffix;
  size_t first = first_count, second = 0, second_begin = second_end;
  if (o_.pair) {  // the ids between the texts are as many as the rest of the template says
    size_t whole = 0;
    (void)phasor_pair_to_ids(e_.session, PHASOR_SOURCE, nullptr, nullptr, 0, &whole, "", 0, "", 0,
                             nullptr);
    second = count - whole - first;
    second_begin = second_end - second;
  }
  size_t drop_first = 0, drop_second = 0;
  for (size_t left = count - room; left != 0 && first + second != 0; --left) {
    if (first > second)
      --first, ++drop_first;
    else
      --second, ++drop_second;
  }
  const auto cut = [&](std::vector<uint32_t>* v) {
    if (v->empty()) return;
    v->erase(v->begin() + static_cast<std::ptrdiff_t>(second_begin + second),
             v->begin() + static_cast<std::ptrdiff_t>(second_begin + second + drop_second));
    v->erase(v->begin() + static_cast<std::ptrdiff_t>(prefix + first),
             v->begin() + static_cast<std::ptrdiff_t>(prefix + first + drop_first));
  };
  cut(&text->ids);
  cut(&text->segments);
}

void Encoder::encode() {
  std::vector<phasor_item> items;
  for (uint32_t i = 0; i < batch_.size(); ++i) {
    const Text& t = batch_[i];
    if (t.error.empty())
      items.push_back({sizeof(phasor_item), i, static_cast<uint32_t>(t.ids.size()),
                       PHASOR_LOGITS_NONE, t.ids.data(), nullptr,
                       t.segments.empty() ? nullptr : t.segments.data(), nullptr});
  }
  phasor_error error = PHASOR_ERROR_INIT;
  const double begin = now();
  phasor_status status =
      phasor_encode(e_.session, items.data(), static_cast<uint32_t>(items.size()), &error);
  if (status == PHASOR_BAD_INPUT) {  // one of them: find out which
    for (const phasor_item& item : items)
      if (phasor_encode(e_.session, &item, 1, &error) == PHASOR_BAD_INPUT)
        batch_[item.sequence].error = error.text;
    items.erase(std::remove_if(
                    items.begin(), items.end(),
                    [&](const phasor_item& item) { return !batch_[item.sequence].error.empty(); }),
                items.end());
    status = phasor_encode(e_.session, items.data(), static_cast<uint32_t>(items.size()), &error);
  }
  seconds_ += now() - begin;
  for (uint32_t i = 0; i < batch_.size() && !output_failed(); ++i) {
    Text& t = batch_[i];
    ++number_;
    if (t.error.empty() && phasor_sequence_status(e_.session, i) != PHASOR_OK) t.error = error.text;
    if (!t.error.empty() || !answer(i, t, &t.error) || !capture(t)) {
      if (!t.error.empty() && e_.file.unchanged())
        data_error("%s: %s", t.where.c_str(), t.error.c_str());
      if (o_.json) {
        Json json;
        json.open('{').key("line").number(number_).key("error").text(t.error.c_str()).close('}');
        output(json.str());
      }
      output("\n", 1);
      status_ = 1;
    }
    tokens_ += t.ids.size();
  }
  output_flush();
  batch_.clear();
}

bool Encoder::capture(const Text& t) {
  if (!capture_.wanted()) return true;
  if (!output_flush() || !e_.file.unchanged()) return false;  // the files stay as they were
  captured_ = false;
  if (number_ != 1) return not_one_line(), false;
  const uint32_t has = output_.output;
  const bool rows = has == PHASOR_OUTPUT_LOGITS || has == PHASOR_OUTPUT_CLASSES;
  captured_ = capture_.replay_encoder(e_, t.ids, t.segments, rows ? output_ : phasor_output{});
  return captured_;
}

std::string Encoder::piece(uint32_t id) const { return piece_text(e_, PHASOR_SOURCE, id); }

void Encoder::piece(Json* json, uint32_t id) const {
  const std::string text = piece(id);
  json->key("id").number(id).key("piece").text(text.data(), text.size());
}

bool Encoder::rows(uint32_t sequence, uint32_t first, uint32_t count, std::string* why) {
  phasor_error error = PHASOR_ERROR_INIT;
  if (phasor_encoder_output(e_.session, sequence, first, count, &error) != PHASOR_OK)
    return *why = error.text, false;
  for (uint32_t r = 0; r < count; ++r)
    if (!all_finite(phasor_logits(e_.session, r), output_.width))
      return *why = "a logit is not a number", false;
  return true;
}

// The --top best, or `most`; best first, ties to the lowest index.
std::vector<Scored> Encoder::best(const std::vector<double>& scores, size_t most) const {
  std::vector<Scored> all;
  for (size_t i = 0; i < scores.size(); ++i) all.push_back({static_cast<uint32_t>(i), scores[i]});
  const size_t wanted = o_.top != 0 ? o_.top : most,
               count = wanted < all.size() ? wanted : all.size();
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count), all.end(),
                    [](const Scored& a, const Scored& b) {
                      return a.score > b.score || (a.score >= b.score && a.index < b.index);
                    });
  all.resize(count);
  return all;
}

// Softmax in double, in the order of the row.
std::vector<double> softmax(const float* row, uint32_t width) {
  double largest = static_cast<double>(row[0]), sum = 0;
  std::vector<double> p(width);
  for (uint32_t i = 1; i < width; ++i) largest = std::max(largest, static_cast<double>(row[i]));
  for (uint32_t i = 0; i < width; ++i)
    sum += p[i] = exponential(static_cast<double>(row[i]) - largest);
  for (double& v : p) v /= sum;
  return p;
}

// ---- embed

class Embed final : public Encoder {
 public:
  using Encoder::Encoder;

 private:
  const char* refusal() const override {
    if (pooling() == UINT32_MAX) return "--pooling: expected mean, first or last";
    if (pooling() == PHASOR_POOL_MODEL && output_.pooling == 0)
      return "says nothing of pooling: choose one with --pooling mean, first or last";
    if (o_.normalise && o_.no_normalise)
      return "--normalise: expected either --normalise or --no-normalise, not both";
    return nullptr;
  }
  uint32_t pooling() const {
    // in the order of PHASOR_POOL_MEAN and on
    static const char* const names[] = {"mean", "first", "last"};
    if (o_.pooling == nullptr) return PHASOR_POOL_MODEL;
    for (uint32_t i = 0; i < 3; ++i)
      if (strcmp(o_.pooling, names[i]) == 0) return PHASOR_POOL_MEAN + i;
    return UINT32_MAX;
  }
  bool prepare() override {
    const uint32_t width = output_.output == PHASOR_OUTPUT_POOLED ? output_.width : e_.source.width;
    if (o_.dim > width)
      return data_error("%s: --dim %u: the vectors have %u values", e_.path, o_.dim, width), false;
    vector_.resize(o_.dim != 0 ? o_.dim : width);
    return o_.npy == nullptr || npy_.open(o_.npy);
  }
  bool answer(uint32_t sequence, const Text& text, std::string* why) override {
    phasor_error error = PHASOR_ERROR_INIT;
    const uint32_t normalise = o_.normalise      ? PHASOR_NORMALISE_YES
                               : o_.no_normalise ? PHASOR_NORMALISE_NO
                                                 : PHASOR_NORMALISE_MODEL;
    if (phasor_embedding(e_.session, sequence, pooling(), normalise, vector_.data(),
                         static_cast<uint32_t>(vector_.size()), &error) != PHASOR_OK)
      return *why = error.text, false;
    if (!all_finite(vector_.data(), vector_.size()))
      return *why = "a value of the vector is not a number", false;
    if (npy_.is_open()) {
      ++rows_;
      return npy_.append(vector_.data(), vector_.size());
    }
    if (o_.json) {
      Json json;
      json.open('{')
          .key("line")
          .number(number_)
          .key("tokens")
          .number(text.ids.size())
          .key("embedding")
          .open('[');
      for (float v : vector_) json.real(static_cast<double>(v));
      return output(json.close(']').close('}').str() + "\n");
    }
    std::string line;
    for (float v : vector_) {
      char one[32];
      snprintf(one, sizeof one, "%s%.9g", line.empty() ? "" : " ", static_cast<double>(v));
      line += one;
    }
    return output(line + "\n");
  }
  bool finish() override { return !npy_.is_open() || npy_.finish({rows_, vector_.size()}); }
  bool commit() override { return npy_.commit(); }

  std::vector<float> vector_;
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
    return e_.source.mask == PHASOR_NONE ? "has no mask token" : nullptr;
  }
  uint32_t logit_rows() const override { return 1; }
  bool answer(uint32_t sequence, const Text& text, std::string* why) override {
    std::string lines;
    Json json;
    json.open('{').key("line").number(number_).key("masks").open('[');
    uint32_t masks = 0;
    for (uint32_t place = 0; place < text.ids.size(); ++place) {
      if (text.ids[place] != e_.source.mask) continue;
      ++masks;
      if (!rows(sequence, place, 1, why)) return false;
      json.open('{').key("place").number(place).key("best").open('[');
      for (const Scored& s : best(softmax(phasor_logits(e_.session, 0), output_.width), 5)) {
        char numbers[64];
        snprintf(numbers, sizeof numbers, "%u\t%u\t", place, s.index);
        lines += numbers + piece(s.index);
        snprintf(numbers, sizeof numbers, "\t%.6f\n", s.score);
        lines += numbers;
        json.open('{');
        piece(&json, s.index);
        json.key("probability").real(s.score).close('}');
      }
      json.close(']').close('}');
    }
    if (masks == 0)
      return *why = "no mask token (" + piece(e_.source.mask) + ") in the text", false;
    return output(o_.json ? json.close(']').close('}').str() + "\n" : lines + "\n");
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
  uint32_t logit_rows() const override { return output_.pooling != 0 ? 1 : 16; }

  std::vector<double> scores(const float* row) const {
    if (output_.scores == PHASOR_SCORES_SOFTMAX) return softmax(row, output_.width);
    std::vector<double> out(row, row + output_.width);
    for (double& v : out)
      if (output_.scores == PHASOR_SCORES_SIGMOID) v = 1 / (1 + exponential(-v));
    return out;
  }
  std::string label(uint32_t index) const {
    size_t bytes = 0;
    const char* text = phasor_label(e_.model, index, &bytes);
    return text != nullptr ? std::string(text, bytes) : "class " + std::to_string(index);
  }
  // "label<TAB>score" for each class that is shown.
  void show(const float* row, std::string* line, Json* json) const {
    json->key("labels").open('[');
    for (const Scored& s : best(scores(row), output_.width)) {
      const std::string name = label(s.index);
      char number[40];
      snprintf(number, sizeof number, "\t%.6f", s.score);
      *line += (line->empty() || line->back() == '\t' ? "" : "\t") + name + number;
      json->open('{')
          .key("label")
          .text(name.data(), name.size())
          .key("score")
          .real(s.score)
          .close('}');
    }
    json->close(']');
  }
  bool answer(uint32_t sequence, const Text& text, std::string* why) override {
    Json json;
    std::string lines;
    json.open('{').key("line").number(number_);
    if (output_.pooling != 0) {
      if (!rows(sequence, 0, 1, why)) return false;
      show(phasor_logits(e_.session, 0), &lines, &json);
      return output(o_.json ? json.close('}').str() + "\n" : lines + "\n");
    }
    json.key("tokens").open('[');
    const uint32_t count = static_cast<uint32_t>(text.ids.size());
    for (uint32_t first = 0; first < count; first += e_.limits.logit_rows) {
      const uint32_t n = std::min(count - first, e_.limits.logit_rows);
      if (!rows(sequence, first, n, why)) return false;
      for (uint32_t r = 0; r < n; ++r) {
        const uint32_t id = text.ids[first + r];
        std::string line =
            std::to_string(first + r) + "\t" + std::to_string(id) + "\t" + piece(id) + "\t";
        json.open('{').key("place").number(first + r);
        piece(&json, id);
        show(phasor_logits(e_.session, r), &line, &json);
        json.close('}');
        lines += line + "\n";
      }
    }
    return output(o_.json ? json.close(']').close('}').str() + "\n" : lines + "\n");
  }
};

}  // namespace

int embed(const Options& options) { return std::make_unique<Embed>(options)->run(); }
int fill(const Options& options) { return std::make_unique<Fill>(options)->run(); }
int classify(const Options& options) { return std::make_unique<Classify>(options)->run(); }

}  // namespace cli
