#include "reprise/kv_cache/transfer/kv_exports.h"

#include <utility>

namespace reprise::kv_cache {

void KvExports::forget_expired() {
  const Clock::time_point now = Clock::now();
  std::erase_if(entries_, [&](const auto& entry) {
    if (entry.second.expires > now) return false;
    counts_.bytes -= entry.second.image->bytes.bytes().size();
    ++counts_.num_expired;
    return true;
  });
}

bool KvExports::has_room(size_t num_bytes) {
  const std::lock_guard lock(mutex_);
  forget_expired();
  const bool fits = counts_.bytes <= max_bytes_ && num_bytes <= max_bytes_ - counts_.bytes;
  if (!fits) ++counts_.num_refused;
  return fits;
}

bool KvExports::add(const std::string& id, std::shared_ptr<const KvImage> image) {
  const size_t num_bytes = image->bytes.bytes().size();
  if (!has_room(num_bytes)) return false;
  const std::lock_guard lock(mutex_);
  if (!entries_.emplace(id, Entry{std::move(image), Clock::now() + keep_time_}).second) {
    return false;
  }
  counts_.bytes += num_bytes;
  ++counts_.num_taken_in;
  return true;
}

std::shared_ptr<const KvImage> KvExports::find(const std::string& id) {
  const std::lock_guard lock(mutex_);
  forget_expired();
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : found->second.image;
}

void KvExports::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  counts_.bytes -= found->second.image->bytes.bytes().size();
  entries_.erase(found);
}

void KvExports::count_refused() {
  const std::lock_guard lock(mutex_);
  ++counts_.num_refused;
}

KvExportCounts KvExports::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace reprise::kv_cache
