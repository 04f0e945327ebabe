// text: Precompiled, SentencePiece's map as the tokenizers package applies it, to clusters of
// characters. Includes normalizer.h only; never allocates.
#pragma once
#include "chars.h"
#include "clusters.h"
#include "normalizer.h"

namespace phasor::pieces {

constexpr uint32_t kBreakBit = 4;  // of the classes: five bits, a number of enum Break

// Precompiled, given a text's characters one by one. A cluster of less than 6 bytes becomes what
// the shortest rule for its beginning says, as a whole; where there is none, and in a longer one,
// each character becomes what the rule for it says. So the package does it.
class ClusterMap {
 public:
  ClusterMap(const Tokenizer& t, Output* out) : t_(t), out_(out) {}

  // Takes the next character, c, which is `text`; a byte that is not UTF-8 is U+FFFD.
  void next(const unsigned char* text, Char c) {
    const Span here = c.code == kNoChar ? Span{kReplacement, sizeof kReplacement}
                                        : Span{text, static_cast<size_t>(c.bytes)};
    const Break of = c.code == kNoChar ? Break::control
                                       : static_cast<Break>(classes(t_, c.code) >> kBreakBit & 31);
    if (!clusters_.next(c.code, of) && begun_) end();
    begun_ = true;
    if (!longer_ && kept_ + here.bytes < kTaken) {
      std::memcpy(cluster_ + kept_, here.text, here.bytes);
      kept_ += here.bytes;
      return;
    }
    put_kept();
    longer_ = true;
    put(here);
  }

  // The text, or the cluster, ends here.
  void end() {
    Rule rule;
    if (kept_ > 0 && match_rule(t_, &rule, cluster_, kept_, true))
      give({rule.text, rule.bytes}, characters({cluster_, kept_}));
    else
      put_kept();
    kept_ = 0;
    longer_ = false;
  }
  // Where the text's beginning ends, as the package has it: what the first character has become
  // that is not nothing; of a cluster that becomes something as a whole the first character of
  // that.
  uint64_t first_end() const { return first_end_; }

 private:
  void put(Span c) {
    Rule rule;
    const bool found = match_rule(t_, &rule, c.text, c.bytes, true);
    give(found ? Span{rule.text, rule.bytes} : c, 1);
  }
  // What `of` characters have become.
  void give(Span s, uint32_t of) {
    const uint64_t begin = out_->size;
    out_->put(s);
    if (wanted(out_->origins) && !out_->full) change(s, begin, of);
    if (first_end_ != kOpen || s.bytes == 0) return;
    const size_t first = char_bytes(s.text[0]);
    first_end_ = of == 1 || first > s.bytes ? s.bytes : first;
  }
  // The changes of the characters (origins.h): each takes one of those before, and what is left of
  // either counts for the last. Before the first character there is none to count for.
  void change(Span s, uint64_t begin, uint32_t of) {
    uint32_t count = 0;
    for (size_t at = 0; at < s.bytes; ++count) {
      last_ = begin + at;
      out_->origins[last_] = count < of ? 0 : 1;
      at += char_at(s.text + at, s.bytes - at).bytes;
    }
    if (count < of && last_ != kOpen) out_->origins[last_] -= of - count;
  }
  static uint32_t characters(Span s) {
    uint32_t count = 0;
    for (size_t at = 0; at < s.bytes; ++count) at += char_at(s.text + at, s.bytes - at).bytes;
    return count;
  }
  void put_kept() {
    for (size_t at = 0; at < kept_;) {
      const size_t bytes = char_bytes(cluster_[at]);
      put({cluster_ + at, bytes});
      at += bytes;
    }
    kept_ = 0;
  }

  static constexpr size_t kTaken = 6;
  static constexpr uint64_t kOpen = ~uint64_t{0};
  const Tokenizer& t_;
  Output* out_;
  Clusters clusters_;
  unsigned char cluster_[kTaken];  // (kept_) what is open, while it is short: whole characters
  size_t kept_ = 0;
  bool begun_ = false, longer_ = false;
  uint64_t first_end_ = kOpen;
  uint64_t last_ = kOpen;  // where offsets are asked for: the last character
};

}  // namespace phasor::pieces
