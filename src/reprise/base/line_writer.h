#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace reprise {

/// Writes lines to a file descriptor from its own thread, so that write() never waits for a reader
/// that is slow or has stopped. When too many bytes are queued, further lines are dropped and
/// counted. When the reader has caught up, one line reports their number. Thread-safe. The
/// descriptor is borrowed.
class LineWriter {
 public:
  /// The line that reports how many lines were dropped, with its line end.
  using TellDropped = std::function<std::string(uint64_t num_lines)>;

  explicit LineWriter(int fd,
                      size_t max_waiting_bytes = size_t{1} << 20,
                      TellDropped tell_dropped = {});
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;
  /// Waits up to two seconds for the queued lines to be written; lines that are still queued then
  /// are lost. A thread that is still blocked by the reader keeps running.
  ~LineWriter();

  /// `line` ends with a line end.
  void write(std::string line);
  /// Number of lines that were dropped since the start.
  [[nodiscard]] uint64_t num_dropped() const;
  /// Waits until all lines are written. Returns false when `time` is over first.
  bool flush(std::chrono::milliseconds time);

 private:
  struct Shared;

  std::shared_ptr<Shared> shared_;  // shared with the thread, which may outlive this object
  std::thread thread_;
};

}  // namespace reprise
