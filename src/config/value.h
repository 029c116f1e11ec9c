#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "config/arguments.h"
#include "config/flag.h"

namespace octavo::config {

/// 1000, 25.6k (k m g t: powers of 1000, decimals allowed), 4K (K M G T: powers of 1024).
/// The error says what is wrong with `word`, without a flag.
Result<int64_t> parse_human_integer(std::string_view word);

/// The value of `flag` from its uses, in order: plain ones replace, dotted ones merge into it.
/// `uses` is not empty. The error names the flag.
Result<Value> read_value(const Flag& flag, const std::vector<const Assignment*>& uses);

/// A string as Python shows it: 'a', "it's".
std::string python_text(std::string_view text);

/// Whether `value` is the flag's default or one of its neutral values.
bool is_neutral(const Flag& flag, const Value& value);

}  // namespace octavo::config
