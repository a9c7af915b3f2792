#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

namespace reprise {

/// Writes lines to a file descriptor from a thread of its own, so that the callers of write() never
/// wait for a reader that is slow or has stopped. When too many bytes wait, further lines are
/// dropped and counted; a line with their number follows when the reader has caught up.
/// Thread-safe. The descriptor is borrowed.
class LineWriter {
 public:
  explicit LineWriter(int fd, size_t max_waiting_bytes = size_t{1} << 20);
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;
  /// Waits up to two seconds for lines to be written. The rest is lost, and a thread that the
  /// reader still holds up is left behind.
  ~LineWriter();

  /// `line` ends with a line end.
  void write(std::string line);
  /// Lines that were dropped since the start.
  [[nodiscard]] uint64_t num_dropped() const;
  /// Waits until all lines are written. Returns false when `time` is over before.
  bool flush(std::chrono::milliseconds time);

 private:
  struct Shared;

  std::shared_ptr<Shared> shared_;  // with the thread, which may outlive this object
  std::thread thread_;
};

}  // namespace reprise
