#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/config/compilation_config.h"
#include "reprise/cudagraph/attention_support.h"
#include "reprise/cudagraph/capture_sizes.h"
#include "reprise/cudagraph/cudagraph_mode.h"

namespace reprise::config {

/// One rule that was applied. The ids are those of the behaviour reference: A is configuration, B
/// splitting, C attention support, S capture sizes.
struct ResolutionReason {
  std::string rule;
  std::string text;
  cudagraph::CudagraphMode before = cudagraph::CudagraphMode::NONE;
  cudagraph::CudagraphMode after = cudagraph::CudagraphMode::NONE;

  friend bool operator==(const ResolutionReason&, const ResolutionReason&) = default;
};

/// The result of resolve(): the mode and sizes that the engine uses, with the reasons for each
/// change.
struct ResolvedConfig {
  std::optional<cudagraph::CudagraphMode> requested;  // unset = the user did not choose a mode
  cudagraph::CudagraphMode mode = cudagraph::CudagraphMode::NONE;
  /// The level that the user asked for. The engine may run another level and reports that one.
  CompilationMode compilation_mode = CompilationMode::NONE;
  std::vector<std::string> splitting_ops;
  bool piecewise_available = false;
  cudagraph::CaptureSizes capture_sizes;
  /// Decode steps of other query lengths that get FULL graphs: with speculation, steps without
  /// drafts.
  std::vector<cudagraph::DecodeWidth> other_decode_widths;
  /// Those query lengths of other_decode_widths that have drafts, ascending.
  [[nodiscard]] std::vector<int> fewer_draft_widths() const {
    std::vector<int> widths;
    for (const cudagraph::DecodeWidth& width : other_decode_widths) {
      if (width.query_len > 1) widths.push_back(width.query_len);
    }
    return widths;
  }
  std::vector<int32_t> compile_sizes;
  std::vector<std::string> custom_ops;
  PassConfig pass_config;
  int32_t num_of_warmups = 0;
  int32_t uniform_decode_query_len = 1;
  /// The backends of all attention groups, and the backend that decides.
  std::vector<cudagraph::AttentionBackendSupport> attention;
  cudagraph::AttentionBackendSupport weakest_attention;
  std::vector<ResolutionReason> reasons;
  std::vector<std::string> warnings;
};

}  // namespace reprise::config
