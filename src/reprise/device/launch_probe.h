#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "reprise/device/kernel.h"

namespace reprise::device {

/// Watches the work of a stream, may leave it out and may time it, for diagnosis: see ProbedStream.
/// Its functions are called on the stream's thread, before the work runs unless they say otherwise.
class LaunchProbe {
 public:
  LaunchProbe() = default;
  LaunchProbe(const LaunchProbe&) = delete;
  LaunchProbe& operator=(const LaunchProbe&) = delete;
  virtual ~LaunchProbe() = default;

  /// A capture records this launch.
  virtual void on_recorded(const Launch& /*launch*/) {}
  /// This launch, copy or fill is about to run. false: it is left out.
  virtual bool on_launch(const Launch& /*launch*/) { return true; }
  /// A graph is about to run. Returns how many of its first nodes run.
  virtual size_t on_graph(size_t num_nodes) { return num_nodes; }

  /// How often each launch and each node that is about to run does so before the next one, to be
  /// timed. 0: once, and it is not timed. 1: in its place in the work, where the caches hold what
  /// the work before it left. More: alone, after one run that is not timed.
  [[nodiscard]] virtual uint32_t timed_runs() const { return 0; }
  /// After the work: the time of all timed runs of one launch or node. Comes once for each of them,
  /// in their order; for the nodes of a graph after the last one. The time of a node in its place
  /// goes from the end of the node before it to its own end.
  virtual void on_time(std::chrono::nanoseconds /*time*/) {}
};

/// A stream whose work can be watched. Only some devices have such streams: use dynamic_cast.
class ProbedStream {
 public:
  /// From now on, this probe sees all work of the stream; nullptr: none does. Borrowed.
  virtual void set_probe(LaunchProbe* probe) noexcept = 0;

 protected:
  ProbedStream() = default;
  ProbedStream(const ProbedStream&) = default;
  ProbedStream& operator=(const ProbedStream&) = default;
  ~ProbedStream() = default;
};

}  // namespace reprise::device
