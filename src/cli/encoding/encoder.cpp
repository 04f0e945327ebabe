#include "encoder.h"

#include <unistd.h>

#include "../engine/exponential.h"

namespace cli {
namespace {

// texts that are encoded in one call, tokens that share a product
constexpr uint32_t kBatch = 32, kBatchTokens = 256;

// What is left of two texts of more than `budget` tokens, as Hugging Face's tokenizers package cuts
// them, the longest first: of an odd budget the longer text has the token more, of two equal ones
// the second.
void cut(size_t budget, size_t* first, size_t* second) {
  size_t* const shorter = *first > *second ? second : first;
  size_t* const longer = shorter == first ? second : first;
  *shorter = std::min(*shorter, budget / 2);
  *longer = budget - *shorter;
}

int not_one_line() {
  return data_error("--logits, --hidden and --attention: expected exactly one line of input");
}

}  // namespace

int Encoder::run() {
  if (!e_.open(o_.model, o_)) return 1;
  output_ = output_of(e_.model);
  if (const int wrong = e_.fit(o_)) return wrong;
  if (e_.stack == PHASOR_ENCODER_DECODER && o_.arrays())
    return usage_error("%s: this model is an encoder-decoder", kArrays);
  if (const char* why = refusal()) return data_error("%s: %s", e_.path, why);
  if (const int wrong = check_vectors()) return wrong;
  if (o_.segments.given && (!o_.ids.given || o_.ids.from_input))
    return usage_error("--segments: goes with one list of --ids");
  if (o_.prompt != nullptr && o_.prompt_text != nullptr)
    return usage_error("--prompt: expected either --prompt or --prompt-text, not both");
  if (is_pair()) find_template();
  if (joined_ && o_.truncate)
    return usage_error("--truncate: the model reads two texts in a template, which is not cut");
  if (!find_prompt() || !capture_.open(o_) || !start() || !prepare()) return 1;
  Inputs inputs(o_, false, LineReader::kLongest - min(prompt_.size(), LineReader::kLongest),
                o_.embeddings.given);
  for (size_t i = 0; e_.going_on() && i < given_.sequences(); ++i) {
    batch_.emplace_back();
    (void)read(i, &batch_.back());
    if (batch_.size() == e_.limits.sequences) encode();
  }
  // What is there is answered before the next line is waited for.
  for (Input input; o_.embeddings == nullptr && e_.going_on() && inputs.next(&input);) {
    batch_.emplace_back();
    (void)read(input, &batch_.back());
    if (batch_.size() == e_.limits.sequences || !inputs.ready()) encode();
  }
  encode();
  if (inputs.failed() || !e_.going_on() || !finish()) return 1;
  if (capture_.wanted() && !captured_) return status_ != 0 ? 1 : not_one_line();
  if (!capture_.commit() || !commit()) return 1;
  if (status_ == 0 && !o_.quiet) print_figures(e_, "text", number_, tokens_, seconds_);
  return status_;
}

bool Encoder::decodes() const {
  return e_.stack == PHASOR_ENCODER_DECODER && output_.output == PHASOR_OUTPUT_CLASSES;
}

bool Encoder::classes(uint32_t sequence, const TokenIds& ids, string* why) {
  if (!decodes()) return rows(sequence, 0, 1, why);
  size_t last = ids.size();
  while (last != 0 && !has(e_.source.end, e_.source.end_count, ids[last - 1])) --last;
  if (last == 0) return *why = "no end token, at which the classes are read", false;
  TokenIds read{e_.start_id()};
  read.insert(read.end(), ids.begin(), ids.begin() + static_cast<ptrdiff_t>(last - 1));
  phasor_item item = item_of(read.data(), read.size(), PHASOR_LOGITS_LAST);
  item.sequence = sequence;
  if (!e_.done(phasor_step(e_.session, &item, 1, &e_.error), why)) return false;
  if (all_finite(phasor_logits(e_.session, 0), output_.width)) return true;
  return *why = "a class is not a number", false;
}

string Encoder::piece(uint32_t id) const { return shown_piece(e_, PHASOR_SOURCE, id); }

string Encoder::label(uint32_t index) const { return label_of(e_.model, index); }

bool Encoder::places(const Text& text, size_t* first, vector<Span>* spans, string* why) const {
  *first = text.ids.size() - e_.source.suffix_count - text.last;
  TokenIds ids;
  if (!text_offsets(e_, PHASOR_SOURCE, false, text.given, &ids, spans, why)) return false;
  if (ids.size() < text.last)
    return *why = "the text has tokens that are not its own, which have no place in it", false;
  spans->resize(text.last);  // what a text is cut to
  for (Span& s : *spans) {
    while (s.begin < s.end && text.given[s.begin] == ' ') ++s.begin;
    while (s.end > s.begin && text.given[s.end - 1] == ' ') --s.end;
  }
  return true;
}

bool Encoder::rows(uint32_t sequence, uint32_t first, uint32_t count, string* why) {
  if (!e_.done(phasor_encoder_output(e_.session, sequence, first, count, &e_.error), why))
    return false;
  for (uint32_t row = 0; row < count; ++row)
    if (!all_finite(phasor_logits(e_.session, row), output_.width))
      return *why = "a logit is not a number", false;
  return true;
}

vector<Scored> Encoder::best(const vector<double>& scores, size_t most) const {
  vector<Scored> all;
  for (const double score : scores) all.push_back({count_of(all), score});
  std::sort(all.begin(), all.end(), [](const Scored& a, const Scored& b) {
    return a.score != b.score ? a.score > b.score : a.index < b.index;
  });
  all.resize(min(all.size(), o_.top != 0 ? size_t{o_.top} : most));
  return all;
}

bool Encoder::print(const string& text, const Json& json) const {
  return output((o_.json ? json.str() : text) + "\n");
}

bool Encoder::find_prompt() {
  if (tab_ != string::npos) return true;
  if (o_.prompt_text != nullptr) return prompt_ = o_.prompt_text, true;
  string why;
  return cli::find_prompt(e_.model, o_.prompt, &prompt_, &why) ||
         (data_error("%s: %s", e_.path, why.c_str()), false);
}

void Encoder::find_template() {
  for (const auto& [name, whole] : prompts_of(e_.model)) {
    if (name != "pair" || joined_) continue;
    const string places[] = {"{query}", "{document}"};
    const size_t first = whole.find(places[0]), after = first + places[0].size();
    const size_t second = first == string::npos ? first : whole.find(places[1], after);
    if (second == string::npos) continue;
    around_[0] = whole.substr(0, first);
    around_[1] = whole.substr(after, second - after);
    around_[2] = whole.substr(second + places[1].size());
    joined_ = true;
  }
}

bool Encoder::join(const string& texts, string* out, string* why) const {
  size_t tab = 0;
  if (!split_pair(texts, tab_, &tab, why)) return false;
  *out = around_[0] + texts.substr(0, tab) + around_[1] + texts.substr(tab + 1) + around_[2];
  return true;
}

uint32_t Encoder::longest_text() const {
  const vector<uint32_t> said = numbers_of(e_, "source.longest_text");
  return said.empty() ? 0 : said[0];
}

int Encoder::check_vectors() const {
  if (o_.embeddings == nullptr)
    return vector_width(e_) != 0
               ? data_error("%s: reads vectors and no text. TRY: --embeddings FILE", e_.path)
               : 0;
  const char* flag = !o_.texts.empty() ? "a text"
                                       : first_given(o_.ids, o_.segments, o_.pair, o_.truncate,
                                                     o_.prompt, o_.prompt_text);
  return flag != nullptr ? usage_error("%s: does not go with --embeddings", flag) : 0;
}

bool Encoder::start() {
  if (o_.embeddings != nullptr && !given_.read(e_, o_.embeddings)) return false;
  phasor_limits limits = default_limits(e_, o_);
  const uint32_t longest = o_.truncate && o_.source == 0 ? longest_text() : 0;
  if (longest != 0 && (longest < limits.source || e_.source.max_positions == 0))
    limits.source = min(longest, kMostByDefault);
  make_room_for_ids(&limits, e_, o_, o_.embeddings != nullptr ? given_.places() : o_.ids.values);
  const bool terminal = !o_.ids.given && o_.texts.empty() && isatty(0) != 0;
  limits.sequences = o_.batch != 0 ? o_.batch : terminal ? 1 : kBatch;
  if (capture_.wanted() || decodes() || asks()) limits.sequences = 1;
  if (decodes()) {
    const uint32_t most = e_.target.max_positions;
    limits.target = most != 0 ? min(limits.source, most) : limits.source;
  }
  if (!o_.texts.empty()) limits.sequences = min(limits.sequences, count_of(o_.texts));
  if (given_.sequences() != 0)
    limits.sequences = uint32_t(min<size_t>(limits.sequences, given_.sequences()));
  limits.chunk = uint32_t(min<uint64_t>(uint64_t{limits.sequences} * limits.source, kBatchTokens));
  limits.logit_rows = logit_rows();
  size_t more = prompt_.size();
  for (const string& part : around_) more += part.size();
  make_text_room(&limits, longest_argument(o_) + more + longest_question());
  if (wants_places()) limits.outputs |= PHASOR_WANT_OFFSETS;
  if (capture_.wants_attention()) limits.outputs |= PHASOR_WANT_ATTENTION;
  return e_.start(limits);
}

bool Encoder::read(const Input& input, Text* text) {
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
  if (count > most())
    *why = no_room(count, most(),
                   most() < e_.limits.source
                       ? "--truncate cuts"
                       : more_room(e_, PHASOR_SOURCE,
                                   input.is_ids || asks() || joined_ ? "" : "--truncate cuts"));
  return why->empty();
}

bool Encoder::read(size_t sequence, Text* text) {
  text->where = format("%s: sequence %zu", o_.embeddings.value, sequence);
  text->ids = given_.places();
  if (text->ids.size() > most())
    return text->error = no_room(text->ids.size(), most(), more_room(e_, PHASOR_SOURCE, "")), false;
  text->vectors = given_.rows(sequence);
  return true;
}

void Encoder::drop_padding(Text* text) const {
  if (output_.output != PHASOR_OUTPUT_CLASSES || output_.pooling != PHASOR_POOL_LAST) return;
  const bool both = text->segments.size() == text->ids.size();
  while (text->ids.size() > 1 && text->ids.back() == e_.source.pad) text->ids.pop_back();
  if (both) text->segments.resize(text->ids.size());
}

bool Encoder::read_text(const string& input, Text* text) {
  size_t first = 0;
  string whole;
  if (joined_)
    return join(input, &whole, &text->error) && e_.hold_text(whole.size(), &text->error) &&
           text_ids(e_, PHASOR_SOURCE, true, whole, &text->ids, &text->error);
  if (!e_.hold_text(input.size(), &text->error)) return false;
  if (!(is_pair() ? pair_ids(e_, PHASOR_SOURCE, input, tab_, &text->ids, &text->segments, &first,
                             &text->error)
                  : text_ids(e_, PHASOR_SOURCE, true, input, &text->ids, &text->error)))
    return false;
  if (marker_ != PHASOR_NONE)
    text->ids.insert(text->ids.begin() + (text->ids.empty() ? 0 : 1), marker_);
  const size_t count = text->ids.size(), of_texts = count - min(count, around());
  if (!is_pair()) first = of_texts;
  text->last = is_pair() ? of_texts - first : first;
  if (o_.truncate && count > most()) shorten(text, first, of_texts - first);
  return true;
}

size_t Encoder::around() const {
  size_t count = before() + e_.source.suffix_count;
  if (is_pair())
    (void)phasor_pair_to_ids(e_.session, PHASOR_SOURCE, nullptr, nullptr, 0, &count, "", 0, "", 0,
                             nullptr);
  return count;
}

void Encoder::shorten(Text* text, size_t first_count, size_t second_count) const {
  const size_t count = text->ids.size(), begin = before(),
               end = count - min<size_t>(count, e_.source.suffix_count);
  size_t first = first_count, second = second_count;
  cut(most() - std::min<size_t>(most(), count - first - second), &first, &second);
  const size_t second_begin = end - second_count;
  for (TokenIds* list : {&text->ids, &text->segments}) {
    if (list->empty()) continue;
    uint32_t* at = list->data();
    TokenIds kept(at, at + begin + first);
    kept.insert(kept.end(), at + begin + first_count, at + second_begin + second);
    kept.insert(kept.end(), at + end, at + count);
    *list = kept;
  }
  text->last = is_pair() ? second : first;
}

void Encoder::encode() {
  vector<phasor_item> items;
  for (uint32_t i = 0; i < batch_.size(); ++i) {
    const Text& text = batch_[i];
    if (!text.error.empty()) continue;
    phasor_item item = item_of(text.ids.data(), text.ids.size(), PHASOR_LOGITS_NONE);
    item.sequence = i;
    if (!text.segments.empty()) item.segments = text.segments.data();
    if (!text.vectors.empty()) item.embeddings = text.vectors.data();
    if (!asks()) items.push_back(item);
  }
  const double begin = now();
  if (phasor_encode(e_.session, items.data(), count_of(items), &e_.error) ==
      PHASOR_BAD_INPUT) {  // one of them: find out which
    const auto is_bad = [this](const phasor_item& item) {
      string* why = &batch_[item.sequence].error;
      if (phasor_encode(e_.session, &item, 1, &e_.error) == PHASOR_BAD_INPUT) *why = e_.said();
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

bool Encoder::capture(const Text& t) {
  if (!capture_.wanted()) return true;
  if (!output_flush() || !e_.file.unchanged()) return false;  // the files stay as they were
  captured_ = false;
  if (number_ != 1) return not_one_line(), false;
  e_.states = t.vectors;
  if (!t.vectors.empty()) e_.places = t.ids;
  const uint32_t has = output_.output;
  const bool rows = has == PHASOR_OUTPUT_LOGITS || has == PHASOR_OUTPUT_CLASSES;
  captured_ = capture_.replay_encoder(e_, t.ids, t.segments, rows ? output_ : phasor_output{});
  return captured_;
}

const char* no_encoder(const phasor_model* model) {
  const uint32_t stack = phasor_model_stack(model);
  return stack == PHASOR_ENCODER   ? nullptr
         : stack == PHASOR_DECODER ? "is a decoder, expected an encoder"
                                   : "is an encoder-decoder, expected an encoder";
}

string label_of(const phasor_model* model, uint32_t index) {
  size_t bytes = 0;
  const char* text = phasor_label(model, index, &bytes);
  return text != nullptr ? string(text, bytes) : format("class %u", index);
}

// How many characters a text has before byte `at`.
static size_t characters(const string& text, size_t at) {
  return size_t(std::count_if(text.begin(), text.begin() + ptrdiff_t(at),
                              [](char byte) { return (byte & 0xC0) != 0x80; }));
}

string stretch(const string& text, const Span& s, Json* json) {
  const size_t begin = characters(text, s.begin), end = characters(text, s.end);
  return positions(begin, end, text.substr(s.begin, s.end - s.begin), json);
}

string positions(size_t begin, size_t end, const string& text, Json* json) {
  json->open('{').add("start", begin).add("end", end).add("text", text);
  return format("%zu\t%zu\t", begin, end) + text;
}

vector<double> softmax(const float* row, uint32_t width) {
  const double largest = *std::max_element(row, row + width);
  double sum = 0;
  vector<double> out(row, row + width);
  for (double& value : out) sum += value = exponential(value - largest);
  for (double& value : out) value /= sum;
  return out;
}

vector<double> class_scores(const phasor_output& output, const float* row) {
  if (output.scores == PHASOR_SCORES_SOFTMAX) return softmax(row, output.width);
  vector<double> out(row, row + output.width);
  for (double& value : out)
    if (output.scores == PHASOR_SCORES_SIGMOID) value = 1 / (1 + exponential(-value));
  return out;
}

}  // namespace cli
