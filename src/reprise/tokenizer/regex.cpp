#define PCRE2_CODE_UNIT_WIDTH 8
#include "reprise/tokenizer/regex.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/text/utf8.h"
#include "reprise/tokenizer/bounded_text.h"
#include "reprise/tokenizer/regex_dialect.h"

namespace reprise::tokenizer {
namespace {

// Published patterns have less than 1 KB. The time and memory of PCRE2 grow with the pattern.
constexpr size_t kMaxPatternBytes = 16384;
// Patterns of published files backtrack over a run of characters at most once, so a fixed number of
// steps per byte is more than enough. A pattern of exponential cost exceeds even this constant part
// on a text of thirty characters.
constexpr size_t kMatchStepsAtLeast = 1'000'000;
constexpr size_t kMatchStepsPerByte = 16;
// A repeated group keeps state for each repetition; this stack is enough for a megabyte of
// repetitions.
constexpr size_t kMaxStackBytes = size_t{64} << 20;
constexpr uint32_t kMaxHeapKiB = 64 * 1024;

std::string message_of(int error) {
  PCRE2_UCHAR buffer[160] = {};
  pcre2_get_error_message(error, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Code {
  explicit Code(pcre2_code* compiled) : value(compiled) {}
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(value); }
  pcre2_code* value;
};

struct Regex::MatchState {
  explicit MatchState(const Code& code, size_t text_bytes)
      : data(pcre2_match_data_create_from_pattern(code.value, nullptr)),
        context(pcre2_match_context_create(nullptr)) {
    if (data == nullptr || context == nullptr) throw OutOfMemory("no memory to match a pattern");
    const size_t steps = kMatchStepsAtLeast + kMatchStepsPerByte * text_bytes;
    pcre2_set_match_limit(context, static_cast<uint32_t>(std::min<size_t>(steps, UINT32_MAX)));
    pcre2_set_heap_limit(context, kMaxHeapKiB);
  }
  MatchState(const MatchState&) = delete;
  MatchState& operator=(const MatchState&) = delete;
  ~MatchState() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }

  /// Gives the JIT more stack than its own 32 KiB. Returns false when it already has the larger
  /// stack.
  bool grow_stack() {
    if (stack != nullptr) return false;
    stack = pcre2_jit_stack_create(1 << 16, kMaxStackBytes, nullptr);
    if (stack == nullptr) return false;
    pcre2_jit_stack_assign(context, nullptr, stack);
    return true;
  }

  pcre2_match_data* data;
  pcre2_match_context* context;
  pcre2_jit_stack* stack = nullptr;
};

Regex::Regex(const Component& component) : file_(component.file()), pointer_(component.pointer()) {
  const std::string source = component.text();
  if (source.size() > kMaxPatternBytes) {
    component.fail(
        fmt::format(
            "a pattern of {} bytes, at most {} are accepted", source.size(), kMaxPatternBytes),
        "E_REGEX");
  }
  std::string pattern;
  try {
    pattern = translate_pattern(source);
  } catch (const InvalidArgument& error) {
    component.fail(error.what(), "E_REGEX");
  }
  int error = 0;
  size_t offset = 0;
  pcre2_code* compiled = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(pattern.data()),
      pattern.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE,  // '^' as in Ruby
      &error,
      &offset,
      nullptr);
  if (compiled == nullptr) {
    component.fail(
        fmt::format("bad pattern: {} at offset {} of '{}'", message_of(error), offset, pattern),
        "E_REGEX");
  }
  code_ = std::make_shared<const Code>(compiled);
  uint32_t num_back_references = 0;
  pcre2_pattern_info(compiled, PCRE2_INFO_BACKREFMAX, &num_back_references);
  if (num_back_references > 0) component.fail("a back-reference is not supported", "E_REGEX");
  // If the JIT is not available, PCRE2's interpreter gives the same matches.
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);

  // Most patterns of exponential cost already exceed the limit on a short run of one character.
  // This trial finds them while loading, before the first request. The tail holds characters that
  // the pattern may require; without them PCRE2 would stop before it tries to match.
  std::string tail = "\x01";
  for (char c = ' '; c <= '~'; ++c) tail.push_back(c);
  std::vector<MatchSpan> spans;
  WorkMeter no_limit;
  for (const char probe : {'a', 'A', '0', ' ', '\n', '.', '_'}) {
    spans.clear();
    split(std::string(64, probe) + tail, spans, no_limit);
  }
}

bool Regex::search(std::string_view text, size_t start, MatchState& state) const {
  const auto match = [&](uint32_t options) {
    // Without NO_UTF_CHECK each call would check the whole text again, so the cost would be
    // quadratic.
    return pcre2_match(code_->value,
                       reinterpret_cast<PCRE2_SPTR>(text.data()),
                       text.size(),
                       start,
                       PCRE2_NO_UTF_CHECK | options,
                       state.data,
                       state.context);
  };
  int result = match(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT && state.grow_stack()) result = match(0);
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0) {
    throw FileError("E_REGEX",
                    file_,
                    pointer_,
                    fmt::format("matching this pattern against {} bytes of text failed: {}; the "
                                "pattern backtracks too much",
                                text.size(),
                                message_of(result)));
  }
  return true;
}

void Regex::split(std::string_view text, std::vector<MatchSpan>& spans, WorkMeter& work) const {
  MatchState state(*code_, text.size());
  const size_t* offsets = pcre2_get_ovector_pointer(state.data);
  size_t gap_begin = 0;
  size_t search_from = 0;
  bool has_previous = false;
  size_t previous_end = 0;
  while (search_from <= text.size() && !text.empty() && search(text, search_from, state)) {
    const size_t begin = offsets[0];
    const size_t end = offsets[1];
    // begin >= search_from holds for every pattern except a lookbehind with \K, which would make
    // this loop endless.
    if (begin < search_from || end < begin) {
      throw FileError(
          "E_REGEX", file_, pointer_, "the pattern moves backwards (\\K in a lookbehind)");
    }
    // An empty match right after the last match does not count.
    if (begin == end && has_previous && begin == previous_end) {
      if (begin == text.size()) break;
      search_from = begin + utf8_length(text[begin]);
      continue;
    }
    work.count(end - search_from);
    if (gap_begin < begin) spans.push_back({gap_begin, begin, false});
    spans.push_back({begin, end, true});
    gap_begin = search_from = previous_end = end;
    has_previous = true;
  }
  if (gap_begin < text.size()) spans.push_back({gap_begin, text.size(), false});
}

Pattern::Pattern(const Component& component) {
  if (component.has("Regex")) {
    regex_.emplace_back(component.at("Regex"));
  } else if (component.has("String")) {
    literal_ = component.at("String").text();
    if (literal_.empty()) component.at("String").fail("an empty pattern");
  } else {
    component.fail("expected {\"Regex\": ...} or {\"String\": ...}");
  }
}

void Pattern::split(std::string_view text, std::vector<MatchSpan>& spans, WorkMeter& work) const {
  if (!regex_.empty()) return regex_.front().split(text, spans, work);
  size_t gap_begin = 0;
  for (size_t at = text.find(literal_); at != std::string_view::npos;
       at = text.find(literal_, gap_begin)) {
    if (gap_begin < at) spans.push_back({gap_begin, at, false});
    work.count(at + literal_.size() - gap_begin);
    gap_begin = at + literal_.size();
    spans.push_back({at, gap_begin, true});
  }
  if (gap_begin < text.size()) spans.push_back({gap_begin, text.size(), false});
}

std::string Pattern::replace_all(std::string_view text,
                                 std::string_view replacement,
                                 WorkMeter& work,
                                 size_t max_bytes) const {
  std::vector<MatchSpan> spans;
  split(text, spans, work);
  BoundedText out(max_bytes);
  out.reserve(text.size());
  for (const MatchSpan& span : spans) {
    out.append(span.is_match ? replacement : text.substr(span.begin, span.end - span.begin));
  }
  return std::move(out).take();
}

}  // namespace reprise::tokenizer
