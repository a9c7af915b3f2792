#include "reprise/hub/hub_name.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "reprise/base/equal_ignoring_case.h"
#include "reprise/base/error.h"

namespace reprise::hub {
namespace {

constexpr std::string_view kGguf = ".gguf";

bool is_part_of_name(std::string_view part) {
  return !part.empty() && part.front() != '.' && part.front() != '-' &&
         std::ranges::all_of(part, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// The path without ".gguf" and, for a part of a split model, without "-00001-of-00003".
std::string_view stem_of_model(std::string_view path) {
  path.remove_suffix(kGguf.size());
  constexpr std::string_view kPart = "-00001-of-00003";
  if (path.size() <= kPart.size()) return path;
  const std::string_view end = path.substr(path.size() - kPart.size());
  for (size_t i = 0; i < kPart.size(); ++i) {
    const bool is_digit = end[i] >= '0' && end[i] <= '9';
    const bool wants_digit = kPart[i] >= '0' && kPart[i] <= '9';
    if (wants_digit ? !is_digit : end[i] != kPart[i]) return path;
  }
  return path.substr(0, path.size() - kPart.size());
}

/// Whether a name like "Qwen3-0.6B-Q4_K_M" ends in the quantisation, as a whole word.
bool ends_in_quantisation(std::string_view stem, std::string_view quantisation) {
  if (stem.size() < quantisation.size()) return false;
  const size_t at = stem.size() - quantisation.size();
  if (!equal_ignoring_case(stem.substr(at), quantisation)) return false;
  return at == 0 || stem[at - 1] == '-' || stem[at - 1] == '.';
}

}  // namespace

std::string HubName::cache_folder() const {
  const size_t slash = repository.find('/');
  return fmt::format("models--{}--{}", repository.substr(0, slash), repository.substr(slash + 1));
}

std::optional<HubName> parse_hub_name(std::string_view text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string_view repository = text.substr(0, colon);
  const size_t slash = repository.find('/');
  if (slash == std::string_view::npos || !is_part_of_name(repository.substr(0, slash)) ||
      !is_part_of_name(repository.substr(slash + 1))) {
    return std::nullopt;
  }
  // A file "folder/name.gguf" looks like a repository, but no repository's name ends so.
  if (repository.ends_with(kGguf) || colon + 1 == text.size()) return std::nullopt;
  HubName name{.repository = std::string(repository)};
  if (colon < text.size()) name.file = text.substr(colon + 1);
  return name;
}

bool is_gguf_model(std::string_view path) {
  const std::string_view name = file_name(path);
  return name.size() > kGguf.size() && name.ends_with(kGguf) && !name.starts_with("mmproj");
}

std::vector<size_t> files_of_name(std::span<const std::string> paths, std::string_view wanted) {
  std::vector<size_t> found;
  const auto exact = std::ranges::find(paths, wanted);
  if (exact != paths.end() && !is_gguf_model(*exact)) {
    return {static_cast<size_t>(exact - paths.begin())};
  }
  std::set<std::string_view> models;
  for (size_t i = 0; i < paths.size(); ++i) {
    if (!is_gguf_model(paths[i])) continue;
    const std::string_view stem = stem_of_model(paths[i]);
    const bool is_it = exact != paths.end() ? stem == stem_of_model(*exact)
                                            : ends_in_quantisation(file_name(stem), wanted);
    if (!is_it) continue;
    models.insert(stem);
    found.push_back(i);
  }
  if (models.size() > 1) {
    throw InvalidArgument(
        fmt::format("'{}' is the quantisation of several files, {}; name one of "
                    "them instead, with .gguf",
                    wanted,
                    fmt::join(models, ", ")));
  }
  return found;
}

}  // namespace reprise::hub
