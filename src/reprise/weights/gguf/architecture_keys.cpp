#include "reprise/weights/gguf/architecture_keys.h"

#include <fmt/format.h>

#include <variant>

namespace reprise::weights::gguf {

ArchitectureKeys::ArchitectureKeys(const Metadata& metadata) : metadata_(&metadata) {
  constexpr std::string_view kKey = "general.architecture";
  architecture_ = metadata.string(kKey);
  if (architecture_ == nullptr) metadata.fail(kKey, "is required: the name of the architecture");
}

int64_t ArchitectureKeys::required(std::string_view name) const {
  const std::string full = key(name);
  if (!metadata_->is_array(full)) return metadata_->required_integer(full, 1, kMost);
  const int64_t number = number_of_all_layers(name);
  if (number == 0) fail(name, "is 0, expected a positive number");
  return number;
}

std::optional<int64_t> ArchitectureKeys::integer(std::string_view name) const {
  if (is_array(name)) return number_of_all_layers(name);
  return metadata_->integer(key(name), 0, kMost);
}

int64_t ArchitectureKeys::number_of_all_layers(std::string_view name) const {
  const int64_t num_layers = metadata_->required_integer(key("block_count"), 1, kMost);
  const std::vector<int64_t> numbers = integers(name, num_layers);
  for (const int64_t number : numbers) {
    if (number == numbers.front()) continue;
    fail(name,
         fmt::format("differs between layers: {} and {}; only one number for all layers is "
                     "supported",
                     numbers.front(),
                     number));
  }
  return numbers.front();
}

int64_t ArchitectureKeys::num_layers() const {
  constexpr std::string_view kKey = "nextn_predict_layers";
  const int64_t all = required("block_count");
  const int64_t ahead = integer(kKey).value_or(0);
  if (ahead >= all) fail(kKey, fmt::format("is {}, of {} layers in all", ahead, all));
  return all - ahead;
}

std::vector<int64_t> ArchitectureKeys::integers(std::string_view name, int64_t count) const {
  const std::string full = key(name);
  if (!metadata_->is_array(full)) {
    return std::vector<int64_t>(static_cast<size_t>(count_of_layers(count)),
                                metadata_->required_integer(full, 0, kMost));
  }
  std::vector<int64_t> integers;
  for (const double number : numbers(name, count)) {
    integers.push_back(static_cast<int64_t>(number));
  }
  return integers;
}

std::vector<double> ArchitectureKeys::numbers(std::string_view name, int64_t count) const {
  const std::string full = key(name);
  if (!metadata_->is_array(full)) {
    return std::vector<double>(static_cast<size_t>(count_of_layers(count)),
                               metadata_->number(full).value());
  }
  const ArrayValue& list = *metadata_->array(full);
  if (list.type == ValueType::string ||
      list.size() != static_cast<size_t>(count_of_layers(count))) {
    metadata_->fail(full, fmt::format("must be a list of {} numbers, one for each layer", count));
  }
  std::vector<double> numbers;
  for (size_t i = 0; i < list.size(); ++i) {
    const double number = list.number(i);
    if (!(number >= 0 && number <= static_cast<double>(kMost))) {
      metadata_->fail(full, fmt::format("has an entry {}, expected 0 to {}", number, kMost));
    }
    numbers.push_back(number);
  }
  return numbers;
}

int64_t ArchitectureKeys::count_of_layers(int64_t count) const {
  // No file can have this many layers; a list must not have more entries than there are layers.
  constexpr int64_t kMostLayers = 1 << 16;
  if (count > kMostLayers) fail("block_count", fmt::format("is {}, too many", count));
  return count;
}

}  // namespace reprise::weights::gguf
