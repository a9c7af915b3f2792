#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/base/line_writer.h"

namespace reprise::server {

/// Writes one line per answer, in uvicorn's form.
class AccessLog {
 public:
  /// `unlogged_paths`: exact paths that get no line.
  AccessLog(std::shared_ptr<LineWriter> lines, bool is_on, std::vector<std::string> unlogged_paths)
      : lines_(std::move(lines)), is_on_(is_on), unlogged_paths_(std::move(unlogged_paths)) {}

  /// `request_line`: "GET /health HTTP/1.1".
  void write(std::string_view peer, std::string_view request_line, int status) const;

 private:
  std::shared_ptr<LineWriter> lines_;  // shared with the other logs of the server
  bool is_on_;
  std::vector<std::string> unlogged_paths_;
};

}  // namespace reprise::server
