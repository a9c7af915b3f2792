#pragma once

#include <cstdint>
#include <string_view>

namespace reprise::weights {

/// vLLM's names for what stands for a text: the hidden state of its last or of its first token, or
/// the mean of all.
enum class PoolingType : uint8_t { last, cls, mean };
[[nodiscard]] std::string_view pooling_type_name(PoolingType type) noexcept;  // "LAST"

/// How a model makes one vector of each text.
struct PoolingConfig {
  PoolingType type = PoolingType::last;
  bool normalizes = true;  // the vectors have length 1

  bool operator==(const PoolingConfig&) const = default;
};

}  // namespace reprise::weights
