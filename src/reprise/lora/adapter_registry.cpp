#include "reprise/lora/adapter_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/text/visible_text.h"

namespace reprise::lora {

AdapterRegistry::AdapterRegistry(const AdapterSlots& slots, int32_t max_cpu_loras)
    : slots_(&slots), max_cpu_loras_(static_cast<size_t>(max_cpu_loras)) {}

AdapterRegistry::Row* AdapterRegistry::find_row(std::string_view name) {
  const auto found = std::find_if(
      rows_.begin(), rows_.end(), [&](const Row& row) { return row.entry.name == name; });
  return found == rows_.end() ? nullptr : &*found;
}

std::shared_ptr<const LoraAdapter> AdapterRegistry::read(const std::string& name,
                                                         const std::filesystem::path& folder) {
  uint64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = next_id_++;
  }
  return LoraAdapter::load(name, folder, slots_->layers(), id);
}

namespace {

/// The name is written into the log, into answers and into labels of metrics.
void check_name(std::string_view name) {
  if (!is_visible_text(name) || name.size() > AdapterRegistry::kMaxNameBytes) {
    throw InvalidArgument(fmt::format(
        "the name of an adapter has at most {} bytes and no control characters or other invisible "
        "marks, but this one is '{}'",
        AdapterRegistry::kMaxNameBytes,
        visible_text(name)));
  }
}

}  // namespace

void AdapterRegistry::load(AdapterEntry entry, IfLoaded if_loaded) {
  check_name(entry.name);
  const auto refuse_if_taken = [&] {
    if (if_loaded == IfLoaded::refuse && contains(entry.name)) {
      throw InvalidArgument(
          fmt::format("The lora adapter '{}' has already been loaded.", entry.name));
    }
  };
  refuse_if_taken();
  std::shared_ptr<const LoraAdapter> adapter = read(entry.name, entry.path);
  refuse_if_taken();  // another thread may have been quicker
  entry.created = std::time(nullptr);
  const std::lock_guard lock(mutex_);
  Row* row = find_row(entry.name);
  if (row == nullptr && rows_.size() == kMaxAdapters) {
    throw InvalidArgument(
        fmt::format("{} adapters have names already; unload one first", kMaxAdapters));
  }
  if (row == nullptr) row = &rows_.emplace_back();
  row->entry = std::move(entry);
  keep(*row, std::move(adapter));
}

bool AdapterRegistry::unload(std::string_view name) {
  const std::lock_guard lock(mutex_);
  return std::erase_if(rows_, [&](const Row& row) { return row.entry.name == name; }) > 0;
}

std::shared_ptr<const LoraAdapter> AdapterRegistry::find(std::string_view name) {
  std::filesystem::path folder;
  {
    const std::lock_guard lock(mutex_);
    Row* row = find_row(name);
    if (row == nullptr) return nullptr;
    if (row->adapter != nullptr) {
      row->last_use = ++num_uses_;
      return row->adapter;
    }
    folder = row->entry.path;
  }
  std::shared_ptr<const LoraAdapter> adapter = read(std::string(name), folder);
  const std::lock_guard lock(mutex_);
  if (Row* row = find_row(name); row != nullptr && row->entry.path == folder) keep(*row, adapter);
  return adapter;
}

// Drops the adapters that were used longest ago from host memory. \pre mutex_ is held
void AdapterRegistry::keep(Row& row, std::shared_ptr<const LoraAdapter> adapter) {
  row.adapter = std::move(adapter);
  row.last_use = ++num_uses_;
  const auto is_kept = [](const Row& each) { return each.adapter != nullptr; };
  while (std::cmp_greater(std::count_if(rows_.begin(), rows_.end(), is_kept), max_cpu_loras_)) {
    Row* oldest = nullptr;
    for (Row& each : rows_) {
      if (is_kept(each) && (oldest == nullptr || each.last_use < oldest->last_use)) oldest = &each;
    }
    oldest->adapter = nullptr;
  }
}

bool AdapterRegistry::contains(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(
      rows_.begin(), rows_.end(), [&](const Row& row) { return row.entry.name == name; });
}

std::vector<AdapterEntry> AdapterRegistry::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<AdapterEntry> entries;
  for (const Row& row : rows_) entries.push_back(row.entry);
  return entries;
}

}  // namespace reprise::lora
