// cli: `phasor tokenize`. Ids and pieces of texts, or texts of ids.
#include <string.h>

#include "commands.h"
#include "engine.h"
#include "input.h"
#include "text.h"

namespace cli {
namespace {

// An arena that only tokenizes: one token of each side, room for texts of `bytes`.
bool start(Engine& e, size_t bytes) {
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  (void)phasor_limits_for(e.model, e.has_source() ? 1 : 0, e.has_target() ? 1 : 0, &limits);
  limits.chunk = 1;
  if (bytes > limits.text_bytes) limits.text_bytes = static_cast<uint32_t>(bytes);
  return e.start(limits);
}

// "id<TAB>piece" a token, of a pair its segment too, or the ids alone; an empty line after each
// text's tokens.
void print(const Engine& e, const Options& o, uint32_t side, const std::vector<uint32_t>& ids,
           const std::vector<uint32_t>& segments) {
  if (o.print_ids) {
    output(join(ids) + "\n");
    return;
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    output(std::to_string(ids[i]) + "\t" + piece_text(e, side, ids[i]) +
           (i < segments.size() ? "\t" + std::to_string(segments[i]) : "") + "\n");
  }
  output("\n", 1);
}

bool decode(const Engine& e, uint32_t side, uint32_t vocabulary, const std::vector<uint32_t>& ids,
            std::string* out, std::string* error) {
  Detokenizer text(e, side);
  for (uint32_t id : ids) {
    if (id >= vocabulary) {
      *error =
          "token id " + std::to_string(id) + ", the vocabulary has " + std::to_string(vocabulary);
      return false;
    }
    *out += text.add(id);
  }
  *out += text.end();
  return true;
}

}  // namespace

int tokenize(const Options& o) {
  Engine e;
  if (!e.open(o)) return 1;
  if (o.ids.given && !o.texts.empty())
    return usage_error("--ids: expected either ids or text, not both");
  if (o.ids.given && !o.decode) return usage_error("--ids: expected --decode with it");
  // Text is read as the model reads it; ids are decoded as the model's output is.
  const uint32_t side = o.decode ? (e.has_target() ? PHASOR_TARGET : PHASOR_SOURCE)
                                 : (e.has_source() ? PHASOR_SOURCE : PHASOR_TARGET);
  const phasor_side& s = side == PHASOR_SOURCE ? e.source : e.target;
  if (!s.has_tokenizer)
    return data_error("%s: has no tokenizer on its %s side", e.path,
                      side == PHASOR_SOURCE ? "source" : "target");
  if (!start(e, longest_argument(o))) return 1;
  Inputs inputs(o, false, LineReader::kLongest);
  int status = 0;
  for (Input input; !output_failed() && inputs.next(&input);) {
    std::string error = input.error, text;
    std::vector<uint32_t> ids = input.ids, segments;
    size_t first = 0;
    bool ok = error.empty();
    if (ok && o.decode) {
      if (!input.is_ids && !parse_ids(input.text.c_str(), &ids))
        error = "expected token ids separated by commas, such as 1,2,3", ok = false;
      ok = ok && decode(e, side, s.vocabulary, ids, &text, &error);
      output(text + "\n");
    } else {
      if (ok && input.text.size() > e.limits.text_bytes && !start(e, input.text.size())) return 1;
      ok = ok &&
           (o.pair ? pair_ids(e, side, input.text, &ids, &segments, &first, &error)
                   : text_ids(e, side, true, input.text.data(), input.text.size(), &ids, &error));
      print(e, o, side, ok ? ids : std::vector<uint32_t>(), segments);
    }
    if (!ok) status = data_error("%s: %s", input.where.c_str(), error.c_str());
    output_flush();
  }
  return inputs.failed() ? 1 : status;
}

}  // namespace cli
