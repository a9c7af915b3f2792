#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::hub {

/// The kind of hash with which the hub names the content of a file: SHA-256 for large files, Git's
/// SHA-1 for others.
enum class HashKind : uint8_t { sha256, git_sha1 };

/// A file of a repository, with values that are safe to use: the path stays inside its folder, the
/// hash has only hexadecimal digits.
struct RepositoryFile {
  std::string path;   // relative, with '/'
  uint64_t size = 0;  // bytes
  HashKind hash_kind = HashKind::git_sha1;
  std::string hash;  // lower case; also the name of the file's content in the cache
};

/// Whether a relative path with '/' stays below its folder.
[[nodiscard]] bool is_safe_path(std::string_view path);

/// The commit in the hub's answer about a revision. `where` names the answer in messages.
/// \throws Error when the answer names no commit
[[nodiscard]] std::string read_commit(std::string_view json, std::string_view where);

/// The files in one page of the hub's list of a commit's tree. \throws Error when the page is not
/// such a list, or has an unsafe path, an invalid hash or an invalid size
[[nodiscard]] std::vector<RepositoryFile> read_tree(std::string_view json, std::string_view where);

}  // namespace reprise::hub
