#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "server/routes.h"

// docs/reference/endpoints.md is made from the route table; this test holds it current.
// OCTAVO_UPDATE_DOCS=1 rewrites it.

namespace octavo::server {
namespace {

constexpr const char* kPath = OCTAVO_SOURCE_DIR "/docs/reference/endpoints.md";

std::string_view name_of(Scope scope) {
  switch (scope) {
    case Scope::kPublic:
      return "public";
    case Scope::kInference:
      return "inference";
    case Scope::kOperate:
      return "operate";
    default:
      return "dev";
  }
}

std::string reference() {
  std::string text =
      "# Endpoints\n\nMade from the table in `src/server/routes.cc`; "
      "`OCTAVO_UPDATE_DOCS=1 build/release/server_test` rewrites it. With `--api-key` every route "
      "that is not public needs the key. HEAD comes with GET. While draining, routes that generate "
      "answer 503.\n\n"
      "| path | methods | scope | generates |\n|---|---|---|---|\n";
  for (const Route& route : all_routes()) {
    text += fmt::format("| `{}{}` | {} | {} | {} |\n", route.path, route.is_prefix ? "*" : "",
                        route.methods, name_of(route.scope), route.generates ? "yes" : "");
  }
  return text;
}

TEST(Reference, EndpointsPageIsCurrent) {
  if (std::getenv("OCTAVO_UPDATE_DOCS") != nullptr) std::ofstream(kPath) << reference();
  std::ifstream in(kPath);
  const std::string page((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(page, reference()) << "run with OCTAVO_UPDATE_DOCS=1 and commit " << kPath;
}

}  // namespace
}  // namespace octavo::server
