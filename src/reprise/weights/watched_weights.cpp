#include "reprise/weights/watched_weights.h"

#include <algorithm>
#include <utility>

namespace reprise::weights {

WatchedWeights::WatchedWeights(std::unique_ptr<WeightSource> source, OnRead on_read)
    : source_(std::move(source)), on_read_(std::move(on_read)) {
  for (const std::string_view name : source_->names()) {
    bytes_total_ += source_->stored_bytes(name);
  }
}

const TensorSpec* WatchedWeights::find(std::string_view name) const { return source_->find(name); }

std::vector<std::string_view> WatchedWeights::names() const { return source_->names(); }

void WatchedWeights::read(std::string_view name, DType dtype, std::span<std::byte> dst) const {
  source_->read(name, dtype, dst);
  count(name);
}

std::optional<PanelFormat> WatchedWeights::panel_format(std::string_view name) const {
  return source_->panel_format(name);
}

void WatchedWeights::read_panels(std::string_view name, std::span<std::byte> dst) const {
  source_->read_panels(name, dst);
  count(name);
}

uint64_t WatchedWeights::stored_bytes(std::string_view name) const {
  return source_->stored_bytes(name);
}

void WatchedWeights::count(std::string_view name) const {
  const uint64_t bytes = source_->stored_bytes(name);
  on_read_(std::min(bytes_done_.fetch_add(bytes) + bytes, bytes_total_), bytes_total_);
}

std::string WatchedWeights::description() const { return source_->description(); }

}  // namespace reprise::weights
