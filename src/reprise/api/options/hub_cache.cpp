#include "reprise/api/options/hub_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/hub/hub_name.h"

namespace reprise::api {
namespace {

namespace fs = std::filesystem;

fs::path folder_in(const char* value, const char* below) {
  return value == nullptr || *value == '\0' ? fs::path() : fs::path(value) / below;
}

/// The commit of a branch, a tag or a commit; empty when the cache does not have it.
std::string commit_of(const fs::path& repository, std::string_view revision) {
  constexpr size_t kCommitDigits = 40;
  const auto is_hex = [](std::string_view text) {
    return std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c) != 0; });
  };
  if (revision.size() == kCommitDigits && is_hex(revision)) return std::string(revision);
  if (revision.find("..") != std::string_view::npos) return {};
  std::ifstream file(repository / "refs" / revision);
  std::string commit;
  file >> commit;
  return is_hex(commit) ? commit : std::string();
}

/// The first of the files in the snapshot that `wanted` names; empty when there is none.
fs::path file_in(const fs::path& snapshot, std::string_view wanted) {
  std::vector<std::string> paths;
  for (const auto& entry : fs::recursive_directory_iterator(snapshot)) {
    if (!entry.is_directory()) paths.push_back(entry.path().lexically_relative(snapshot).string());
  }
  std::ranges::sort(paths);
  const std::vector<size_t> found = hub::files_of_name(paths, wanted);
  return found.empty() ? fs::path() : snapshot / paths[found.front()];
}

}  // namespace

fs::path hub_cache_folder() {
  for (const auto& [value, below] : {std::pair{std::getenv("HF_HUB_CACHE"), ""},
                                     std::pair{std::getenv("HF_HOME"), "hub"},
                                     std::pair{std::getenv("XDG_CACHE_HOME"), "huggingface/hub"},
                                     std::pair{std::getenv("HOME"), ".cache/huggingface/hub"}}) {
    if (fs::path folder = folder_in(value, below); !folder.empty()) return folder;
  }
  return {};
}

fs::path find_model_folder(const fs::path& model,
                           const fs::path& hub_cache,
                           std::string_view revision) {
  std::error_code error;
  const std::string text = model.string();
  const std::optional<hub::HubName> name = hub::parse_hub_name(text);
  if (!name || fs::exists(model, error)) return model;
  const fs::path repository = hub_cache / name->cache_folder();
  const std::string commit = commit_of(repository, revision);
  const fs::path snapshot = repository / "snapshots" / commit;
  if (!commit.empty() && fs::is_directory(snapshot, error)) {
    const fs::path found = name->file.empty() ? snapshot : file_in(snapshot, name->file);
    if (!found.empty()) return found;
  }
  const std::string option = revision == "main" ? "" : fmt::format(" --revision {}", revision);
  throw InvalidArgument(fmt::format(
      "{0}: no such folder, and no such model{1} in the Hugging Face cache {2}; nothing "
      "is downloaded by itself. Download it with: reprise pull {0}{1}",
      text,
      option,
      hub_cache.string()));
}

}  // namespace reprise::api
