#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/lora/adapter_slots.h"
#include "reprise/lora/lora_adapter.h"

namespace reprise::lora {

/// An adapter that requests may name.
struct AdapterEntry {
  std::string name;
  std::filesystem::path path;
  // The name that the user gives to the model of the adapter; empty: not given.
  std::string base_model_name;
  int64_t created = 0;  // seconds since 1970
};

/// The adapters of an engine by name. The adapters that were asked for last stay in host memory, at
/// most `max_cpu_loras` of them; the others are read from their folders again when a request names
/// them. Thread-safe; files are read without holding the lock.
class AdapterRegistry {
 public:
  static constexpr size_t kMaxNameBytes = 256;
  static constexpr size_t kMaxAdapters = 4096;

  /// `slots` must outlive this and have all layers of the model.
  AdapterRegistry(const AdapterSlots& slots, int32_t max_cpu_loras);

  enum class IfLoaded : uint8_t { refuse, replace };
  /// Reads an adapter and gives it a name. \throws InvalidArgument if the name contains characters
  /// that cannot be shown, or if it is taken and the adapter is not to be replaced; FileError
  void load(AdapterEntry entry, IfLoaded if_loaded = IfLoaded::refuse);
  /// Forgets a name. Requests that run keep their adapter. Returns false for an unknown name.
  [[nodiscard]] bool unload(std::string_view name);

  /// The adapter of that name; nullptr if there is none. May read its folder again.
  /// \throws FileError
  [[nodiscard]] std::shared_ptr<const LoraAdapter> find(std::string_view name);
  [[nodiscard]] bool contains(std::string_view name) const;
  /// The adapters in the order in which they were loaded.
  [[nodiscard]] std::vector<AdapterEntry> entries() const;
  [[nodiscard]] int32_t max_loras() const noexcept { return slots_->max_loras(); }

 private:
  struct Row {
    AdapterEntry entry;
    std::shared_ptr<const LoraAdapter> adapter;  // nullptr: not in host memory
    uint64_t last_use = 0;
  };

  [[nodiscard]] Row* find_row(std::string_view name);
  [[nodiscard]] std::shared_ptr<const LoraAdapter> read(const std::string& name,
                                                        const std::filesystem::path& folder);
  void keep(Row& row, std::shared_ptr<const LoraAdapter> adapter);

  const AdapterSlots* slots_;
  size_t max_cpu_loras_;
  mutable std::mutex mutex_;  // guards the members below
  std::vector<Row> rows_;
  uint64_t next_id_ = 1;
  uint64_t num_uses_ = 0;
};

}  // namespace reprise::lora
