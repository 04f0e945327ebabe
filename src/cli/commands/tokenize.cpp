// cli: `phasor tokenize`. Ids and pieces of texts, or texts of ids.
#include "../engine/engine.h"
#include "../io/json.h"
#include "../io/tokenizer_json.h"
#include "../options/input.h"
#include "commands.h"

namespace cli {
namespace {

struct TokenizeOptions : CommandLine, TextOptions {
  Switch decode{"--decode", "Convert ids to text. The input is lists of ids."};
  Switch offsets{"--offsets",
                 "Print where each token lies in the text too: its first character, and the one "
                 "behind it. JSON: pairs."};
  OutputFile exported{"--export FILE",
                      "Write the tokenizer as a tokenizer.json, which gives the same ids in the "
                      "`tokenizers` package. With --decode: that of the output."};
  FlagGroups flags() {
    return {group("Input", ids, decode, pair, source_lang, target_lang, prompt, prompt_text),
            group("Output", print_ids, offsets, exported, json)};
  }
};

// An arena that only tokenizes: one token of each side, room for texts of `bytes`.
bool start(Engine& e, size_t bytes, bool offsets) {
  phasor_limits limits = e.limits_for(1, 1);
  limits.chunk = 1;
  if (bytes > limits.text_bytes) limits.text_bytes = uint32_t(bytes);
  if (offsets) limits.outputs |= PHASOR_WANT_OFFSETS;
  return e.start(limits);
}

// The ids of a text with its template, and where in characters the tokens lie in it, behind the
// model's own prompt.
bool places_of(const Engine& e, uint32_t side, const string& text, TokenIds* ids,
               vector<vector<size_t>>* places, string* why) {
  const string whole = e.prompt + text;
  vector<Span> spans;
  if (!text_offsets(e, side, true, whole, ids, &spans, why)) return false;
  vector<size_t> characters(whole.size() + 1);  // up to each byte behind the prompt
  for (size_t i = e.prompt.size(); i < whole.size(); ++i)
    characters[i + 1] = characters[i] + ((whole[i] & 0xC0) != 0x80 ? 1 : 0);
  for (const Span& s : spans) places->push_back({characters[s.begin], characters[s.end]});
  return true;
}

// Prints one line for each token: "id<TAB>piece", then its place (--offsets) and its segment (of a
// pair), and an empty line after the text. With --print-ids one line of ids, with --json an object.
void print(const Engine& e, const TokenizeOptions& o, uint32_t side, uint64_t number,
           const TokenIds& ids, const TokenIds& segments, const vector<vector<size_t>>& places) {
  string out = o.print_ids ? join(ids) : "";
  vector<string> pieces;
  for (size_t i = 0; i < ids.size() && !o.print_ids; ++i) {
    pieces.push_back(shown_piece(e, side, ids[i]));
    out += format("%u\t", ids[i]) + pieces.back();
    if (i < places.size()) out += format("\t%zu\t%zu", places[i][0], places[i][1]);
    out += (i < segments.size() ? format("\t%u", segments[i]) : "") + "\n";
  }
  if (!o.json) {
    output(out + "\n");
    return;
  }
  Json json;
  json.open('{').add("line", number).add("ids", ids);
  if (!o.print_ids) json.add("pieces", pieces);
  if (!places.empty()) json.add("offsets", places);
  if (!segments.empty()) json.add("segments", segments);
  output(json.close('}').str() + "\n");
}

bool decode(const Engine& e, uint32_t side, const Input& input, string* out, string* why) {
  TokenIds ids = input.ids;
  if (!input.is_ids && !parse_ids(input.text.c_str(), &ids))
    return *why = "expected token ids separated by commas, such as 1,2,3", false;
  if (!known_ids(ids, e.side_of(side), why)) return false;
  *out = text_of(e, side, ids);
  return true;
}

// Kinds of section (file-format.md): that of a tokenizer and the text that goes with it.
constexpr uint32_t kFirstTokenizer = 3, kFirstExport = 10;

// --export: the tokenizer of a side as a file.
int write_json(const Engine& e, const TokenizeOptions& o, uint32_t side) {
  const char* other =
      first_given(o.pair, o.ids, o.source_lang, o.target_lang, o.prompt, o.prompt_text, o.print_ids,
                  o.offsets, o.json);
  if (other != nullptr) return usage_error("--export: does not go with %s", other);
  if (!o.texts.empty()) return usage_error("--export: expected no text");
  const string name = side == PHASOR_SOURCE ? "source." : "target.";
  const vector<uint32_t> kind = numbers_of(e, name + "tokenizer");
  const vector<uint32_t> segment = numbers_of(e, name + "pair_segment");
  const phasor_side& of = e.side_of(side);
  TokenizerParts parts{};
  parts.section = e.file.section(kind.empty() ? 0 : kind[0], &parts.section_bytes);
  const uint32_t beside = kind.empty() ? 0 : kind[0] - kFirstTokenizer + kFirstExport;
  parts.text = reinterpret_cast<const char*>(e.file.section(beside, &parts.text_bytes));
  if (parts.text_bytes == 0)
    return data_error(
        "%s: --export: the file does not have what a tokenizer.json needs beside the vocabulary: "
        "the tokenizer was none that the tokenizers package can read, or the file was converted "
        "before there was --export (convert it again)",
        e.path);
  parts.prefix.assign(of.prefix, of.prefix + of.prefix_count);
  parts.suffix.assign(of.suffix, of.suffix + of.suffix_count);
  parts.between = numbers_of(e, name + "pair");
  parts.pair_segment = segment.empty() ? 0 : segment[0];
  string text, why;
  if (!tokenizer_json(parts, &text, &why)) return data_error("%s: %s", e.path, why.c_str());
  NewFile file;
  return file.open(o.exported) && file.write(text.data(), text.size()) && file.finish() &&
                 e.file.unchanged() && file.commit()
             ? 0
             : 1;
}

int tokenize(const TokenizeOptions& o) {
  Engine e;
  if (!e.open(o.model, {}, Load::map)) return 1;
  if (o.ids.given && !o.decode) return usage_error("--ids: expected --decode with it");
  const char* other =
      first_given(o.pair, o.decode, o.ids, o.source_lang, o.target_lang, o.print_ids);
  if (o.offsets && other != nullptr) return usage_error("--offsets: does not go with %s", other);
  if (const int status = e.choose(o, first_given(o.pair, o.decode, o.ids))) return status;
  // Text is read as the model reads it; ids are decoded as the model's output is.
  uint32_t side = e.input_side();
  if (o.decode) side = e.has_target() ? PHASOR_TARGET : PHASOR_SOURCE;
  if (!e.side_of(side).has_tokenizer)
    return data_error("%s: has no tokenizer on its %s side", e.path,
                      side == PHASOR_SOURCE ? "source" : "target");
  if (o.exported.given) return write_json(e, o, side);
  if (!start(e, longest_argument(o), o.offsets)) return 1;
  Inputs inputs(o, false, LineReader::kLongest);
  int status = 0;
  uint64_t number = 0;
  for (Input input; !output_failed() && inputs.next(&input);) {
    string error = input.error, text;
    TokenIds ids, segments;
    vector<vector<size_t>> places;
    size_t first = 0;
    bool ok = error.empty();
    ++number;
    if (o.decode) {
      ok = ok && decode(e, side, input, &text, &error);
    } else {
      ok = ok && e.hold_text(e.prompt.size() + input.text.size(), &error);
      ok = ok &&
           (o.offsets ? places_of(e, side, input.text, &ids, &places, &error)
            : o.pair ? pair_ids(e, side, input.text, string::npos, &ids, &segments, &first, &error)
                   : text_ids(e, side, true, input.text, &ids, &error));
    }
    if (!ok)
      status = bad_line(e, o, input.where, number, error);
    else if (!o.decode)
      print(e, o, side, number, ids, segments, places);
    else if (o.json)
      output(Json().open('{').add("line", number).add("text", text).close('}').str() + "\n");
    else
      output(text + "\n");
    output_flush();
  }
  return inputs.failed() ? 1 : status;
}

}  // namespace

const Command tokenize_command = command<TokenizeOptions, tokenize>(
    "tokenize", "MODEL [TEXT...]", "convert texts to token ids, or back",
    "Prints the ids and pieces of each TEXT, or of each line of standard input, including the "
    "tokens that the model adds. With --offsets, where each lies in the text.",
    "phasor tokenize model.phasor \"A cat sits on the mat.\"\n"
    "phasor tokenize model.phasor --print-ids < lines.txt\n"
    "phasor tokenize model.phasor --export tokenizer.json");

}  // namespace cli
