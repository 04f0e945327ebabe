// cli: the record of a file: where its weights come from, and how far its outputs are from the
// source's.
#pragma once

#include "probe.h"

namespace cli {

class Json;

// False: the file has none.
bool record_of(const Engine& e, phasor_record* record);
// The divergence of the model's outputs from those of the source that the record has. The engine is
// started, with room for the test vectors.
bool measure_record(Engine* e, const phasor_record& record, float* divergence);
// Adds a word to a method, as tools/phasor/format/record.py has them.
void add_method(string* method, const char* word);
// Lines for people: the source, the method, what it was chosen by, and the divergence.
string record_lines(const Engine& e, const phasor_record& record);
void add_record(Json* json, const phasor_record& record);

}  // namespace cli
