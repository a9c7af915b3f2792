#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "reprise/cudagraph/batch_descriptor.h"
#include "reprise/cudagraph/cudagraph_mode.h"

namespace reprise::cudagraph {

/// The result of capturing one key.
struct CaptureRecord {
  CudagraphRuntimeMode mode = CudagraphRuntimeMode::NONE;
  BatchDescriptor descriptor;
  double seconds = 0;
  size_t bytes = 0;     // memory that this capture took
  std::string failure;  // why the key was retired; empty: it was captured
};

struct CaptureReport {
  std::vector<CaptureRecord> records;
  double seconds = 0;
  size_t bytes = 0;

  [[nodiscard]] size_t num_captured() const noexcept;
};

}  // namespace reprise::cudagraph
