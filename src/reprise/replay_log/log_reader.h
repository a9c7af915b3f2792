#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/replay_log/request_record.h"

namespace reprise::replay_log {

/// The contents of a log file.
struct LogContent {
  std::map<std::string, Json> engines;  // by RequestRecord::engine
  std::vector<RequestRecord> requests;  // in the order in which they ended
  /// A sentence for each line that was left out because a crash had cut it short or because it was
  /// changed.
  std::vector<std::string> problems;
};

/// Reads a whole log.
/// \throws FileError E_REPLAY_LOG if the file cannot be read, or if no line describes an engine
[[nodiscard]] LogContent read_log(const std::filesystem::path& path);

}  // namespace reprise::replay_log
