#include "reprise/kv_cache/tensors/growing_rows.h"

#include <numeric>
#include <utility>

#include "reprise/base/assert.h"
#include "reprise/device/page_size.h"

namespace reprise::kv_cache {
namespace {

size_t to_size(int64_t value) { return static_cast<size_t>(value); }

}  // namespace

GrowingRows::GrowingRows(std::vector<size_t> row_bytes, RowCounts rows, device::Device& device)
    : row_bytes_(std::move(row_bytes)), rows_(rows) {
  const bool grows = rows.with_memory < rows.with_addresses;
  if (grows) growing_ = device::reservable_memory(device);
  REPRISE_ASSERT(
      !grows || growing_ != nullptr,
      "{} of {} rows have memory, but the device {} cannot reserve addresses for the others",
      rows.with_memory,
      rows.with_addresses,
      device.name());
  // Memory comes in granules, so each tensor that grows begins at the start of a granule.
  const size_t granularity = grows ? growing_->granularity() : 1;
  size_t offset = 0;
  for (const size_t bytes : row_bytes_) {
    offsets_.push_back(offset);
    offset += device::round_up(bytes * to_size(rows.with_addresses), granularity);
  }
  if (!grows) {
    buffer_ = device.allocate(offset);
    return;
  }
  committed_.assign(row_bytes_.size(), 0);
  buffer_ = growing_->reserve(offset);
  rows_.with_memory = 0;
  grow(rows.with_memory);
}

void GrowingRows::grow(int64_t num_rows) {
  if (num_rows <= rows_.with_memory) return;
  REPRISE_ASSERT(num_rows <= rows_.with_addresses,
                 "{} rows, {} have addresses",
                 num_rows,
                 rows_.with_addresses);
  const size_t granularity = growing_->granularity();
  for (size_t i = 0; i < row_bytes_.size(); ++i) {
    const size_t wanted = device::round_up(row_bytes_[i] * to_size(num_rows), granularity);
    if (wanted <= committed_[i]) continue;
    growing_->commit(buffer_.view(), offsets_[i] + committed_[i], wanted - committed_[i]);
    committed_[i] = wanted;
  }
  rows_.with_memory = num_rows;
}

size_t GrowingRows::bytes() const noexcept {
  if (growing_ == nullptr) return buffer_.bytes();
  return std::accumulate(committed_.begin(), committed_.end(), size_t{0});
}

size_t GrowingRows::bytes_of(std::span<const size_t> row_bytes,
                             int64_t num_rows,
                             size_t granularity) noexcept {
  size_t bytes = 0;
  for (const size_t of_row : row_bytes) {
    bytes += device::round_up(of_row * to_size(num_rows), granularity);
  }
  return bytes;
}

}  // namespace reprise::kv_cache
