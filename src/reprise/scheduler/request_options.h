#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace reprise::kv_cache {
class KvExport;
struct KvImage;
}  // namespace reprise::kv_cache

namespace reprise::lora {
class LoraAdapter;
}

namespace reprise::structured_output {
struct ConstraintSource;
class TokenConstraint;
}  // namespace reprise::structured_output

namespace reprise::scheduler {

/// Identity of a request inside one engine, unique for the engine's life.
enum class RequestId : uint64_t {};

/// The reason that stopped a request: a stop token id, a stop string, or none (for example EOS).
using StopReason = std::variant<std::monostate, int32_t, std::string>;

/// The stop reason of a request whose parameters and constraint together allowed no next token; its
/// finish reason is "length".
inline constexpr std::string_view kNoAllowedToken = "no_allowed_token";

/// Whether the server or the sender of the request has to correct the error that ended the request.
enum class ErrorKind : uint8_t {
  internal,  // the server: HTTP 500
  request,   // the sender, with another request: HTTP 400
};

/// The value of second_text_begin for a request with only one text.
inline constexpr int32_t kNoSecondText = std::numeric_limits<int32_t>::max();

/// The options of a request that concern the scheduler and the cache. Except for `constraint` and
/// the adapter, no option changes the tokens of the answer.
struct RequestOptions {
  int priority = 0;  // lower runs first; a value other than 0 needs SchedulingPolicy::priority
  /// Requests share cached prompt prefixes only with requests of the same salt, so that the time of
  /// an answer tells nothing about the prompts of other users. Any bytes; requests with an empty
  /// salt share with each other.
  std::string cache_salt;

  /// The index of the first token of the second text, if a cross-encoder compares two texts;
  /// default: there is only one text.
  int32_t second_text_begin = kNoSecondText;

  /// For an encoder-decoder model: the text of the encoder. The prompt is then the decoder's.
  /// EngineCore::add_request() makes both from the prompt that it gets.
  std::vector<int32_t> encoder_token_ids;

  /// Limits the tokens of the answer; belongs to this request alone. Null: any answer. The request
  /// ends when the constraint is complete, even if min_tokens or ignore_eos ask for more.
  std::shared_ptr<structured_output::TokenConstraint> constraint;
  /// What `constraint` was made from, for the replay log. Null: not known, so the answer cannot be
  /// replayed.
  std::shared_ptr<const structured_output::ConstraintSource> constraint_source;
  /// The name by which the client knows the answer, for the replay log; empty: no name.
  std::string client_id;

  /// The adapter that answers; null: the model alone. Requests share cached prompt prefixes only
  /// with requests of the same adapter.
  std::shared_ptr<const lora::LoraAdapter> adapter;
  uint64_t lora_id = 0;   // LoraAdapter::id() of `adapter`; 0: none
  std::string lora_name;  // LoraAdapter::name() of `adapter`; for events only

  /// Keys and values of the beginning of the prompt, computed by another engine of the same model;
  /// null: none. The request releases them when they are in the cache.
  std::shared_ptr<const kv_cache::KvImage> kv_image;
  int kv_image_tokens = 0;  // KvImage::num_tokens of `kv_image`
  /// Whether the request uses the shared prefix cache. False for keys and values from a peer that
  /// is not trusted: blocks that depend on them stay with this request.
  bool shares_prefixes = true;
  /// Receives the keys and values of the prompt when they are computed; null: they are not
  /// exported.
  std::shared_ptr<kv_cache::KvExport> kv_export;

  friend bool operator==(const RequestOptions&, const RequestOptions&) = default;
};
/// The longest cache_salt: long enough for any key or digest, short enough to hash with every
/// prompt.
inline constexpr size_t kMaxCacheSaltBytes = 1024;

}  // namespace reprise::scheduler
