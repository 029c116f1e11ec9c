#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>

namespace octavo {

/// An integer that does not mix with other integers: `using BlockId = Id<struct BlockTag>;`
template <class Tag, class Rep = int32_t>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  constexpr auto operator<=>(const Id&) const = default;
  friend std::ostream& operator<<(std::ostream& out, Id id) { return out << id.value_; }

 private:
  Rep value_ = Rep(-1);
};

}  // namespace octavo

template <class Tag, class Rep>
struct std::hash<octavo::Id<Tag, Rep>> {
  size_t operator()(octavo::Id<Tag, Rep> id) const { return std::hash<Rep>()(id.value()); }
};
