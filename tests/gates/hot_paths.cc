// Drives the hot paths with fixed inputs, for tests/gates/check_counts.py to run under callgrind.
//   hot_paths MODEL [engine|text|kernels ...]     MODEL: a checkpoint with a tokenizer
#include <cstdio>
#include <string>
#include <vector>

#include "gate.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: hot_paths MODEL [engine|text|kernels ...]\n");
    return 2;
  }
  const std::vector<std::string> wanted(argv + 2, argv + argc);
  const auto wants = [&](const char* group) {
    if (wanted.empty()) return true;
    for (const std::string& name : wanted) {
      if (name == group) return true;
    }
    return false;
  };
  if (wants("engine")) octavo::gates::count_engine_paths();
  if (wants("text")) octavo::gates::count_text_paths(argv[1]);
  if (wants("kernels")) octavo::gates::count_kernel_paths();
  return 0;
}
