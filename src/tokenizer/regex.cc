#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/regex.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <optional>
#include <utility>

#include "tokenizer/unicode.h"

namespace octavo::tokenizer {
namespace {

constexpr uint32_t kMatchLimit = 10'000'000;  // steps of one search, far above any real pattern's
constexpr uint32_t kHeapLimitKib = 65536;
constexpr size_t kJitStackStart = 32 << 10, kJitStackMax = 16 << 20;
constexpr size_t kMaxPatternBytes = 16 << 10;

struct NamedSet {
  std::string_view name;
  CategorySet set;
};
constexpr NamedSet kNamedSets[] = {
    {"L", kLetters},
    {"M", kMarks},
    {"N", kNumbers},
    {"P", kPunctuation},
    {"S", kSymbols},
    {"Z", kSeparators},
    {"Lu", set_of(Category::kLu)},
    {"Ll", set_of(Category::kLl)},
    {"Lt", set_of(Category::kLt)},
    {"Lm", set_of(Category::kLm)},
    {"Lo", set_of(Category::kLo)},
    {"Nd", set_of(Category::kNd)},
    {"Nl", set_of(Category::kNl)},
    {"No", set_of(Category::kNo)},
    {"Mn", set_of(Category::kMn)},
    {"Mc", set_of(Category::kMc)},
    {"Me", set_of(Category::kMe)},
    {"Zs", set_of(Category::kZs)},
};

/// Members of a bracket expression for every code point that `belongs`.
template <class Belongs>
std::string ranges_of(Belongs belongs) {
  std::string out;
  constexpr char32_t kEnd = 0x110000;
  auto valid = [&](char32_t c) { return c < kEnd && !(c >= 0xD800 && c < 0xE000); };
  for (char32_t c = 0; c < kEnd; ++c) {
    if (!valid(c) || !belongs(CharClass(c))) continue;
    const char32_t first = c;
    while (valid(c + 1) && belongs(CharClass(c + 1))) ++c;
    out += fmt::format("\\x{{{:x}}}", uint32_t(first));
    if (c > first) out += fmt::format("-\\x{{{:x}}}", uint32_t(c));
  }
  return out;
}

/// Rewrites the class escapes of a pattern (\p{L}, \s, ...) into explicit ranges.
class Rewriter {
 public:
  explicit Rewriter(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\' && at_ + 1 < in_.size()) {
        escape();
        continue;
      }
      if (!in_class_ && c == '[') {
        open_class();
        continue;
      }
      if (in_class_ && c == ']') in_class_ = false;
      out_ += c;
      ++at_;
    }
    return std::move(out_);
  }

 private:
  void open_class() {
    in_class_ = true;
    out_ += in_[at_++];
    if (at_ < in_.size() && in_[at_] == '^') out_ += in_[at_++];
    if (at_ < in_.size() && in_[at_] == ']') out_ += in_[at_++];  // a literal first member
  }

  void escape() {
    const char kind = in_[at_ + 1];
    size_t end = at_ + 2;
    std::optional<std::string> members;
    bool negated = kind == 'P' || kind == 'S';
    if ((kind == 'p' || kind == 'P') && end < in_.size()) {
      std::string_view name = in_.substr(end, 1);
      size_t close = end + 1;
      if (name == "{") {
        close = in_.find('}', end);
        if (close == std::string_view::npos) close = in_.size();
        name = in_.substr(end + 1, close - end - 1);
        close = close < in_.size() ? close + 1 : close;
        if (name.starts_with('^')) name.remove_prefix(1), negated = !negated;
      }
      for (const NamedSet& known : kNamedSets) {
        if (known.name == name) {
          const CategorySet set = negated && in_class_ ? ~known.set : known.set;
          members = ranges_of([&](CharClass c) { return c.in(set); });
        }
      }
      end = close;
    } else if (kind == 's' || kind == 'S') {
      const bool wanted = !(negated && in_class_);
      members = ranges_of([&](CharClass c) { return c.is_space() == wanted; });
    }
    if (!members) {
      out_ += in_.substr(at_, end - at_);  // PCRE2's own meaning
    } else if (in_class_) {
      out_ += *members;
    } else {
      out_ += (negated ? "[^" : "[") + *members + "]";
    }
    at_ = end;
  }

  std::string_view in_;
  size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

struct RegexScratch::State {
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr);
  State() {
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapLimitKib);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~State() {
    pcre2_jit_stack_free(stack);
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

RegexScratch::RegexScratch() : state_(std::make_unique<State>()) {}
RegexScratch::~RegexScratch() = default;
RegexScratch::RegexScratch(RegexScratch&&) noexcept = default;
RegexScratch& RegexScratch::operator=(RegexScratch&&) noexcept = default;

struct Regex::State {
  pcre2_code* code = nullptr;
  explicit State(pcre2_code* compiled) : code(compiled) {}
  ~State() { pcre2_code_free(code); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Regex::Regex(std::unique_ptr<State> state) : state_(std::move(state)) {}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

Result<Regex> Regex::create(std::string_view pattern) {
  if (pattern.empty() || pattern.size() > kMaxPatternBytes) {
    return Error{Code::kUnsupported, fmt::format("a pattern of {} bytes (1 to {} are supported)",
                                                 pattern.size(), kMaxPatternBytes)};
  }
  const std::string rewritten = Rewriter(pattern).run();
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto* context = pcre2_compile_context_create(nullptr);
  pcre2_set_parens_nest_limit(context, 64);
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (code == nullptr) {
    PCRE2_UCHAR message[128] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    return Error{Code::kUnsupported, fmt::format("the pattern \"{}\": {}", pattern,
                                                 reinterpret_cast<const char*>(message))};
  }
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // without it the interpreter matches
  return Regex(std::make_unique<State>(code));
}

bool Regex::find(std::string_view text, size_t from, RegexScratch& scratch, Match& match) const {
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  pcre2_match_data* data = scratch.state_->data;
  const int rc = pcre2_match(state_->code, subject, text.size(), from,
                             PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, data, scratch.state_->context);
  if (rc < 0) return false;
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data);
  match = {range[0], range[1]};
  return match.begin >= from && match.end > match.begin;  // \K could move the start back
}

}  // namespace octavo::tokenizer
