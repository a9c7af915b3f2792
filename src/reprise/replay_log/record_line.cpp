#include "reprise/replay_log/record_line.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "reprise/base/error.h"

namespace reprise::replay_log {
namespace {

constexpr std::string_view kBegin = R"({"sum":")";
constexpr std::string_view kAfterSum = R"(",)";
constexpr size_t kSumDigits = 16;

std::string sum_of(std::string_view text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace

std::string record_line(const Json& object) {
  // Texts of a request may not be valid UTF-8. Invalid bytes are replaced, which changes no token.
  std::string text = object.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::string sum = sum_of(text);
  text.replace(0, 1, fmt::format("{}{}{}", kBegin, sum, kAfterSum));
  text += '\n';
  return text;
}

Json read_record_line(std::string_view line) {
  constexpr size_t kHead = kBegin.size() + kSumDigits + kAfterSum.size();
  if (line.size() <= kHead || !line.starts_with(kBegin) ||
      line.substr(kHead - kAfterSum.size(), kAfterSum.size()) != kAfterSum) {
    throw InvalidArgument("it does not begin with a checksum");
  }
  std::string text = "{";
  text += line.substr(kHead);
  if (sum_of(text) != line.substr(kBegin.size(), kSumDigits)) {
    throw InvalidArgument("its checksum is wrong: it was cut short or changed");
  }
  return parse_json(text, "a record");
}

}  // namespace reprise::replay_log
