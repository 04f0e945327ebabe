// cli: what the commands of encoders share. Texts are read in batches, encoded together, and
// answered in their order.
#pragma once

#include "../engine/capture.h"
#include "../engine/vectors.h"
#include "../io/json.h"
#include "../options/input.h"

namespace cli {

// Without the word `outputs` among those of PHASOR_ONLY there are no commands of encoders.
#ifdef PHASOR_WITHOUT_OUTPUTS
constexpr bool kHasOutputs = false;
#else
constexpr bool kHasOutputs = true;
#endif

// What the texts of an encoder are. A command lists those that it takes.
struct EncoderOptions : CommandLine, OpenOptions, MemoryOptions, TextOptions, ArrayOptions {
  Ids segments{"--segments IDS", "Segment (token type) of each id of --ids."};
  InputFile embeddings{
      "--embeddings FILE",
      "Read vectors instead of text: (positions, values) or (sequences, positions, values) in f32 "
      "of a .npy, or a position a line in CSV or JSON lines. "
      "They replace the embedding, or are the input of a model with vector input."};
  Switch truncate{"--truncate",
                  "Cut a text that is too long, to --source or to the model's recommended length. "
                  "Default: report an error."};
  Number top{"--top N", "Print only the N best. Default: 5 for fill, 1 for answer, else all.", 1,
             1 << 20};
  template <class... Own>
  FlagGroup output(Own&... own) {
    return group("Output", own..., json, quiet);
  }
  FlagGroup memory() { return group("Memory and speed", source, batch, threads, isa, load, check); }
};

constexpr uint32_t kRows = 16;  // tokens that are labeled at once

// One text of a batch.
struct Text {
  string where, error, given;
  TokenIds ids, segments;
  vector<float> vectors;  // of --embeddings: ids are its places
  size_t last = 0;        // ids of the text, or of the second of two, without those around it
};

// One class or token with its score.
struct Scored {
  uint32_t index;
  double score;
};

// What the commands share; each answers for one encoded sequence.
class Encoder {
 public:
  explicit Encoder(const EncoderOptions& options) : o_(options) {}
  // Each text stands behind `query`, as the second of two.
  Encoder(const EncoderOptions& options, const char* query)
      : o_(options), prompt_(string(query) + "\t"), tab_(prompt_.size() - 1) {}
  int run();

 protected:
  // what the command says of this model and these flags, or NULL
  virtual const char* refusal() const { return nullptr; }
  virtual bool prepare() { return true; }
  virtual bool answer(uint32_t sequence, const Text& text, string* error) = 0;
  // A text without an answer; the exit status.
  virtual int bad(const Text& text) { return bad_line(e_, o_, text.where, number_, text.error); }
  virtual bool finish() { return true; }                 // outputs of its own
  virtual size_t longest_question() const { return 0; }  // bytes that asks() adds
  virtual bool commit() { return true; }
  virtual uint32_t logit_rows() const { return 0; }
  // answer asks where tokens lie in the text
  virtual bool wants_places() const { return false; }
  // answer encodes what it asks, and not the text alone
  virtual bool asks() const { return false; }
  // Ids that the model's makers cut a text to; 0: they say nothing.
  virtual uint32_t longest_text() const;
  // Ids that a text may have, those around it included.
  virtual size_t most() const { return e_.limits.source; }

  // whether classes come from a decoder that reads the text once more
  bool decodes() const;
  // The classes of an encoded text, for phasor_logits: of what is pooled; behind a decoder, which
  // reads the text behind its start token, those at the text's last end token.
  bool classes(uint32_t sequence, const TokenIds& ids, string* why);
  string piece(uint32_t id) const;
  string label(uint32_t index) const;
  // Of a text's own tokens, or the second's of two: the place of the first, and where all lie.
  bool places(const Text& text, size_t* first, vector<Span>* spans, string* why) const;
  // Calls `take` with each position and its row of logits.
  template <class Take>
  bool each_row(uint32_t sequence, uint32_t count, string* why, Take take) {
    for (uint32_t place = 0; place < count; ++place) {
      const uint32_t row = place % kRows;
      if (row == 0 && !rows(sequence, place, min(count - place, kRows), why)) return false;
      take(place, phasor_logits(e_.session, row));
    }
    return true;
  }
  // False: text->error says why.
  bool read(const Input& input, Text* text);
  bool read(size_t sequence, Text* text);  // of --embeddings
  // Rows of logits from `first` on, for phasor_logits.
  bool rows(uint32_t sequence, uint32_t first, uint32_t count, string* why);

  // The --top best, or `most`; best first, ties to the lowest index.
  vector<Scored> best(const vector<double>& scores, size_t most) const;

  // the answer in either form, as a line
  bool print(const string& text, const Json& json) const;

  const EncoderOptions& o_;
  Engine e_;
  phasor_output output_ = sized<phasor_output>();
  string prompt_;                  // put before each text
  size_t tab_ = string::npos;      // of a pair, where it is known
  uint32_t marker_ = PHASOR_NONE;  // the id behind a text's first one
  uint64_t number_ = 0;            // lines answered

 private:
  // The file's prompt of that name; without --prompt its first one.
  bool find_prompt();
  // The file's prompt "pair", where it has a place for each of two texts that are read in it.
  void find_template();
  // The two texts in the template, as one.
  bool join(const string& texts, string* out, string* why) const;
  // What does not go with --embeddings: 0, or the exit status.
  int check_vectors() const;
  // The session, with room for a batch.
  bool start();
  // A class of the last position is of the last one that is no padding (of the first, where all
  // are), as transformers has it for decoders; what is behind it counts for nothing.
  void drop_padding(Text* text) const;
  // A text, or with --pair two with a tab between them.
  bool read_text(const string& input, Text* text);
  bool is_pair() const { return o_.pair || tab_ != string::npos; }
  // Ids before a text.
  size_t before() const { return e_.source.prefix_count + (marker_ != PHASOR_NONE ? 1 : 0); }
  // Ids around and between the texts.
  size_t around() const;
  // Drops ids from the end of the longer text until all fit (of the second, where both are as
  // long). The ids around and between the texts stay.
  void shorten(Text* text, size_t first_count, size_t second_count) const;
  // The batch, and its answers.
  void encode();
  // What is looked at, of the one text.
  bool capture(const Text& t);

  string around_[3];  // of a template for two texts: before, between and behind them
  bool joined_ = false;
  Capture capture_;
  bool captured_ = false;  // of the one text
  vector<Text> batch_;
  Vectors given_;
  uint64_t tokens_ = 0;
  double seconds_ = 0;
  int status_ = 0;
};

// Why a model is no encoder (Command::unfit), or NULL.
const char* no_encoder(const phasor_model* model);
// The name of a class.
string label_of(const phasor_model* model, uint32_t index);

// A stretch of a text, as a line and as an object that is open still.
string stretch(const string& text, const Span& s, Json* json);
// The same of positions, with the text between them.
string positions(size_t begin, size_t end, const string& text, Json* json);

// Softmax in double, in the order of the row.
vector<double> softmax(const float* row, uint32_t width);
// What a row of classes says, as the file wants it said.
vector<double> class_scores(const phasor_output& output, const float* row);

// A command whose first text goes with each of the others; else `what` is missing.
template <class Class, class Options>
int run_query(const Options& options, const char* what) {
  if (options.texts.empty()) return usage_error("%s", what);
  Options others = options;
  others.texts.erase(others.texts.begin());
  return Class(others, options.texts[0]).run();
}

}  // namespace cli
