#include "status.h"

#include <string.h>

#include "structs.h"

namespace phasor {

size_t open_error(phasor_error* error, phasor_status status, const At& at) noexcept {
  if (error == nullptr || !known_size<phasor_error>(error->struct_size)) return 0;
  error->code = status;
  error->section = at.section;
  error->layer = at.layer;
  error->expected = at.expected;
  error->found = at.found;
  error->text[0] = 0;
  return sizeof error->text;
}

phasor_status wrong_size(const char* name, uint32_t size, size_t limit,
                         phasor_error* error) noexcept {
  return bad_input(error, {limit, size}, name, ".struct_size: ", size,
                   size < limit ? ", expected at least " : ", expected at most ", uint64_t(limit),
                   ": compile with this library's phasor.h");
}

void Line::add(uint64_t value) {
  char digits[20];
  unsigned n = 0;
  do {
    digits[n++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  while (n != 0) put(digits[--n]);
}

void Line::add_hex(uint64_t value, unsigned digits) {
  while (digits != 0) put("0123456789abcdef"[(value >> (4 * --digits)) & 15]);
}

void Line::add(float value) {
  double v = static_cast<double>(value);
  if (v != v) return add("nan");
  if (v < 0) {
    put('-');
    v = -v;
  }
  if (v > 3.5e38) return add("inf");
  if (v == 0) return put('0');
  int exponent = 0;  // v = digits · 10^exponent with 1 ≤ digits < 10
  while (v >= 10) v /= 10, ++exponent;
  while (v < 1) v *= 10, --exponent;
  uint64_t digits = static_cast<uint64_t>(v * 100000 + 0.5);  // six digits
  if (digits >= 1000000) digits /= 10, ++exponent;
  int count = 6;
  while (count > 1 && digits % 10 == 0) digits /= 10, --count;
  char text[8];
  for (int i = count; i-- > 0; digits /= 10) text[i] = static_cast<char>('0' + digits % 10);
  const bool plain = exponent >= -4 && exponent < 6;
  if (plain && exponent < 0) {
    add("0.");
    for (int i = -1; i > exponent; --i) put('0');
    for (int i = 0; i < count; ++i) put(text[i]);
    return;
  }
  const int point = plain ? exponent + 1 : 1;
  for (int i = 0; i < count || i < point; ++i) {
    if (i == point) put('.');
    put(i < count ? text[i] : '0');
  }
  if (plain) return;
  put('e');
  put(exponent < 0 ? '-' : '+');
  const unsigned e = static_cast<unsigned>(exponent < 0 ? -exponent : exponent);
  put(static_cast<char>('0' + e / 10));
  put(static_cast<char>('0' + e % 10));
}

}  // namespace phasor
