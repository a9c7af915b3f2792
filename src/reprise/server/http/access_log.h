#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace reprise::server {

/// Writes one line per answer to standard error, in uvicorn's form. The log never waits: it drops a
/// line when the pipe behind standard error has no room.
class AccessLog {
 public:
  /// `unlogged_paths`: exact paths that get no line.
  AccessLog(bool is_on, std::vector<std::string> unlogged_paths)
      : is_on_(is_on), unlogged_paths_(std::move(unlogged_paths)) {}

  /// `request_line`: "GET /health HTTP/1.1".
  void write(std::string_view peer, std::string_view request_line, int status) const;

 private:
  bool is_on_;
  std::vector<std::string> unlogged_paths_;
};

}  // namespace reprise::server
