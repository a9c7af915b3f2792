#include "reprise/weights/sources/watched_weights.h"

#include <algorithm>
#include <utility>

namespace reprise::weights {

WatchedWeights::WatchedWeights(std::unique_ptr<WeightSource> source, OnRead on_read)
    : WrappedWeights(std::move(source)), on_read_(std::move(on_read)) {
  for (const std::string_view name : this->source().names()) {
    bytes_total_ += this->source().stored_bytes(name);
  }
}

void WatchedWeights::read(std::string_view name, DType dtype, std::span<std::byte> dst) const {
  source().read(name, dtype, dst);
  count(source().stored_bytes(name));
}

void WatchedWeights::read_panels(std::string_view name, std::span<std::byte> dst) const {
  source().read_panels(name, dst);
  count(source().stored_bytes(name));
}

void WatchedWeights::read_rows(std::string_view name,
                               RowRange rows,
                               DType dtype,
                               std::span<std::byte> dst) const {
  source().read_rows(name, rows, dtype, dst);
  count(bytes_of(name, rows));
}

void WatchedWeights::read_panel_rows(std::string_view name,
                                     RowRange rows,
                                     std::span<std::byte> dst) const {
  source().read_panel_rows(name, rows, dst);
  count(bytes_of(name, rows));
}

uint64_t WatchedWeights::bytes_of(std::string_view name, RowRange rows) const {
  const uint64_t bytes = source().stored_bytes(name);
  const auto num_rows = static_cast<uint64_t>(source().find(name)->shape[0]);
  const auto bytes_before = [&](int64_t row) {
    return bytes / num_rows * static_cast<uint64_t>(row) +
           bytes % num_rows * static_cast<uint64_t>(row) / num_rows;
  };
  return bytes_before(rows.first + rows.count) - bytes_before(rows.first);
}

void WatchedWeights::count(uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  bytes_done_ += bytes;
  on_read_(std::min(bytes_done_, bytes_total_), bytes_total_);
}

}  // namespace reprise::weights
