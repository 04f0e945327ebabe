#include "align.h"

#include <stdlib.h>
#include <string.h>

namespace cli {
namespace {

constexpr uint32_t kMostHeads = 4096;  // that --align-heads may name

// "layer:head,…"; false when it is not that.
bool parse_heads(const char* text, vector<pair<uint32_t, uint32_t>>* heads) {
  for (;;) {
    uint32_t numbers[2] = {0, 0};
    for (uint32_t& number : numbers) {
      const size_t digits = strspn(text, "0123456789");
      if (digits == 0 || digits > 5) return false;
      number = uint32_t(strtoul(text, nullptr, 10));
      text += digits;
      if (&number == numbers && *text++ != ':') return false;
    }
    heads->emplace_back(numbers[0], numbers[1]);
    if (*text == 0) return heads->size() <= kMostHeads;
    if (*text++ != ',') return false;
  }
}

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

int Aligner::check_flags() {
  const char* const heads = o_.align_heads;
  if (!wanted()) return heads != nullptr ? usage_error("--align-heads: needs --align") : 0;
  if (heads != nullptr && !parse_heads(heads, &heads_))
    return usage_error(
        "--align-heads %s: expected layer:head pairs separated by commas, such as 2:0,2:3", heads);
  const char* flag = o_.arrays() ? kArrays : o_.split.given;
  return flag != nullptr ? usage_error("%s: does not go with --align", flag) : 0;
}

int Aligner::check() {
  if (!wanted()) return 0;
  if (e_.stack != PHASOR_ENCODER_DECODER)
    return usage_error("--align: for an encoder-decoder; this model is a decoder");
  if (o_.align == 0 && (!e_.source.has_tokenizer || !e_.target.has_tokenizer))
    return usage_error(
        "--align: words need a tokenizer for source and target, the model has none; expected "
        "--align=pieces");
  sort_unique(&heads_);
  // pairs (kind, weights) of the decoder's layers
  const vector<uint32_t> layers = numbers_of(e_, "decoder.layers");
  for (const auto& one : heads_) {
    if (one.first >= e_.target.layers)
      return usage_error("--align-heads %u:%u: the decoder has %u layer%s, counted from 0",
                         one.first, one.second, e_.target.layers, plural(e_.target.layers));
    if (layers.size() <= 2 * size_t{one.first}) continue;  // a list that was cut: `align` sees
    const string kind = "kind" + to_string(layers[2 * size_t{one.first}]);
    vector<uint32_t> heads = numbers_of(e_, kind + ".cross_heads");
    if (heads.empty()) heads = numbers_of(e_, kind + ".heads");  // what it is where it is not said
    if (!heads.empty() && one.second >= heads[0])
      return usage_error("--align-heads %u:%u: layer %u has %u head%s, counted from 0", one.first,
                         one.second, one.first, heads[0], plural(heads[0]));
  }
  return 0;
}

void Aligner::see(void* self, const phasor_view* view) {
  if (view->what == PHASOR_SEE_CROSS_ATTENTION) static_cast<Aligner*>(self)->add(*view);
}

void Aligner::add(const phasor_view& view) {
  for (uint32_t head = 0; head < view.heads; ++head) {
    const pair<uint32_t, uint32_t> one(view.layer, head);
    if (!heads_.empty() && std::find(heads_.begin(), heads_.end(), one) == heads_.end()) continue;
    if (view.position == 0) ++found_;
    for (size_t row = 0; row < view.rows; ++row)
      for (size_t key = 0; key < view.cols; ++key)
        weights_[(view.position + row) * keys_ + key] +=
            double(view.data[head * view.head_stride + row * view.stride + key]);
  }
}

bool Aligner::is_special(uint32_t side, uint32_t id) const {
  const phasor_side& s = e_.side_of(side);
  const uint32_t ids[] = {s.pad, s.start, s.decoder_start};
  if (has(ids, 3, id) || has(s.end, s.end_count, id) || has(s.prefix, s.prefix_count, id) ||
      has(s.suffix, s.suffix_count, id))
    return true;
  if (!s.has_tokenizer) return false;
  return text_of(e_, side, {id}).empty() &&
         piece_text(e_, side, id) != "\xE2\x96\x81";  // a space at the start
}

vector<Aligner::Unit> Aligner::units_of(uint32_t side, const TokenIds& ids,
                                        vector<string>* units) const {
  const bool pieces = o_.align == 1, named = e_.side_of(side).has_tokenizer != 0;
  vector<Unit> out(ids.size());
  Detokenizer text(e_, side);
  bool inside = false;  // a word that may go on
  size_t first = 0;     // token since which nothing but spaces has come
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool special = is_special(side, ids[i]);
    if (pieces) {
      out[i] = {!special, uint32_t(i), uint32_t(i)};
      units->push_back(named ? piece_text(e_, side, ids[i]) : to_string(ids[i]));
      continue;
    }
    string more = text.add(ids[i]);
    if (i + 1 == ids.size()) more += text.end();
    if (special) {
      inside = inside && !more.empty() && !is_space(more[0]);
      first = i + 1;
      continue;
    }
    size_t at = 0;
    while (at < more.size() && is_space(more[at])) ++at;
    if (at != 0) inside = false;
    if (at == more.size()) continue;  // nothing yet: it goes with what comes next
    if (!inside) units->emplace_back();
    const uint32_t word = count_of(*units) - 1;
    for (; first <= i; ++first) out[first] = {true, word, word};
    for (inside = true; at < more.size(); ++at) {
      const bool space = is_space(more[at]);
      if (!space && !inside) units->emplace_back();
      inside = !space;
      if (!space) units->back() += more[at];
    }
    out[i].last = count_of(*units) - 1;
  }
  return out;
}

bool Aligner::align(uint32_t sequence, bool encoded, const TokenIds& source,
                    vector<Output>* outputs, string* why) {
  for (Output& one : *outputs) {
    if (!look(sequence, encoded, source, one.ids, why)) return false;
    encoded = encoded || !one.ids.empty();
    add_pairs(source, &one);
  }
  (void)phasor_sequence_clear(e_.session, sequence);
  return true;
}

bool Aligner::look(uint32_t sequence, bool encoded, const TokenIds& source, const TokenIds& ids,
                   string* why) {
  keys_ = source.size();
  found_ = 0;
  weights_.assign(ids.size() * keys_, 0);
  if (ids.empty()) return true;
  TokenIds read{e_.start_id()};
  read.insert(read.end(), ids.begin(), ids.end() - 1);
  phasor_item item = item_of(source.data(), source.size(), PHASOR_LOGITS_NONE);
  item.sequence = sequence;
  phasor_status status = PHASOR_OK;
  // a source stays where the output is forgotten, but for layers that have let go of its beginning
  if (!encoded || phasor_sequence_truncate(e_.session, sequence, 0) != PHASOR_OK)
    status = phasor_encode(e_.session, &item, 1, &e_.error);
  if (status == PHASOR_OK) {
    item = item_of(read.data(), read.size(), PHASOR_LOGITS_NONE);
    item.sequence = sequence;
    e_.observe(&see, this);
    status = phasor_step(e_.session, &item, 1, &e_.error);
    e_.observe(nullptr, nullptr);
  }
  if (!e_.done(status, why)) return false;
  if (found_ < heads_.size()) return *why = "--align-heads: no such head", false;
  return true;
}

void Aligner::add_pairs(const TokenIds& source, Output* out) const {
  Alignment& made = out->alignment;
  made = Alignment();
  const vector<Unit> from = units_of(PHASOR_SOURCE, source, &made.source),
                     to = units_of(PHASOR_TARGET, out->ids, &made.target);
  if (o_.align == 0 && out->finish == PHASOR_FINISH_STRING) {  // what a stop string cut off
    const string& text = out->text;
    size_t words = 0;
    for (size_t i = 0; i < text.size(); ++i)
      words += !is_space(text[i]) && (i == 0 || is_space(text[i - 1])) ? 1 : 0;
    made.target.resize(min(words, made.target.size()));
  }
  for (size_t t = 0; t < to.size(); ++t) {
    if (!to[t].part) continue;
    const double* row = &weights_[t * keys_];
    size_t best = keys_;
    for (size_t s = 0; s < keys_; ++s)
      if (from[s].part && (best == keys_ || row[s] > row[best])) best = s;
    if (best == keys_) continue;
    for (uint32_t s = from[best].first; s <= from[best].last; ++s)
      for (uint32_t w = to[t].first; w <= to[t].last && w < made.target.size(); ++w)
        made.pairs.emplace_back(s, w);
  }
  sort_unique(&made.pairs);
}

string pairs_text(const Alignment& a) {
  string out;
  for (const auto& pair : a.pairs)
    out += (out.empty() ? "" : " ") + to_string(pair.first) + "-" + to_string(pair.second);
  return out;
}

void add_alignment(Json* json, const Alignment& a) {
  json->open("alignment", '{').add("source", a.source).add("target", a.target).open("pairs", '[');
  for (const auto& pair : a.pairs) json->open('[').value(pair.first).value(pair.second).close(']');
  json->close(']').close('}');
}

}  // namespace cli
