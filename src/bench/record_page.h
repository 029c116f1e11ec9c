#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace octavo::bench {

// Markdown pages of conditions. Filled from JSON, or with `null` the empty page: templates/*.md are
// exactly that, and a test holds them to it.

/// What a server runs with; `server` as collect_server_facts makes it.
std::string serving_config_page(const nlohmann::ordered_json& server);
/// One run; `record` as make_run_record makes it.
std::string run_record_page(const nlohmann::ordered_json& record);

}  // namespace octavo::bench
