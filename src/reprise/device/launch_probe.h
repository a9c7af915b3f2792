#pragma once

#include <cstddef>

#include "reprise/device/kernel.h"

namespace reprise::device {

/// Watches the work of a stream and may leave it out, for diagnosis: see ProbedStream. Its
/// functions are called on the stream's thread before the work runs.
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
