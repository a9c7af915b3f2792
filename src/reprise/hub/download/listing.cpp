#include "reprise/hub/download/listing.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "reprise/base/error.h"
#include "reprise/base/json.h"

namespace reprise::hub {
namespace {

constexpr size_t kSha1Digits = 40;
constexpr size_t kSha256Digits = 64;
// Far above any file of a model, far below an overflow of sums.
constexpr uint64_t kMostBytes = uint64_t{1} << 50;

bool is_hash(std::string_view text, size_t num_digits) {
  return text.size() == num_digits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Json parse(std::string_view json, std::string_view where) {
  try {
    return parse_json(json, where);
  } catch (const InvalidArgument& error) {
    throw Error(fmt::format("{}; is HF_ENDPOINT the address of a hub?", error.what()));
  }
}

std::string text_of(const Json& object, const char* name) {
  if (!object.is_object()) return {};
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<uint64_t> size_of(const Json& object) {
  const auto found = object.find("size");
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto size = found->get<uint64_t>();
  return size <= kMostBytes ? std::optional(size) : std::nullopt;
}

RepositoryFile read_file(const Json& entry, std::string_view where) {
  RepositoryFile file{.path = text_of(entry, "path")};
  const auto refuse = [&](std::string_view why) {
    return Error(fmt::format("{}: the file '{}' {}", where, file.path, why));
  };
  if (!is_safe_path(file.path)) throw refuse("has a path that leads out of its folder");
  const bool is_large = entry.contains("lfs") && entry["lfs"].is_object();
  const Json& content = is_large ? entry["lfs"] : entry;
  file.hash_kind = is_large ? HashKind::sha256 : HashKind::git_sha1;
  file.hash = text_of(content, "oid");
  if (!is_hash(file.hash, is_large ? kSha256Digits : kSha1Digits)) {
    throw refuse("has no hash, so its content could not be checked");
  }
  const std::optional<uint64_t> size = size_of(content);
  if (!size) throw refuse("has no size that a file can have");
  file.size = *size;
  return file;
}

}  // namespace

bool is_safe_path(std::string_view path) {
  constexpr size_t kLongest = 1024;
  if (path.empty() || path.size() > kLongest) return false;
  const bool has_bad_byte =
      std::ranges::any_of(path, [](unsigned char c) { return c < ' ' || c == 127 || c == '\\'; });
  if (has_bad_byte) return false;
  while (true) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == path.size()) return true;
    path.remove_prefix(slash + 1);
  }
}

std::string read_commit(std::string_view json, std::string_view where) {
  std::string commit = text_of(parse(json, where), "sha");
  if (!is_hash(commit, kSha1Digits)) {
    throw Error(
        fmt::format("{}: the answer names no commit; is HF_ENDPOINT the address of a hub?", where));
  }
  return commit;
}

std::vector<RepositoryFile> read_tree(std::string_view json, std::string_view where) {
  const Json entries = parse(json, where);
  if (!entries.is_array()) throw Error(fmt::format("{}: the answer is not a list of files", where));
  std::vector<RepositoryFile> files;
  for (const Json& entry : entries) {
    if (text_of(entry, "type") == "file") files.push_back(read_file(entry, where));
  }
  return files;
}

}  // namespace reprise::hub
