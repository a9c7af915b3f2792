#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/models/part_runner.h"
#include "reprise/sampling/row_passes.h"
#include "reprise/sampling/sampler.h"

namespace reprise::runner {

/// The sampler's passes with the vectors of an instruction set; plain loops if the table has no
/// such kernels.
[[nodiscard]] std::unique_ptr<sampling::RowPasses> make_row_passes(
    const kernels::KernelTable& kernels);

/// The samplers of the host. The workers of a CPU sample rows of a step side by side. The result of
/// a row depends neither on the number of workers nor on the worker that samples it. For other
/// devices the calling thread samples the rows one after the other. Only the constructor allocates.
/// Belongs to one thread. Borrows the stream and the kernels.
class SamplingTeam {
 public:
  /// `stream`: of the device that computes the logits
  SamplingTeam(device::Stream& stream, const kernels::KernelTable& kernels, int vocab_size);

  /// Calls `job(i, sampler)` for all i below `num_jobs`, in any order and from several threads.
  /// Each call has a sampler for itself. Returns when all calls have returned. \throws the
  /// exceptions of calls; later calls may then be left out
  template <typename Job>
  void run(size_t num_jobs, const Job& job) {
    std::atomic<size_t> next{0};
    // std::function needs no memory for a lambda with one pointer.
    const auto take_jobs = [&, this](size_t part) {
      for (size_t i = next++; i < num_jobs; i = next++) job(i, *samplers_[part]);
    };
    const size_t num_parts = std::min(num_jobs, samplers_.size());
    workers_.run(static_cast<int64_t>(num_parts),
                 [&take_jobs](int64_t part) { take_jobs(static_cast<size_t>(part)); });
  }

  /// A sampler for the calling thread. \pre run() is not running
  [[nodiscard]] sampling::Sampler& sampler() noexcept { return *samplers_.front(); }

 private:
  models::PartRunner workers_;
  std::unique_ptr<sampling::RowPasses> passes_;
  std::vector<std::unique_ptr<sampling::Sampler>> samplers_;
};

}  // namespace reprise::runner
