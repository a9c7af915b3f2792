#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/api/graphs/graph_change.h"
#include "reprise/api/graphs/graph_change_stats.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/cudagraph/capture/capture_report.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"

namespace reprise::api {

struct ResolvedOptions;

/// A change must wait: another one still captures, or the engine sleeps.
class GraphsBusyError : public Error {
 public:
  using Error::Error;
};

/// Changes the graphs of an engine between its steps. A change takes effect at once: graphs that
/// the new plan lacks are destroyed, and batches that wait for a graph run with a larger one or
/// eagerly. The graphs that are missing are captured one after the other, within the budget.
///
/// Belongs to the engine's thread, except where a function says otherwise. All other functions need
/// that no step is in flight.
class GraphChanges {
 public:
  /// `engine` must outlive this object.
  explicit GraphChanges(LoadedEngine& engine);
  GraphChanges(const GraphChanges&) = delete;
  GraphChanges& operator=(const GraphChanges&) = delete;
  ~GraphChanges();

  /// Begins a change. Returns what changes and what the change costs. A change that the
  /// configuration would refuse at a start is refused in the same words; then nothing has changed.
  /// \throws InvalidArgument, GraphsBusyError
  [[nodiscard]] Json begin(const GraphChange& change);
  /// Whether the budget lets a graph be captured now. Called once after each step, while
  /// is_capturing(). `is_idle`: no request waits for the next step.
  [[nodiscard]] bool is_due(bool is_idle);
  /// Captures one graph. Returns whether more captures are left. \throws device::DeviceError
  [[nodiscard]] bool capture_one();
  [[nodiscard]] bool is_capturing() const;

  /// Captures a graph anew, replays it and its nodes over made-up requests, and measures them
  /// (runner::GraphProfile as JSON). The caches then hold values without a meaning.
  /// \pre no request holds blocks, and no prefix is cached
  /// \throws InvalidArgument for a key that has no graph, and for engines whose graphs cannot be
  /// replayed alone; GraphsBusyError
  [[nodiscard]] Json profile(std::string_view key);

  /// What GET /v1/graphs shows.
  [[nodiscard]] Json state() const;
  /// Thread-safe.
  [[nodiscard]] GraphChangeStats stats() const;

 private:
  struct Part;
  struct Progress;
  struct Cost {
    double ms = 0;
    size_t num_captures = 0;
  };

  [[nodiscard]] std::vector<Part> plan(const GraphChange& change) const;
  [[nodiscard]] static ResolvedOptions resolve(const LoadedEngine& engine,
                                               const GraphChange& change);
  void check_possible(const GraphChange& change) const;
  size_t apply(Part& part, const GraphChange& change);
  void add_cost(const cudagraph::CaptureRecord& record);
  [[nodiscard]] Json predict_captures() const;
  void finish();
  void publish(const cudagraph::CaptureRecord* captured = nullptr);
  void note(const std::string& line) const;
  [[nodiscard]] std::vector<LoadedEngine*> models() const;

  LoadedEngine* engine_;
  std::unique_ptr<Progress> last_;                    // the last change; nullptr: there was none
  std::array<Cost, 3> costs_{};                       // of captures so far, by runtime mode
  std::optional<std::optional<double>> memory_gb_s_;  // nothing: not measured yet
  double credit_ms_ = 0;                              // time that captures may take now
  std::string since_;                                 // UTC
  std::string last_refusal_;
  mutable std::mutex mutex_;
  GraphChangeStats stats_;  // guarded by mutex_
};

}  // namespace reprise::api
