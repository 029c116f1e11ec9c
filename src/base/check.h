#pragma once

#include <sstream>
#include <string>
#include <string_view>

namespace octavo {

/// Prints the failed condition with its place and both values, then aborts. Only for our own bugs:
/// never reachable from a request, a file or a peer.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view values);

namespace internal {
template <class A, class B>
std::string show_pair(const A& a, const B& b) {
  std::ostringstream out;
  out << a << " against " << b;
  return out.str();
}
}  // namespace internal

}  // namespace octavo

#define CHECK(cond) \
  ((cond) ? (void)0 : ::octavo::check_failed(__FILE__, __LINE__, #cond, std::string_view{}))
#define OCTAVO_CHECK_OP(op, a, b)                                              \
  do {                                                                         \
    const auto& check_a = (a);                                                 \
    const auto& check_b = (b);                                                 \
    if (!(check_a op check_b)) {                                               \
      ::octavo::check_failed(__FILE__, __LINE__, #a " " #op " " #b,            \
                             ::octavo::internal::show_pair(check_a, check_b)); \
    }                                                                          \
  } while (0)
#define CHECK_EQ(a, b) OCTAVO_CHECK_OP(==, a, b)
#define CHECK_NE(a, b) OCTAVO_CHECK_OP(!=, a, b)
#define CHECK_LE(a, b) OCTAVO_CHECK_OP(<=, a, b)
#define CHECK_LT(a, b) OCTAVO_CHECK_OP(<, a, b)
#define CHECK_GE(a, b) OCTAVO_CHECK_OP(>=, a, b)
#define CHECK_GT(a, b) OCTAVO_CHECK_OP(>, a, b)
