#include "reprise/cli/sweep_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "reprise/base/error.h"
#include "reprise/cli/child_process.h"

namespace reprise::cli {
namespace {

std::string value_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

SweepPoint make_point(std::string_view option, const std::string& name, const Json& members) {
  if (!members.is_object()) {
    throw InvalidArgument(
        fmt::format("{}: {} is not an object of options", option, members.dump()));
  }
  SweepPoint point{.name = name};
  std::string described;
  for (const auto& [key, value] : members.items()) {
    if (key == "_benchmark_name" && value.is_string()) {
      point.name = value;
      continue;
    }
    std::string flag = key;
    std::replace(flag.begin(), flag.end(), '_', '-');
    if (value.is_boolean()) {
      point.arguments.push_back((value.get<bool>() ? "--" : "--no-") + flag);
    } else {
      point.arguments.insert(point.arguments.end(), {"--" + flag, value_text(value)});
    }
    described += fmt::format("{}{}={}", described.empty() ? "" : " ", key, value_text(value));
  }
  if (point.name.empty()) point.name = described.empty() ? "default" : described;
  return point;
}

}  // namespace

std::vector<SweepPoint> parse_sweep_points(std::string_view option, const std::string& text) {
  if (text.empty()) return {{.name = "default"}};
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(text, ignored);
  const Json json = parse_json(is_file ? read_text(text) : text, option);
  std::vector<SweepPoint> points;
  if (json.is_array()) {
    for (const Json& members : json) points.push_back(make_point(option, "", members));
  } else if (json.is_object()) {
    for (const auto& [name, members] : json.items()) {
      points.push_back(make_point(option, name, members));
    }
  }
  if (points.empty()) {
    throw InvalidArgument(fmt::format(
        "{}: expected a JSON array of objects of options, or an object of named ones", option));
  }
  return points;
}

std::vector<std::string> split_words(std::string_view option, std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else if (c == '\\' && quote == '"' && i + 1 < text.size()) {
        word += text[++i];
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (in_word) words.push_back(std::exchange(word, {}));
      in_word = false;
    } else {
      if (c == '\\' && i + 1 < text.size()) ++i;
      word += text[i];
      in_word = true;
    }
  }
  if (quote != 0)
    throw InvalidArgument(fmt::format("{}: the quote {} is not closed", option, quote));
  if (in_word) words.push_back(word);
  return words;
}

}  // namespace reprise::cli
