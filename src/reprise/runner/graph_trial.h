#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "reprise/cudagraph/batch_descriptor.h"
#include "reprise/cudagraph/capture/capture_report.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/cudagraph/cudagraph_mode.h"
#include "reprise/cudagraph/verify/graph_rule.h"
#include "reprise/runner/made_up_requests.h"
#include "reprise/tensor/tensor.h"

namespace reprise::runner {

class ExpertCounts;
class ModelRunner;

/// The part of --verify-graphs=strict that works on the device, for errors that addresses do not
/// show. Replays each captured key over a few made-up requests whose contexts end at the end of a
/// cache block, with padding beside them.
///
/// \pre no request has a block or a state slot, and the caches hold zeros. They hold zeros again
/// after each call. Belongs to the runner's thread.
class GraphTrial {
 public:
  /// `runner` must outlive this object. `counts`: saved before and restored after trials; nullptr
  /// if there are none.
  GraphTrial(ModelRunner& runner, ExpertCounts* counts);
  GraphTrial(const GraphTrial&) = delete;
  GraphTrial& operator=(const GraphTrial&) = delete;
  ~GraphTrial();

  /// Tries all captured keys, and retires those that break a rule. Writes the verdicts to the
  /// report.
  void try_keys(cudagraph::CudagraphDispatcher& dispatcher, cudagraph::CaptureReport& report);

 private:
  /// Whether warm-up and captures have changed the null block or a state. Afterwards the caches
  /// hold zeros again.
  [[nodiscard]] std::optional<cudagraph::Violation> find_trace();
  /// The first rule that the key breaks. Nothing if the key keeps all rules, or if the caches are
  /// too small for one made-up request.
  [[nodiscard]] std::optional<cudagraph::Violation> try_key(
      cudagraph::CudagraphRuntimeMode mode, const cudagraph::BatchDescriptor& descriptor);

  using Bits = std::vector<float>;

  /// Equal parts of several tensors: the blocks of the KV cache, or the slots of states.
  struct Parts {
    std::span<const Tensor> tensors;
    size_t count = 0;  // of each tensor

    [[nodiscard]] bool empty() const noexcept { return tensors.empty(); }
  };

  [[nodiscard]] bool make_requests(cudagraph::CudagraphRuntimeMode mode,
                                   const cudagraph::BatchDescriptor& descriptor);
  void add_request(int32_t num_tokens, int32_t num_drafts);
  /// Runs the requests over fresh caches, with `null_value` in every byte of the null block.
  Bits run(cudagraph::CudagraphRuntimeMode mode,
           const cudagraph::BatchDescriptor& descriptor,
           cudagraph::CudagraphRuntimeMode run_as,
           std::byte null_value);
  void fill(const Parts& parts, size_t first, size_t count, std::byte value);
  [[nodiscard]] bool holds_only(const Parts& parts, size_t first, size_t count, std::byte value);
  void clean();

  ModelRunner* runner_;
  ExpertCounts* counts_;
  std::vector<std::byte> counts_before_;
  Parts blocks_;
  Parts slots_;
  MadeUpRequests requests_;
  std::vector<std::byte> host_;
};

}  // namespace reprise::runner
