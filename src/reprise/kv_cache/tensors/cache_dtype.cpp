#include "reprise/kv_cache/tensors/cache_dtype.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"

namespace reprise::kv_cache {
namespace {

// Source: vLLM 0.32, vllm/config/cache.py, without the values whose formats are not implemented.
constexpr std::array kCacheDTypes = {CacheDType{"auto", std::nullopt, false},
                                     CacheDType{"float16", DType::f16, false},
                                     CacheDType{"bfloat16", DType::bf16, false},
                                     CacheDType{"fp8", DType::f8e4m3, false},
                                     CacheDType{"fp8_e4m3", DType::f8e4m3, false},
                                     CacheDType{"fp8_e5m2", DType::f8e5m2, false},
                                     CacheDType{"fp8_per_token_head", DType::f8e4m3, true},
                                     CacheDType{"int8_per_token_head", DType::i8, true}};

}  // namespace

std::span<const CacheDType> cache_dtypes() { return kCacheDTypes; }

const CacheDType& find_cache_dtype(std::string_view name) {
  std::vector<std::string_view> known;
  for (const CacheDType& dtype : kCacheDTypes) {
    if (dtype.name == name) return dtype;
    known.push_back(dtype.name);
  }
  throw InvalidArgument(fmt::format("--kv-cache-dtype: '{}' is not one of {}{}",
                                    name,
                                    fmt::join(known, ", "),
                                    did_you_mean(name, known)));
}

}  // namespace reprise::kv_cache
