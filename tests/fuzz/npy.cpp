// Arrays in NumPy's format: a stranger's bytes are refused with a reason or are as many values as
// their shape says; what the program writes is what it reads.
#include "cli/io/npy.h"

#include <algorithm>

#include "support.h"

namespace fuzz {
namespace {

void read_any(const uint8_t* data, size_t size) {
  const Block exact(data, size);
  std::vector<float> values;
  const char* why = nullptr;
  if (!cli::parse_npy(exact.as<char>(), size, &values, &why)) {
    demand(why != nullptr, "an array is refused without a reason");
    return demand_line(why, 160);
  }
  demand(values.size() * sizeof(float) < size, "more values than bytes");
  look_at(values.data(), values.size());
}

void read_lines(const uint8_t* data, size_t size) {
  const Block exact(data, size);
  std::vector<float> values;
  std::vector<size_t> shape;
  const char* why = nullptr;
  size_t line = 0;
  if (!cli::parse_rows(exact.as<char>(), size, &values, &shape, &why, &line)) {
    demand(why != nullptr && line >= 1 && line <= std::max(size, size_t{1}),
           "lines are refused without a reason");
    return demand_line(why, 160);
  }
  demand(shape.size() == 2 && shape[0] * shape[1] == values.size() && values.size() <= size,
         "more values than bytes");
  look_at(values.data(), values.size());
}

void read_own(Choices* c) {
  std::vector<uint64_t> shape(c->below(5));
  size_t count = 1;
  for (uint64_t& n : shape) {
    n = c->below(7);
    count *= static_cast<size_t>(n);
  }
  std::vector<float> values(count), again;
  for (float& value : values) value = any_float(c);
  std::string file = cli::npy_header(shape);
  demand(file.size() % 64 == 0, "an array whose values are not aligned");
  file.append(reinterpret_cast<const char*>(values.data()), count * sizeof(float));
  const char* why = nullptr;
  demand(cli::parse_npy(file.data(), file.size(), &again, &why), "an own array is refused");
  demand(again.size() == count &&
             (count == 0 || std::memcmp(values.data(), again.data(), count * sizeof(float)) == 0),
         "an own array is read as another one");
}

}  // namespace

void run_npy(const uint8_t* data, size_t size) {
  if (size == 0) return;
  read_any(data + 1, size - 1);
  read_lines(data + 1, size - 1);
  if (data[0] % 4 != 0) return;
  Choices choices(data + 1, size - 1);
  read_own(&choices);
}

}  // namespace fuzz
