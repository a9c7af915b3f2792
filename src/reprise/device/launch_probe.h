#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "reprise/device/kernel.h"

namespace reprise::device {

/// For diagnosis: watches the work of a stream, and may skip or time it; see ProbedStream. Its
/// functions are called on the stream's thread, and before the work runs unless their comments say
/// otherwise.
class LaunchProbe {
 public:
  LaunchProbe() = default;
  LaunchProbe(const LaunchProbe&) = delete;
  LaunchProbe& operator=(const LaunchProbe&) = delete;
  virtual ~LaunchProbe() = default;

  /// A capture records this launch.
  virtual void on_recorded(const Launch& /*launch*/) {}
  /// This launch, copy or fill is about to run. Returns false to skip it.
  virtual bool on_launch(const Launch& /*launch*/) { return true; }
  /// A graph is about to run. Returns how many of its first nodes run.
  virtual size_t on_graph(size_t num_nodes) { return num_nodes; }

  /// How many timed runs each launch and each node makes before the next one begins. 0: one run
  /// without a time. 1: one timed run in its place in the work, where the caches hold what the work
  /// before it left. More: so many runs in a row, after one that is not timed.
  [[nodiscard]] virtual uint32_t timed_runs() const { return 0; }
  /// Called after the work with the time of all timed runs of one launch or node: once for each of
  /// them, in their order; for the nodes of a graph after the last node. The time of a node in its
  /// place goes from the end of the node before it to its own end.
  virtual void on_time(std::chrono::nanoseconds /*time*/) {}
};

/// A stream whose work a probe can watch. Only some devices have such streams: use dynamic_cast.
class ProbedStream {
 public:
  /// From now on, this probe sees all work of the stream; nullptr: no probe does. Borrowed.
  virtual void set_probe(LaunchProbe* probe) noexcept = 0;

 protected:
  ProbedStream() = default;
  ProbedStream(const ProbedStream&) = default;
  ProbedStream& operator=(const ProbedStream&) = default;
  ~ProbedStream() = default;
};

}  // namespace reprise::device
