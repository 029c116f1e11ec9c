#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace octavo::bench {

/// The words of a command as a POSIX shell splits them: blanks, '...', "..." and backslashes. No
/// variables, globs or operators: they stay text. Error: an open quote, a trailing backslash, no
/// word at all.
Result<std::vector<std::string>> split_shell_words(std::string_view command);

/// The opposite: one line that a shell splits into the same words.
std::string join_shell_words(std::span<const std::string> words);

}  // namespace octavo::bench
