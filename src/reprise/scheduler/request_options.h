#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

namespace reprise::structured_output {
class TokenConstraint;
}

namespace reprise::engine {

/// Identity of a request inside one engine, unique for the engine's life.
enum class RequestId : uint64_t {};

/// What stopped a request, other than EOS: a stop token id, a stop string, or nothing.
using StopReason = std::variant<std::monostate, int32_t, std::string>;

/// What a request may ask of the scheduler and the cache; nothing here changes its tokens.
struct RequestOptions {
  int priority = 0;  // lower runs first; other than 0 needs SchedulingPolicy::priority
  /// Requests share cached prompt prefixes only with those of the same salt, so that answer times
  /// tell nothing about the prompts of strangers. Any bytes; empty: shared with all without one.
  std::string cache_salt;

  /// What the answer may look like; of this request alone. Null: anything. When it is complete the
  /// request ends, whatever min_tokens and ignore_eos say.
  std::shared_ptr<structured_output::TokenConstraint> constraint;

  friend bool operator==(const RequestOptions&, const RequestOptions&) = default;
};
/// Of a cache_salt; long enough for any key or digest, short enough to hash with every prompt.
inline constexpr size_t kMaxCacheSaltBytes = 1024;

}  // namespace reprise::engine
