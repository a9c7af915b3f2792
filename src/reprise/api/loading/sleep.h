#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace reprise::api {

/// How much memory an engine gives back while it sleeps; the numbers are vLLM's.
enum class SleepLevel : uint8_t {
  pause = 0,    // no memory; the engine only stops running steps
  offload = 1,  // memory of the KV cache; the weights move to host memory (on a CPU they stay)
  discard = 2,  // memory of KV cache and weights; the weights are read again when the engine wakes
};

/// How unfinished requests end when the engine is sent to sleep.
enum class SleepMode : uint8_t {
  abort,  // end them as aborted
  wait,   // wait until they have ended by themselves
};

/// Parts of an engine, with vLLM's names: the parts that sleep, or the parts that wake_up() should
/// wake.
struct EngineParts {
  bool weights = false;
  bool kv_cache = false;
  bool scheduling = false;

  [[nodiscard]] static constexpr EngineParts all() noexcept { return {true, true, true}; }
  [[nodiscard]] constexpr bool any() const noexcept { return weights || kv_cache || scheduling; }

  friend bool operator==(const EngineParts&, const EngineParts&) = default;
};

/// Reads "weights", "kv_cache", "scheduling"; no tag means all parts. \throws InvalidArgument for
/// another name
[[nodiscard]] EngineParts parse_engine_parts(std::span<const std::string> tags);

}  // namespace reprise::api
