#include "record.h"

#include <algorithm>

#include "../io/json.h"
#include "../io/sha256.h"

namespace cli {
namespace {

// In hexadecimal; "" where there is none.
string digest_of(const unsigned char* p) {
  const bool none = std::all_of(p, p + Digest{}.size(), [](unsigned char c) { return c == 0; });
  return none ? "" : hex(p);
}

string row(const char* name, const string& value) {
  return format("  %-13s %s\n", name, value.c_str());
}

const char* unit_of(const Engine& e) {
  return output_of(e.model).output == PHASOR_OUTPUT_LOGITS ? "nats" : "of a row's squared length";
}

string method_of(const phasor_record& r) { return {r.method, r.method_bytes}; }

}  // namespace

bool record_of(const Engine& e, phasor_record* record) {
  return phasor_record_get(e.model, record) == PHASOR_OK;
}

bool measure_record(Engine* e, const phasor_record& record, float* divergence) {
  Probe probe;
  double found = 0;
  if (!probe.read(e, nullptr, 1) || !probe.measure(e, record, &found)) return false;
  *divergence = float(found);
  return true;
}

void add_method(string* method, const char* word) {
  if ((" " + *method + " ").find(string(" ") + word + " ") != string::npos) return;
  *method = *method == "exact" ? word : *method + " " + word;
}

string record_lines(const Engine& e, const phasor_record& r) {
  const string source = digest_of(r.source), calibration = digest_of(r.calibration);
  string out = row("source", source.empty() ? "a model in memory" : "sha256 " + source) +
               row("method", method_of(r));
  if (!calibration.empty()) out += row("calibration", "sha256 " + calibration);
  return out + row("divergence", r.numerics == 0
                                     ? string("not measured")
                                     : format("%.3g %s, over %u rows of the test vectors",
                                              double{r.divergence}, unit_of(e), r.rows));
}

void add_record(Json* json, const phasor_record& r) {
  json->open("record", '{')
      .add("source", digest_of(r.source))
      .add("method", method_of(r))
      .add("calibration", digest_of(r.calibration));
  if (r.numerics != 0) json->add("divergence", r.divergence).add("rows", r.rows);
  json->close('}');
}

}  // namespace cli
