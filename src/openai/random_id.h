#pragma once

#include <string>

namespace octavo::openai {

/// Random lower-case hex digits for ids that clients see. Any thread.
std::string random_hex(int num_digits);

}  // namespace octavo::openai
