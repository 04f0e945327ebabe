// The metadata that a generator puts together: a value for each key, by the names of the engine's
// own table of fields, in the bytes of docs/reference/file-format.md.
#pragma once
#include <map>

#include "bytes.h"
#include "choices.h"
#include "format/descriptor.h"

namespace generator {

// The value of one key; its field says which of these it has.
struct Value {
  uint32_t number = 0;
  float real = 0;
  std::vector<uint32_t> ids;
  std::string text;
};

// The keys of one scope. What is neither set nor left out is filled in by `fill`.
class Group {
 public:
  Group(uint32_t scope, uint32_t index = 0) : scope_(scope), index_(index) {}

  // The same keys for another index.
  Group copy(uint32_t index) const {
    Group other = *this;
    other.index_ = index;
    return other;
  }
  void set(const char* name, uint32_t number) { values_[&field(name)] = {number, 0, {}, {}}; }
  void set_real(const char* name, float real) { values_[&field(name)] = {0, real, {}, {}}; }
  void set_ids(const char* name, const std::vector<uint32_t>& ids) {
    values_[&field(name)] = {0, 0, ids, {}};
  }
  void set_text(const char* name, const std::string& text) {
    values_[&field(name)] = {0, 0, {}, text};
  }
  // The file is not to have it.
  void leave_out(std::initializer_list<const char*> names) {
    for (const char* name : names) {
      values_.erase(&field(name));
      left_out_[&field(name)] = true;
    }
  }
  // Numbers that nothing has set: now and then 0, which says what their absence does.
  void zero_or_absent(Choices* choices, std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (!has(name) && choices->chance(15)) set(name, 0);
  }
  bool has(const char* name) const { return values_.count(&field(name)) != 0; }
  // Its number, or `otherwise` where the file does not have it.
  uint32_t number(const char* name, uint32_t otherwise = 0) const {
    const auto found = values_.find(&field(name));
    return found == values_.end() ? otherwise : found->second.number;
  }

  // Any value for these, where nothing has set one.
  void choose(Choices* choices, std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (!has(name)) values_[&field(name)] = any(field(name), choices);
  }
  // A value for every key that is still open, from the field's own choices or from the candidates.
  void fill(Choices* choices);

  // The keys in their order, at the end of a META section.
  void write(Bytes* to, Choices* choices) const;

 private:
  const phasor::Field& field(const char* name) const;
  Value any(const phasor::Field& f, Choices* choices) const;

  uint32_t scope_, index_;
  std::map<const phasor::Field*, Value> values_;
  std::map<const phasor::Field*, bool> left_out_;
};

// A line of text for people: letters, signs, nothing at all.
std::string any_text(Choices* choices);

}  // namespace generator
