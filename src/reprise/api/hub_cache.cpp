#include "reprise/api/hub_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "reprise/base/error.h"

namespace reprise::api {
namespace {

namespace fs = std::filesystem;

/// Whether `name` is "owner/name" in the hub's alphabet: letters, digits, '-', '_' and '.'.
bool is_hub_name(std::string_view name) {
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos || name.find('/', slash + 1) != std::string_view::npos) {
    return false;
  }
  const auto is_part = [](std::string_view part) {
    return !part.empty() && part.front() != '.' && part.front() != '-' &&
           std::ranges::all_of(part, [](unsigned char c) {
             return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
           });
  };
  return is_part(name.substr(0, slash)) && is_part(name.substr(slash + 1));
}

fs::path folder_in(const char* variable, const char* below) {
  const char* value = std::getenv(variable);
  return value == nullptr || *value == '\0' ? fs::path() : fs::path(value) / below;
}

/// The commit in refs/main; empty when there is none.
std::string main_revision(const fs::path& repository) {
  std::ifstream file(repository / "refs" / "main");
  std::string revision;
  file >> revision;
  const bool is_plain =
      std::ranges::all_of(revision, [](unsigned char c) { return std::isxdigit(c) != 0; });
  return is_plain ? revision : std::string();
}

}  // namespace

fs::path hub_cache_folder() {
  for (const auto& [variable, below] : {std::pair{"HF_HUB_CACHE", ""},
                                        std::pair{"HF_HOME", "hub"},
                                        std::pair{"XDG_CACHE_HOME", "huggingface/hub"},
                                        std::pair{"HOME", ".cache/huggingface/hub"}}) {
    if (fs::path folder = folder_in(variable, below); !folder.empty()) return folder;
  }
  return {};
}

fs::path find_model_folder(const fs::path& model, const fs::path& hub_cache) {
  std::error_code error;
  const std::string name = model.string();
  // A file "folder/name.gguf" looks like a hub name, but no hub name ends in .gguf.
  if (fs::exists(model, error) || !is_hub_name(name) || name.ends_with(".gguf")) return model;
  const size_t slash = name.find('/');
  const fs::path repository =
      hub_cache / fmt::format("models--{}--{}", name.substr(0, slash), name.substr(slash + 1));
  const std::string revision = main_revision(repository);
  const fs::path snapshot = repository / "snapshots" / revision;
  if (!revision.empty() && fs::is_directory(snapshot, error)) return snapshot;
  throw InvalidArgument(fmt::format(
      "{0}: no such folder, and no such model in the Hugging Face cache {1}; nothing is "
      "downloaded by itself. Download it with: hf download {0}",
      name,
      hub_cache.string()));
}

}  // namespace reprise::api
