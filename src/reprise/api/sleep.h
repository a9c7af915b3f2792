#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace reprise::api {

/// How much an engine gives away while it sleeps, by vLLM's numbers.
enum class SleepLevel : uint8_t {
  pause = 0,    // no memory; the engine only runs no steps
  offload = 1,  // the KV cache; the weights move to host memory, where a CPU has them anyway
  discard = 2,  // KV cache and weights; the weights are read again when the engine wakes
};

/// How the requests end that an engine has when it is sent to sleep.
enum class SleepMode : uint8_t {
  abort,  // they end as aborted
  wait,   // they end by themselves first
};

/// Parts of an engine, by vLLM's names: the parts that sleep, or the parts to wake.
struct EngineParts {
  bool weights = false;
  bool kv_cache = false;
  bool scheduling = false;

  [[nodiscard]] static constexpr EngineParts all() noexcept { return {true, true, true}; }
  [[nodiscard]] constexpr bool any() const noexcept { return weights || kv_cache || scheduling; }

  friend bool operator==(const EngineParts&, const EngineParts&) = default;
};

/// "weights", "kv_cache", "scheduling"; none means all. \throws InvalidArgument for another name
[[nodiscard]] EngineParts parse_engine_parts(std::span<const std::string> tags);

}  // namespace reprise::api
