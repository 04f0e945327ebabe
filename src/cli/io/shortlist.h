// cli: `phasor run --shortlist`: a file that says which target tokens the outputs of a source may
// have. CTranslate2's vmap, or Marian's lexical shortlist as text.
#pragma once
#include "text.h"

namespace cli {

// The pieces of a vocabulary; of equal ones the lowest id.
class Pieces {
 public:
  explicit Pieces(const vector<string>& by_id);
  bool find(const string& piece, uint32_t* id) const;
  uint32_t count() const { return count_; }  // ids
  bool operator==(const Pieces& other) const;

 private:
  struct Piece {
    string text;
    uint32_t id;
    bool operator<(const Piece& other) const;
  };
  vector<Piece> sorted_;
  uint32_t count_;
};

struct ShortlistShape {
  uint32_t first = 100;  // lexical: the first target ids that every source has
  uint32_t best = 100;   // lexical: translations of a source token
  bool shared = false;  // lexical: source and target have one vocabulary: a source token is one too
};

class Shortlist {
 public:
  // Reads a file's text. A line that begins with a tab, or has one, is of a vmap: source tokens
  // (an n-gram), separated by spaces, a tab, target tokens, separated by spaces; the line without
  // source tokens is of every source. Else each line is a target token, a source token and the
  // probability of the first given the second, separated by spaces. False: *why says what is wrong.
  bool parse(const char* text, size_t bytes, const Pieces& source, const Pieces& target,
             const ShortlistShape& shape, string* why);
  // These tokens are of every source.
  void always(const uint32_t* ids, size_t count);
  // Sets the bits of a source's tokens.
  void mark(const uint32_t* ids, size_t count, uint32_t* allowed, uint32_t words) const;

  uint64_t pieces() const { return pieces_; }    // that the file names
  uint64_t unknown() const { return unknown_; }  // of them, those that no vocabulary has

 private:
  bool parse_vmap(const string& line, const Pieces& source, const Pieces& target, string* why);
  bool parse_lexical(const string& line, const Pieces& source, const Pieces& target, string* why);
  void keep_best(uint32_t best);
  void sort_rules();

  struct Translation {
    uint32_t from, to;
    float probability;
    bool operator<(const Translation& other) const;
  };
  struct Rule {
    TokenIds source, target;  // an n-gram, and what it allows
    bool operator<(const Rule& other) const { return source < other.source; }
  };
  vector<Rule> rules_;  // sorted when they are all there, a source once
  vector<Translation> lexical_;
  TokenIds always_;
  size_t longest_ = 0;  // tokens of an n-gram
  uint64_t pieces_ = 0, unknown_ = 0;
  bool shared_ = false;
};

}  // namespace cli
