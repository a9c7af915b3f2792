#include "reprise/weights/files/model_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "reprise/base/error.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {
namespace {

namespace fs = std::filesystem;

bool is_plain_file_name(std::string_view name) {
  constexpr size_t kMaxNameBytes = 255;  // NAME_MAX of the usual file systems
  return !name.empty() && name.size() <= kMaxNameBytes && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

bool lies_in(const fs::path& file, const fs::path& folder) {
  const auto [end, unused] = std::mismatch(folder.begin(), folder.end(), file.begin(), file.end());
  return end == folder.end();
}

}  // namespace

ModelDirectory::ModelDirectory(const fs::path& path) : path_(path) {
  std::error_code error;
  const fs::path canonical = fs::canonical(path, error);
  if (error) throw FileError("E_MISSING", path.string(), "", "no such model directory");
  if (!fs::is_directory(canonical, error)) {
    throw FileError("E_NOT_DIRECTORY",
                    path.string(),
                    "",
                    "is no model: pass the folder of a checkpoint, or a .gguf file");
  }
  roots_.push_back(canonical);
  const fs::path snapshots = canonical.parent_path();
  if (snapshots.filename() == "snapshots") {
    const fs::path blobs = snapshots.parent_path() / "blobs";
    if (fs::is_directory(fs::symlink_status(blobs, error))) roots_.push_back(blobs);
  }
}

ModelDirectory ModelDirectory::folder(std::string_view name) const {
  if (!is_plain_file_name(name)) {
    throw FileError("E_PATH",
                    path_.string(),
                    visible(name),
                    "is not the plain name of a folder inside the model directory");
  }
  ModelDirectory inner(path_ / name);
  const bool is_inside = std::any_of(roots_.begin(), roots_.end(), [&](const fs::path& root) {
    return lies_in(inner.roots_.front(), root);
  });
  if (!is_inside) {
    throw FileError(
        "E_PATH", path_of(name), "", "is a link that leads outside the model directory");
  }
  inner.roots_ = roots_;
  return inner;
}

std::string ModelDirectory::path_of(std::string_view file_name) const {
  return (path_ / visible(file_name)).string();
}

bool ModelDirectory::contains(std::string_view file_name) const {
  std::error_code error;
  return is_plain_file_name(file_name) && fs::exists(fs::symlink_status(path_ / file_name, error));
}

std::vector<std::string> ModelDirectory::names_with_ending(std::string_view ending,
                                                           size_t most) const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(path_, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    if (name.ends_with(ending) && names.size() < most) names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

InputFile ModelDirectory::open(std::string_view file_name) const {
  if (!is_plain_file_name(file_name)) {
    throw FileError("E_PATH",
                    path_.string(),
                    visible(file_name),
                    "is not a plain file name inside the model directory");
  }
  // The file is opened first and checked after that, so no other file can replace it after the
  // check.
  InputFile file = InputFile::open(path_ / file_name);
  std::error_code error;
  const fs::path resolved = fs::canonical(path_ / file_name, error);
  const bool is_inside = !error && std::any_of(roots_.begin(), roots_.end(), [&](const auto& root) {
    return lies_in(resolved, root);
  });
  if (!is_inside || !file.is_at(resolved)) {
    throw FileError("E_PATH",
                    path_of(file_name),
                    "",
                    "is a link that leads outside the model directory; copy the file into it");
  }
  return file;
}

std::string ModelDirectory::read_text(std::string_view file_name, uint64_t max_bytes) const {
  const InputFile file = open(file_name);
  if (file.size_bytes() > max_bytes) {
    throw FileError("E_TOO_LARGE",
                    file.path(),
                    "",
                    fmt::format("{} bytes, at most {} are accepted", file.size_bytes(), max_bytes));
  }
  std::string text(file.size_bytes(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)), "");
  return text;
}

}  // namespace reprise::weights
