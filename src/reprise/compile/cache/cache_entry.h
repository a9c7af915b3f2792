#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::compile {

/// One file of an entry. `name` is [A-Za-z0-9._-], at most 128 characters, no leading dot.
struct CacheFile {
  std::string name;
  std::string bytes;

  friend bool operator==(const CacheFile&, const CacheFile&) = default;
};

/// Why load() found no entry that can be used.
enum class MissReason : uint8_t {
  disabled,
  absent,
  foreign,       // another user could have written the entry
  unreadable,    // the file system reported an error; the entry itself may be intact
  broken,        // truncated, changed or incomplete; load() moves the entry aside
  version,       // written in another version of the format
  key_mismatch,  // the entry has another key: two keys have the same hash
};
inline constexpr size_t kNumMissReasons = 7;

[[nodiscard]] std::string_view to_string(MissReason reason);

struct LoadOutcome {
  std::optional<std::vector<CacheFile>> files;  // in the order in which they were saved
  MissReason miss = MissReason::absent;         // meaningful only if there are no files
  std::string reason;                           // for the log; empty if there are files
  bool quarantined = false;                     // whether the broken entry was moved aside

  [[nodiscard]] bool is_hit() const noexcept { return files.has_value(); }
};

struct SaveOutcome {
  bool saved = false;
  std::string reason;  // for the log; empty when saved
};

}  // namespace reprise::compile
