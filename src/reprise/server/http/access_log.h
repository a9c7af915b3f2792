#pragma once

#include <string>
#include <utility>
#include <vector>

#include "reprise/base/log.h"
#include "reprise/server/http/http_server.h"

namespace reprise::server {

/// Writes one line per request, when its answer has ended. The message begins as uvicorn's does,
/// and the rest is written as name=value:
///
///     127.0.0.1:50000 - "POST /v1/completions HTTP/1.1" 200 OK duration=1.234s prompt_tokens=12
///
/// In the JSON form of the log each value is also a member.
class AccessLog {
 public:
  /// `unlogged_paths`: exact paths that get no line.
  AccessLog(Log log, bool is_on, std::vector<std::string> unlogged_paths)
      : log_(std::move(log)), is_on_(is_on), unlogged_paths_(std::move(unlogged_paths)) {}

  void write(const AnsweredRequest& request) const;

 private:
  Log log_;
  bool is_on_;
  std::vector<std::string> unlogged_paths_;
};

}  // namespace reprise::server
