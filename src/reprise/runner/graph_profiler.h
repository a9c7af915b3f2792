#pragma once

#include <cstdint>
#include <optional>

#include "reprise/runner/graph_profile.h"
#include "reprise/runner/made_up_requests.h"
#include "reprise/runner/model_runner.h"

namespace reprise::runner {

struct GraphProfilerOptions {
  int32_t num_replays = 20;  // number of replays from which each time is taken, at least 1
  /// The number of tokens that each made-up request has in the cache before the step. Nothing: as
  /// many as fit, but at most 256.
  std::optional<int32_t> context_len;
  /// The number of requests, if the key leaves it open. Nothing: the smallest number that can have
  /// this many tokens.
  std::optional<int32_t> num_reqs;
  /// The number of rows in tables that are looked up by position; 0: unknown, so tables count as a
  /// whole.
  int64_t num_positions = 0;
};

/// Replays captured keys over made-up requests that fill them, and measures the whole and each
/// node. A node is timed twice: in its place in a replay, and alone, again and again.
///
/// Afterwards the caches hold values without a meaning. \pre ModelRunner::inventory() != nullptr,
/// there are no other ranks and no encoder, and no request has a block. Belongs to the runner's
/// thread.
class GraphProfiler {
 public:
  /// `runner` must outlive this object.
  GraphProfiler(ModelRunner& runner, const GraphProfilerOptions& options) noexcept
      : runner_(&runner), options_(options) {}

  /// The whole profile except the engine and the bandwidth of memory. \pre the key is captured
  /// \throws InvalidArgument if the context does not fit into the cache
  [[nodiscard]] GraphProfile profile(cudagraph::CudagraphRuntimeMode mode,
                                     const cudagraph::BatchDescriptor& descriptor);
  /// The same without the times of nodes.
  [[nodiscard]] GraphProfile measure_whole(cudagraph::CudagraphRuntimeMode mode,
                                           const cudagraph::BatchDescriptor& descriptor);

 private:
  [[nodiscard]] GraphProfile begin(cudagraph::CudagraphRuntimeMode mode,
                                   const cudagraph::BatchDescriptor& descriptor);
  /// Makes the requests of the profile, each with `context_len` tokens in the cache. Returns false
  /// if they do not fit into the cache.
  [[nodiscard]] bool make_requests(const GraphProfile& profile, int32_t context_len);
  /// Replays the step, or runs it eagerly. Returns the microseconds after its staging.
  double run(const GraphProfile& profile, cudagraph::CudagraphRuntimeMode run_as);
  void time_nodes(GraphProfile& profile);

  ModelRunner* runner_;
  GraphProfilerOptions options_;
  MadeUpRequests requests_;
};

/// Computes which batches run with this key.
[[nodiscard]] PaddingWaste padding_of(const cudagraph::CudagraphDispatcher& dispatcher,
                                      cudagraph::CudagraphRuntimeMode mode,
                                      const cudagraph::BatchDescriptor& descriptor);

}  // namespace reprise::runner
