// Clusters of characters (grapheme clusters; Unicode, annex 29), whose classes are in the section.
// Includes nothing but the integer types; trusts nothing.
#pragma once

#include <cstdint>

namespace phasor::pieces {

enum class Break : uint32_t {
  other,
  carriage_return,
  line_feed,
  control,
  extend,
  extend_conjunct,
  linker,
  joiner,
  spacing,
  prepend,
  leading,
  vowel,
  trailing,
  syllable,
  pictographic,
  consonant
};

// Goes over a text's characters and says where a cluster goes on. Pairs of regional indicators
// (GB12, GB13) are left out: who asks only wants clusters of less than 6 bytes.
class Clusters {
 public:
  // Takes the next character; true when it is of the cluster of the one before.
  bool next(uint32_t code, Break of) {
    // A syllable goes on like its last part.
    const Break ends = of != Break::syllable       ? of
                       : (code - 0xAC00) % 28 == 0 ? Break::vowel
                                                   : Break::trailing;
    const bool joins = joined(of);
    if (!joins) picture_ = conjunct_ = 0;
    picture_ = of == Break::pictographic              ? 1
               : picture_ == 1 && extends(of)         ? 1
               : picture_ == 1 && of == Break::joiner ? 2
                                                      : 0;
    conjunct_ = of == Break::consonant                                ? 1
                : conjunct_ != 0 && of == Break::linker               ? 2
                : of == Break::extend_conjunct || of == Break::joiner ? conjunct_
                                                                      : 0;
    before_ = ends;
    return joins;
  }

 private:
  static bool extends(Break of) {
    return of == Break::extend || of == Break::extend_conjunct || of == Break::linker;
  }
  static bool controls(Break of) {
    return of == Break::control || of == Break::carriage_return || of == Break::line_feed;
  }

  bool joined(Break of) const {
    // GB3
    if (before_ == Break::carriage_return && of == Break::line_feed) return true;
    // GB4, GB5
    if (controls(before_) || controls(of)) return false;
    // GB6
    if (before_ == Break::leading &&
        (of == Break::leading || of == Break::vowel || of == Break::syllable))
      return true;
    // GB7
    if (before_ == Break::vowel && (of == Break::vowel || of == Break::trailing)) return true;
    // GB8
    if (before_ == Break::trailing && of == Break::trailing) return true;
    // GB9, GB9a
    if (extends(of) || of == Break::joiner || of == Break::spacing) return true;
    // GB9b
    if (before_ == Break::prepend) return true;
    // GB9c, GB11
    return (conjunct_ == 2 && of == Break::consonant) ||
           (picture_ == 2 && of == Break::pictographic);
  }

  Break before_ = Break::control;  // the text's start (GB1)
  uint32_t picture_ = 0;           // 1 a picture and what extends it, 2 and a joiner
  uint32_t conjunct_ = 0;          // 1 a consonant and what extends it, 2 and a linker among that
};

}  // namespace phasor::pieces
