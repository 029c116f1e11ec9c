#pragma once

#include "chat_template/parser.h"

namespace octavo::chat_template {

/// Whether the template takes message content apart as a list: it loops over it, or reads an
/// attribute of one of its items. Follows names through set, for, with and macro parameters.
bool reads_content_parts(const ParsedTemplate& program);

}  // namespace octavo::chat_template
