#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace reprise::scheduler {

/// The different LoRA adapters of some requests. A step may have at most `max_loras`. A linear
/// search is enough, because there are only as many as slots. Never allocates after construction.
class AdapterSet {
 public:
  explicit AdapterSet(int max_loras) : max_size_(static_cast<size_t>(max_loras)) {
    ids_.reserve(max_size_);
  }

  void clear() noexcept { ids_.clear(); }
  /// The id 0 stands for no adapter: it always has room and is not counted.
  [[nodiscard]] bool has_room_for(uint64_t lora_id) const noexcept {
    return lora_id == 0 || ids_.size() < max_size_ || contains(lora_id);
  }
  /// \pre has_room_for(lora_id)
  void add(uint64_t lora_id) {
    if (lora_id != 0 && !contains(lora_id)) ids_.push_back(lora_id);
  }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(ids_.size()); }

 private:
  [[nodiscard]] bool contains(uint64_t lora_id) const noexcept {
    return std::find(ids_.begin(), ids_.end(), lora_id) != ids_.end();
  }

  size_t max_size_;
  std::vector<uint64_t> ids_;
};

}  // namespace reprise::scheduler
