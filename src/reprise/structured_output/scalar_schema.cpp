#include "reprise/structured_output/scalar_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/structured_output/output_spec.h"
#include "reprise/structured_output/regex_dialect.h"

namespace reprise::structured_output {
namespace {

/// A format that the backend enforces, and bounds on the characters of its texts.
struct Format {
  std::string_view name;
  int64_t least = 0;
  std::optional<int64_t> most;  // unset: none
};
// The formats whose patterns stay inside a JSON string. All other formats are annotations.
constexpr std::array<Format, 9> kFormats = {{{"date", 10, 10},
                                             {"time", 9, {}},
                                             {"date-time", 20, {}},
                                             {"duration", 3, {}},
                                             {"ipv4", 7, 15},
                                             {"ipv6", 2, 45},
                                             {"hostname", 1, {}},
                                             {"uuid", 36, 36},
                                             {"email", 3, {}}}};

constexpr double kMostInteger = 9e15;  // above it, doubles do not tell integers apart
constexpr const char* kAnyCharacter = "[^\\x7f]";

[[noreturn]] void refuse(std::string_view what) { throw InvalidArgument(std::string(what)); }

Json pattern_string(const Json& pattern, int64_t least, std::optional<int64_t> most) {
  if (!pattern.is_string()) refuse("pattern must be a string");
  const NormalisedRegex regex =
      normalise_regex(pattern.get<std::string>(), PatternContext::json_string);
  const bool is_bounded =
      regex.min_length >= least && (!most || (regex.max_length && *regex.max_length <= *most));
  if (!is_bounded) {
    refuse(
        "minLength or maxLength beside a pattern that does not imply them cannot be enforced; "
        "write the "
        "length into the pattern");
  }
  if (regex.text.empty()) return {{"enum", Json::array({""})}};
  return {{"type", "string"}, {"pattern", regex.text}};
}

/// The format that answers must have. Null if the schema has none, or one that only annotates.
const Format* enforced_format(const Json& given) {
  const auto name = given.find("format");
  if (name == given.end()) return nullptr;
  if (!name->is_string()) refuse("format must be a string");
  const auto* const found =
      std::find_if(kFormats.begin(), kFormats.end(), [&name](const Format& format) {
        return format.name == name->get_ref<const std::string&>();
      });
  return found == kFormats.end() ? nullptr : found;
}

/// The backend enforces either a format or a pattern, and a length is a pattern.
Json format_string(const Format& format,
                   const Json& given,
                   int64_t least,
                   std::optional<int64_t> most) {
  if (given.contains("pattern")) {
    refuse(
        fmt::format("`format` {} and `pattern` cannot be enforced together; leave one of them out",
                    format.name));
  }
  const bool implies_most = !most || (format.most && *format.most <= *most);
  if (least > format.least || !implies_most) {
    refuse(fmt::format("`format` {} and `{}` cannot be enforced together; leave one of them out",
                       format.name,
                       implies_most ? "minLength" : "maxLength"));
  }
  return {{"type", "string"}, {"format", format.name}};
}

// The closed bound within the given ones. Bounds of integers are whole; other bounds lie on the
// grid of a millionth on which backends write numbers. `inwards`: 1 for a lower bound, -1 for an
// upper one.
std::optional<double> bound(
    const std::string& type, const Json& given, const char* closed, const char* open, int inwards) {
  std::optional<double> tightest;
  for (const char* name : {closed, open}) {
    const auto found = given.find(name);
    if (found == given.end()) continue;
    if (!found->is_number()) refuse(fmt::format("{} must be a number", name));
    const double value = found->get<double>();
    // Above 1e8, doubles do not tell millionths apart.
    const bool is_whole = type == "integer" || std::abs(value) > 1e8;
    if (!(std::abs(value) <= kMostInteger))
      refuse(fmt::format("{} is beyond {}", name, kMostInteger));
    const double grid = is_whole ? 1 : 1e6;
    double steps = inwards > 0 ? std::ceil(value * grid) : std::floor(value * grid);
    if (name == open && steps / grid == value) steps += inwards;
    // Rounding may have moved the product one step out of the given bound.
    while (inwards > 0 ? steps / grid < value : steps / grid > value) steps += inwards;
    const double inner = steps / grid;
    if (!tightest || (inwards > 0 ? inner > *tightest : inner < *tightest)) tightest = inner;
  }
  return tightest;
}

}  // namespace

std::optional<int64_t> count_member(const Json& given, const char* name) {
  const auto found = given.find(name);
  if (found == given.end()) return {};
  if (!found->is_number() || found->get<double>() < 0 ||
      std::floor(found->get<double>()) != found->get<double>()) {
    refuse(fmt::format("{} must be an integer that is not negative", name));
  }
  if (found->get<double>() > kMaxRepetition) {
    refuse(fmt::format("{} is above {}", name, kMaxRepetition));
  }
  return static_cast<int64_t>(found->get<double>());
}

Json string_schema(const Json& given) {
  const int64_t least = count_member(given, "minLength").value_or(0);
  const std::optional<int64_t> most = count_member(given, "maxLength");
  if (most && *most < least) refuse("maxLength is below minLength");
  if (const Format* const format = enforced_format(given); format != nullptr) {
    return format_string(*format, given, least, most);
  }
  if (given.contains("pattern")) return pattern_string(given["pattern"], least, most);
  if (least > 0 || most) {
    if (most == 0) return {{"enum", Json::array({""})}};
    return pattern_string(
        fmt::format("{}{{{},{}}}", kAnyCharacter, least, most ? std::to_string(*most) : ""), 0, {});
  }
  return {{"type", "string"}};
}

Json pattern_schema(const Json& pattern) { return pattern_string(pattern, 0, {}); }

Json number_schema(const std::string& type, const Json& given) {
  if (const auto step = given.find("multipleOf"); step != given.end()) {
    if (!step->is_number()) refuse("multipleOf must be a number");
    if (type != "integer" || *step != 1) refuse("`multipleOf` cannot be enforced while generating");
  }
  const std::optional<double> least = bound(type, given, "minimum", "exclusiveMinimum", 1);
  const std::optional<double> most = bound(type, given, "maximum", "exclusiveMaximum", -1);
  if (least && most && *least > *most) refuse("no number is between minimum and maximum");
  if (!least && !most) return {{"type", type}};
  // Always give both the minimum and the maximum, so that backends know exactly which numbers are
  // allowed (number_range.h).
  const double low = least.value_or(-kMostInteger);
  const double high = most.value_or(kMostInteger);
  if (type == "number") return {{"type", type}, {"minimum", low}, {"maximum", high}};
  return {{"type", type},
          {"minimum", static_cast<int64_t>(low)},
          {"maximum", static_cast<int64_t>(high)}};
}

}  // namespace reprise::structured_output
