#include "cli/clients.h"

#include "health/health.h"

namespace octavo::cli {

int run_health(std::span<const std::string> args, const Host& host) {
  return health::run_health(args,
                            {.environment = host.environment, .out = host.out, .err = host.err});
}

}  // namespace octavo::cli
