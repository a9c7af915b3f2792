#include "reprise/tensor/column_panels.h"

#include <cstring>
#include <vector>

#include "reprise/base/assert.h"

namespace reprise {

void pack_column_panels(std::span<std::byte> matrix, int64_t columns, int64_t depth) {
  REPRISE_ASSERT(fits_column_panels(columns, depth) &&
                     matrix.size() == static_cast<size_t>(columns * depth) * sizeof(uint16_t),
                 "{} bytes as panels of {} x {} elements",
                 matrix.size(),
                 columns,
                 depth);
  const int64_t pairs = depth / 2;
  const size_t panel_pairs = static_cast<size_t>(pairs * kPanelColumns);
  std::vector<uint32_t> rows(panel_pairs);  // a pair is moved as one number
  const size_t panel_bytes = panel_pairs * sizeof(uint32_t);
  for (size_t at = 0; at < matrix.size(); at += panel_bytes) {
    std::memcpy(rows.data(), matrix.data() + at, panel_bytes);
    std::byte* to = matrix.data() + at;
    for (int64_t pair = 0; pair < pairs; ++pair) {
      uint32_t line[kPanelColumns];
      for (int64_t column = 0; column < kPanelColumns; ++column) {
        line[column] = rows[static_cast<size_t>(column * pairs + pair)];
      }
      std::memcpy(to, line, sizeof line);
      to += sizeof line;
    }
  }
}

}  // namespace reprise
