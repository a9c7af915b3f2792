#include "reprise/weights/gguf/architecture_keys.h"

#include <fmt/format.h>

#include <variant>

namespace reprise::weights::gguf {

ArchitectureKeys::ArchitectureKeys(const Metadata& metadata) : metadata_(&metadata) {
  constexpr std::string_view kKey = "general.architecture";
  architecture_ = metadata.string(kKey);
  if (architecture_ == nullptr) metadata.fail(kKey, "is required: the name of the architecture");
}

int64_t ArchitectureKeys::num_layers() const {
  constexpr std::string_view kKey = "nextn_predict_layers";
  const int64_t all = required("block_count");
  const int64_t ahead = integer(kKey).value_or(0);
  if (ahead >= all) fail(kKey, fmt::format("is {}, of {} layers in all", ahead, all));
  return all - ahead;
}

std::vector<int64_t> ArchitectureKeys::integers(std::string_view name, int64_t count) const {
  // A file cannot have so many layers; the list must not be longer than it is said to be.
  constexpr int64_t kMostLayers = 1 << 16;
  const std::string full = key(name);
  if (count > kMostLayers) fail("block_count", fmt::format("is {}, too many", count));
  if (!metadata_->is_array(full)) {
    return std::vector<int64_t>(static_cast<size_t>(count),
                                metadata_->required_integer(full, 0, kMost));
  }
  const ArrayValue& list = *metadata_->array(full);
  if (list.type == ValueType::string || list.size() != static_cast<size_t>(count)) {
    metadata_->fail(full, fmt::format("must be a list of {} numbers, one for each layer", count));
  }
  std::vector<int64_t> integers;
  for (size_t i = 0; i < list.size(); ++i) {
    const double number = list.number(i);
    if (!(number >= 0 && number <= static_cast<double>(kMost))) {
      metadata_->fail(full, fmt::format("has an entry {}, expected 0 to {}", number, kMost));
    }
    integers.push_back(static_cast<int64_t>(number));
  }
  return integers;
}

}  // namespace reprise::weights::gguf
