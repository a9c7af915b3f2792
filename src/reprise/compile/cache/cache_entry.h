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

/// The reason why load() found no entry that may be used.
enum class MissReason : uint8_t {
  disabled,
  absent,
  foreign,       // another user could have written it
  unreadable,    // the file system reports an error; the entry itself may be intact
  broken,        // truncated, changed or incomplete; moved aside
  version,       // another format
  key_mismatch,  // another key stored in the same place
};
inline constexpr size_t kNumMissReasons = 7;

[[nodiscard]] std::string_view to_string(MissReason reason);

struct LoadOutcome {
  std::optional<std::vector<CacheFile>> files;  // in the order in which they were saved
  MissReason miss = MissReason::absent;         // meaningful without files
  std::string reason;                           // for the log; empty with files
  bool quarantined = false;                     // the broken entry was moved aside

  [[nodiscard]] bool is_hit() const noexcept { return files.has_value(); }
};

struct SaveOutcome {
  bool saved = false;
  std::string reason;  // for the log; empty when saved
};

}  // namespace reprise::compile
