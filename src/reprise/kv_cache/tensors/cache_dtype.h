#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "reprise/tensor/dtype.h"

namespace reprise::kv_cache {

/// A value of --kv-cache-dtype: how the keys and values of a token are stored.
struct CacheDType {
  std::string_view name;       // vLLM's
  std::optional<DType> dtype;  // of the elements; nothing: the model's
  /// Each row (the key or the value of one token and head) ends with a float32 scale of its own.
  bool has_row_scales = false;

  [[nodiscard]] bool is_quantized() const noexcept { return dtype && dtype_bytes(*dtype) == 1; }
};

/// All values; the first one is "auto".
[[nodiscard]] std::span<const CacheDType> cache_dtypes();

/// \throws InvalidArgument that lists the values
[[nodiscard]] const CacheDType& find_cache_dtype(std::string_view name);

}  // namespace reprise::kv_cache
