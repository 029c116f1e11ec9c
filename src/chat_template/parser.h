#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat_template/ast.h"

namespace octavo::chat_template {

struct ParsedTemplate {
  Body body;
  std::vector<std::string> names;  // by NameId

  /// -1 when the name does not occur in the template.
  NameId find_name(std::string_view name) const;
};

/// Nesting of blocks and expressions that a template's source may have.
inline constexpr int kMaxSyntaxDepth = 150;

/// Throws Failure with the line and what was expected.
ParsedTemplate parse(std::string_view source);

}  // namespace octavo::chat_template
