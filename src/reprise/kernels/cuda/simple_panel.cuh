#pragma once

#include "reprise/kernels/cuda/block.cuh"
#include "reprise/tensor/codecs.h"

namespace reprise::kernels::cuda {

/// A panel of a weight without a header.
struct SimplePanel {
  const char* bytes;
  /// Entry lane % 16 of the panel's last list: the scale of a column, or the number of a code.
  float entry;
  int columns;
  int64_t column;
};

REPRISE_DEVICE SimplePanel simple_panel(const void* weight,
                                        int64_t index,
                                        int64_t panel_bytes,
                                        int64_t list_at) {
  SimplePanel panel = {.bytes = static_cast<const char*>(weight) + index * panel_bytes,
                       .entry = 0,
                       .columns = static_cast<int>(kPanelColumns),
                       .column = index * kPanelColumns};
  if (list_at >= 0) {
    const int at = lane_index() % static_cast<int>(kPanelColumns) * 4;
    panel.entry = float_of(load_word(panel.bytes + list_at + at));
  }
  return panel;
}

}  // namespace reprise::kernels::cuda
