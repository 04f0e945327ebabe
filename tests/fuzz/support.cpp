#include "support.h"

#include <unistd.h>

namespace fuzz {

void broken(const char* what) {
  char line[160] = "fuzz: ";
  size_t n = std::strlen(line);
  while (*what != 0 && n < sizeof line - 1) line[n++] = *what++;
  line[n++] = '\n';
  const ssize_t written = write(STDERR_FILENO, line, n);
  (void)written;
  std::abort();
}

void demand_line(const char* text, size_t room) {
  demand(room != 0 && text[0] != 0, "an error without a line");
  size_t n = 0;
  while (n < room && text[n] != 0) {
    const unsigned char c = static_cast<unsigned char>(text[n++]);
    demand(c >= 0x20 && c != 0x7F, "a line with a control character");
  }
  demand(n < room, "a line without an end");
}

bool Answer::operator()(phasor_status status) {
  if (ok(status)) return true;
  demand(error.code == status, "the error has another status than the answer");
  demand_line(error.text, sizeof error.text);
  return false;
}

bool Answer::operator()(phasor_status status, std::initializer_list<phasor_status> others) {
  if ((*this)(status)) return true;
  for (const phasor_status other : others)
    if (status == other) return false;
  broken(error.text);
}

float any_float(Choices* c) {
  uint32_t bits = 0;
  switch (c->below(6)) {
    case 0:
      return c->of({0.0f, 1.0f, 0.5f, 0.9f, 1.3f, 2.0f});
    case 1:
      return c->of({-1.0f, -0.0f, 1e-30f, 1e30f, 3.4e38f, -3.4e38f, 1e-45f, 1.0000001f});
    case 2:
      bits = c->of({0x7F800000u, 0xFF800000u, 0x7FC00000u, 0x7F800001u, 0x00800000u});
      break;
    case 3:
      return static_cast<float>(c->below(256)) / 64;
    default:
      bits = c->below(0xFFFFFFFFu);
  }
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

uint32_t any_number(Choices* c) {
  switch (c->below(4)) {
    case 0:
      return c->below(256);
    case 1:
      return 0xFFFFFFFFu - c->below(20);
    case 2:
      return (1u << c->below(32)) + c->below(3) - 1;
    default:
      return c->below(0xFFFFFFFFu);
  }
}

}  // namespace fuzz
