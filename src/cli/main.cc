#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/app.h"
#include "cli/serve.h"

int main(int argc, char** argv) {
  // Before the first write: a log reader that has gone must not end the server.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
    return octavo::cli::run(args, {.environment = octavo::config::process_environment(),
                                   .variable_names = octavo::config::process_variable_names(),
                                   .serve = octavo::cli::run_serve});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "octavo: error: %s\n", e.what());
    return 1;
  }
}
