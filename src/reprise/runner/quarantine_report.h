#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/runner/graph_bisect.h"
#include "reprise/runner/shadow_check.h"
#include "reprise/scheduler/step_entry.h"

namespace reprise::runner {

/// A step whose replay was wrong. Borrows everything.
struct QuarantinedStep {
  const cudagraph::Decision& decision;
  std::span<const scheduler::StepEntry> requests;
  const StepDifference* difference = nullptr;  // nullptr: another rank found it
  const WrongNode* wrong_node = nullptr;       // nullptr: it was not looked for
};

/// Writes a report about the staged step as JSON, and beside it the part of the caches and states
/// that the step reads, so that `reprise graph bisect` can repeat the step. Returns the report's
/// path; empty if the check has no folder, or if the file could not be written, which its log says.
/// \pre the memory of the step is as it was before the step, if `wrong_node` is there
[[nodiscard]] std::filesystem::path write_quarantine_report(const ShadowCheck& check,
                                                            device::Stream& stream,
                                                            const QuarantinedStep& step);

/// A step read from a report. Owns the memory to which its requests refer.
class SavedStep {
 public:
  /// \throws FileError E_REPORT if the report or its state file is damaged
  explicit SavedStep(const std::filesystem::path& report);
  SavedStep(const SavedStep&) = delete;
  SavedStep& operator=(const SavedStep&) = delete;

  /// Copies the state into the caches of an engine whose blocks are all free. \throws
  /// InvalidArgument if the caches have another layout or fewer blocks
  void load_into(const StepMemory& memory, device::Stream& stream);

  [[nodiscard]] const cudagraph::Decision& decision() const noexcept { return decision_; }
  /// \pre load_into() was called
  [[nodiscard]] std::span<const scheduler::StepEntry> requests() const noexcept { return entries_; }
  [[nodiscard]] const Json& report() const noexcept { return report_; }

 private:
  void make_requests(std::span<const int32_t> old_blocks, const StepMemory& memory);

  std::filesystem::path path_;
  Json report_;
  std::vector<std::byte> state_;
  cudagraph::Decision decision_;
  std::vector<std::vector<int32_t>> tokens_;                // by request
  std::vector<std::vector<kv_cache::BlockId>> blocks_;      // by request
  std::vector<std::vector<kv_cache::BlockId>> of_encoder_;  // by request
  std::vector<scheduler::StepEntry> entries_;
};

}  // namespace reprise::runner
