#include "tokenizer/json_components.h"

#include <array>
#include <utility>

namespace octavo::tokenizer {
namespace {

constexpr int kMaxSequenceDepth = 4;

/// {"String": "x"} or {"Regex": "x"}.
struct JsonPattern {
  std::string_view text;
  bool is_regex = false;
};

Result<JsonPattern> parse_pattern(const JsonObject& object, const JsonPlace& place) {
  OCTAVO_TRY(const JsonObject pattern, container_at<JsonObject>(object, "pattern", place));
  JsonElement value;
  JsonPattern out;
  out.is_regex = find_member(pattern, "Regex", value);
  if (!out.is_regex && !find_member(pattern, "String", value)) {
    return (place / "pattern").invalid("has neither String nor Regex");
  }
  if (value.get(out.text) != simdjson::SUCCESS) return (place / "pattern").invalid("is no string");
  if (out.text.empty()) return (place / "pattern").unsupported("an empty pattern");
  return out;
}

Result<SplitBehavior> parse_behavior(const JsonObject& object, const JsonPlace& place) {
  static constexpr std::pair<std::string_view, SplitBehavior> kNames[] = {
      {"Isolated", SplitBehavior::kIsolated},
      {"Removed", SplitBehavior::kRemoved},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  OCTAVO_TRY(const std::string_view name,
             get_or(object, "behavior", std::string_view("Isolated"), place));
  for (const auto& [known, behavior] : kNames) {
    if (known == name) return behavior;
  }
  return (place / "behavior").unsupported(fmt::format("\"{}\"", name));
}

Result<SplitStep> parse_split(const JsonObject& object, const JsonPlace& place) {
  OCTAVO_TRY(const JsonPattern pattern, parse_pattern(object, place));
  OCTAVO_TRY(const SplitBehavior behavior, parse_behavior(object, place));
  OCTAVO_TRY(const bool invert, get_or(object, "invert", false, place));
  if (!pattern.is_regex) {
    return SplitStep{LiteralPattern{std::string(pattern.text)}, behavior, invert};
  }
  Result<SplitStep> step = regex_step(pattern.text, behavior, invert);
  if (!step.ok()) return (place / "pattern").unsupported(step.error().message);
  return step;
}

Status add_pre_tokenizer(std::string_view type, const JsonObject& object, const JsonPlace& place,
                         std::vector<PreTokenizer::Step>& steps, bool& has_byte_level) {
  if (has_byte_level) return place.unsupported("a part after ByteLevel");
  if (type == "ByteLevel") {
    OCTAVO_TRY(const bool prefix, get_or(object, "add_prefix_space", true, place));
    OCTAVO_TRY(const bool use_regex, get_or(object, "use_regex", true, place));
    if (prefix) steps.push_back(PrefixSpaceStep{});
    if (use_regex) steps.push_back(SplitStep{*Scanner::for_pattern(kGpt2Pattern)});
    has_byte_level = true;
  } else if (type == "Split") {
    OCTAVO_TRY(SplitStep step, parse_split(object, place));
    steps.push_back(std::move(step));
  } else if (type == "Digits") {
    OCTAVO_TRY(const bool single, get_or(object, "individual_digits", false, place));
    steps.push_back(SplitStep{CharPattern::kNumeric,
                              single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous});
  } else if (type == "WhitespaceSplit") {
    steps.push_back(SplitStep{CharPattern::kSpace, SplitBehavior::kRemoved});
  } else if (type == "Punctuation") {
    OCTAVO_TRY(const SplitBehavior behavior, parse_behavior(object, place));
    steps.push_back(SplitStep{CharPattern::kPunctuation, behavior});
  } else {
    return place.unsupported(fmt::format("\"{}\"", type));
  }
  return {};
}

Status add_normalizer(std::string_view type, const JsonObject& object, const JsonPlace& place,
                      std::vector<Normalizer::Step>& steps) {
  static constexpr std::pair<std::string_view, UnicodeForm> kForms[] = {
      {"NFC", UnicodeForm::kNfc},
      {"NFD", UnicodeForm::kNfd},
      {"NFKC", UnicodeForm::kNfkc},
      {"NFKD", UnicodeForm::kNfkd}};
  for (const auto& [name, form] : kForms) {
    if (name == type) {
      steps.push_back(form);
      return {};
    }
  }
  if (type == "Prepend") {
    OCTAVO_TRY(const std::string_view text, get_or(object, "prepend", std::string_view(), place));
    steps.push_back(PrependStep{std::string(text)});
  } else if (type == "Replace") {
    OCTAVO_TRY(const JsonPattern pattern, parse_pattern(object, place));
    OCTAVO_TRY(const std::string_view content,
               get_or(object, "content", std::string_view(), place));
    ReplaceStep step{std::string(pattern.text), std::string(content)};
    if (pattern.is_regex) {
      Result<Regex> regex = Regex::create(pattern.text);
      if (!regex.ok()) return (place / "pattern").unsupported(regex.error().message);
      step.pattern = std::move(regex).value();
    }
    steps.push_back(std::move(step));
  } else {
    return place.unsupported(fmt::format("\"{}\"", type));
  }
  return {};
}

}  // namespace

Result<std::string_view> component_type(const JsonElement& element, const JsonPlace& place,
                                        JsonObject& object) {
  if (element.get(object) != simdjson::SUCCESS) return place.invalid("is no object");
  OCTAVO_TRY(const std::string_view type, get_or(object, "type", std::string_view(), place));
  if (type.empty()) return place.invalid("has no type");
  return type;
}

Status for_each_component(
    const JsonElement& element, const char* list_key, const JsonPlace& place,
    const std::function<Status(std::string_view, const JsonObject&, const JsonPlace&)>& leaf,
    int depth) {
  JsonObject object;
  OCTAVO_TRY(const std::string_view type, component_type(element, place, object));
  if (type != "Sequence") return leaf(type, object, place);
  if (depth == kMaxSequenceDepth) return place.invalid("Sequences are nested too deeply");
  OCTAVO_TRY(const JsonArray parts, container_at<JsonArray>(object, list_key, place));
  size_t index = 0;
  for (const JsonElement part : parts) {
    const JsonPlace part_place = place / fmt::format("{}[{}]", list_key, index++);
    if (index > PreTokenizer::kMaxSteps) return part_place.invalid("too many parts");
    OCTAVO_TRY(for_each_component(part, list_key, part_place, leaf, depth + 1));
  }
  return {};
}

Result<Normalizer> parse_normalizer(const JsonElement& element, const JsonPlace& place) {
  std::vector<Normalizer::Step> steps;
  OCTAVO_TRY(for_each_component(
      element, "normalizers", place,
      [&](std::string_view type, const JsonObject& object, const JsonPlace& at) -> Status {
        if (steps.size() == Normalizer::kMaxSteps) return at.invalid("too many parts");
        return add_normalizer(type, object, at, steps);
      }));
  return Normalizer(std::move(steps));
}

Result<std::vector<PreTokenizer::Step>> parse_pre_tokenizer(const JsonElement& element,
                                                            const JsonPlace& place) {
  std::vector<PreTokenizer::Step> steps;
  bool has_byte_level = false;
  OCTAVO_TRY(for_each_component(
      element, "pretokenizers", place,
      [&](std::string_view type, const JsonObject& object, const JsonPlace& at) -> Status {
        if (steps.size() >= PreTokenizer::kMaxSteps) return at.invalid("too many parts");
        return add_pre_tokenizer(type, object, at, steps, has_byte_level);
      }));
  if (!has_byte_level) return place.unsupported("a pre_tokenizer without ByteLevel");
  return steps;
}

Status check_decoder(const JsonElement& element, const JsonPlace& place) {
  bool has_byte_level = false;
  OCTAVO_TRY(for_each_component(
      element, "decoders", place,
      [&](std::string_view type, const JsonObject&, const JsonPlace& at) -> Status {
        has_byte_level = has_byte_level || type == "ByteLevel";
        if (type == "ByteLevel" || type == "Fuse") return {};
        return at.unsupported(fmt::format("\"{}\"", type));
      }));
  if (!has_byte_level) return place.unsupported("a decoder without ByteLevel");
  return {};
}

Result<SplitStep> regex_step(std::string_view pattern, SplitBehavior behavior, bool invert) {
  if (const std::optional<Scanner> scanner = Scanner::for_pattern(pattern)) {
    return SplitStep{*scanner, behavior, invert};
  }
  OCTAVO_TRY(Regex regex, Regex::create(pattern));
  return SplitStep{std::move(regex), behavior, invert};
}

}  // namespace octavo::tokenizer
