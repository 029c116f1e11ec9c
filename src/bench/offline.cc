#include "bench/offline.h"

#include <algorithm>

namespace octavo::bench {

SplitWords split_words(std::span<const config::Option> own, std::span<const std::string> words) {
  SplitWords split;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-h" || word == "--help") {
      split.own.push_back(word);
      continue;
    }
    std::string name = word.starts_with("--") ? word.substr(2, word.find('=') - 2) : "";
    std::ranges::replace(name, '_', '-');
    const auto option = std::ranges::find(own, std::string_view(name), &config::Option::name);
    if (name.empty() || option == own.end()) {
      split.engine.push_back(word);
      continue;
    }
    split.own.push_back(word);
    const bool takes_word =
        option->kind != config::OptionKind::kSwitch && word.find('=') == std::string::npos;
    if (takes_word && i + 1 < words.size()) split.own.push_back(words[++i]);
  }
  return split;
}

}  // namespace octavo::bench
