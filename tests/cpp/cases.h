// doctest, with texts of char* in its lines and not their addresses, which 2.4.9 prints.
#pragma once
#include <doctest/doctest.h>

template <>
struct doctest::StringMaker<const char*> {
  static String convert(const char* text) { return text != nullptr ? text : "null"; }
};
