#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/check.h"

namespace octavo {

/// Kinds of failure; `openai/errors.cc` maps each to an HTTP status.
enum class Code {
  kInvalidArgument,
  kNotFound,
  kOverloaded,
  kCancelled,
  kUnsupported,
  kUnavailable,
  kInternal,
};

/// A failure the caller can act on. `param` names the offending request field, if one is to blame.
struct Error {
  Code code = Code::kInternal;
  std::string message;
  std::string param = {};
};

/// A value or the error that prevented it. Never empty.
template <class T>
class [[nodiscard]] Result {
 public:
  // Implicit, so that `return value;` and `return Error{...};` both read naturally.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  /// The value. It is our bug to ask for it when there is an error.
  T& value() & { return require(); }
  const T& value() const& { return const_cast<Result*>(this)->require(); }
  T&& value() && { return std::move(require()); }
  T& operator*() & { return require(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(require()); }
  T* operator->() { return &require(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::move(std::get<1>(state_)); }

 private:
  T& require() {
    if (!ok()) check_failed(__FILE__, __LINE__, "Result has a value", std::get<1>(state_).message);
    return std::get<0>(state_);
  }
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}  // NOLINT
  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  void value() const {
    if (!ok_) check_failed(__FILE__, __LINE__, "Result has a value", error_.message);
  }
  const Error& error() const& { return error_; }
  Error&& error() && { return std::move(error_); }

 private:
  Error error_;
  bool ok_ = true;
};

using Status = Result<void>;

#define OCTAVO_TRY_CAT2(a, b) a##b
#define OCTAVO_TRY_CAT(a, b) OCTAVO_TRY_CAT2(a, b)
#define OCTAVO_TRY_1(expr)                                                    \
  do {                                                                        \
    auto octavo_try_status = (expr);                                          \
    if (!octavo_try_status.ok()) return std::move(octavo_try_status).error(); \
  } while (0)
#define OCTAVO_TRY_2_(lhs, expr, name)            \
  auto name = (expr);                             \
  if (!name.ok()) return std::move(name).error(); \
  lhs = std::move(name).value()
#define OCTAVO_TRY_2(lhs, expr) \
  OCTAVO_TRY_2_(lhs, expr, OCTAVO_TRY_CAT(octavo_try_result_, __LINE__))
#define OCTAVO_TRY_PICK(a, b, name, ...) name
/// `OCTAVO_TRY(lhs, expr)` assigns the value of `expr` to `lhs` or returns its error;
/// `OCTAVO_TRY(expr)` does the same for a `Status`.
#define OCTAVO_TRY(...) OCTAVO_TRY_PICK(__VA_ARGS__, OCTAVO_TRY_2, OCTAVO_TRY_1, )(__VA_ARGS__)

}  // namespace octavo
