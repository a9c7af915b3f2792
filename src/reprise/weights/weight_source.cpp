#include "reprise/weights/weight_source.h"

#include "reprise/base/assert.h"

namespace reprise::weights {

std::optional<PanelFormat> WeightSource::panel_format(std::string_view) const {
  return std::nullopt;
}

void WeightSource::read_panels(std::string_view name, std::span<std::byte>) const {
  REPRISE_ASSERT(false, "{}: the source packs no tensor", name);
}

void require_size(std::string_view name,
                  uint64_t num_elements,
                  DType dtype,
                  std::span<const std::byte> dst) {
  REPRISE_ASSERT(dst.size() == num_elements * dtype_bytes(dtype),
                 "{}: {} elements of {} do not fit a destination of {} bytes",
                 name,
                 num_elements,
                 dtype_name(dtype),
                 dst.size());
}

bool WeightSource::reads_rows(std::string_view) const { return false; }

void WeightSource::read_rows(std::string_view name, RowRange, DType, std::span<std::byte>) const {
  REPRISE_ASSERT(false, "{}: the source reads whole tensors only", name);
}

void WeightSource::read_panel_rows(std::string_view name, RowRange, std::span<std::byte>) const {
  REPRISE_ASSERT(false, "{}: the source packs whole tensors only", name);
}

uint64_t WeightSource::stored_bytes(std::string_view name) const { return size_bytes(*find(name)); }

}  // namespace reprise::weights
