// The switches that tools/make/mutants.py puts around expressions. Each has the number of its
// mutant: where that is `chosen` the other value comes out. In a run that records, a mutant is
// `seen` where the other value differs: without that no test can tell.
#pragma once

namespace mutants {

extern int chosen;           // 0: none
extern unsigned char* seen;  // by number; null: nothing is recorded

constexpr bool on(int number, bool differs) {
  if (__builtin_is_constant_evaluated()) return false;
  if (seen != nullptr && differs) seen[number] = 1;
  return chosen == number;
}
template <class T>
constexpr T pick(int number, T value, T other) {
  return on(number, !(value == other)) ? other : value;
}

constexpr bool always(int number, bool value) { return pick(number, value, true); }
constexpr bool never(int number, bool value) { return pick(number, value, false); }

#define PHASOR_SWITCH(name, is, becomes)                   \
  template <class A, class B>                              \
  constexpr decltype(A() is B()) name(int n, A a, B b) {   \
    return pick<decltype(a is b)>(n, a is b, a becomes b); \
  }
PHASOR_SWITCH(less, <, <=)
PHASOR_SWITCH(less_equal, <=, <)
PHASOR_SWITCH(greater, >, >=)
PHASOR_SWITCH(greater_equal, >=, >)
PHASOR_SWITCH(plus, +, -)
PHASOR_SWITCH(minus, -, +)
#undef PHASOR_SWITCH

template <class A, class B>
constexpr bool equal(int n, A a, B b) {
  return pick(n + 1, pick(n, a == b, a <= b), a >= b);
}
template <class A, class B>
constexpr bool unequal(int n, A a, B b) {
  return pick(n + 1, pick(n, a != b, a < b), a > b);
}

}  // namespace mutants
