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

/// The parameters and the constraint of an answer together allowed no next token: its stop reason
/// is then this text, its finish reason "length".
inline constexpr std::string_view kNoAllowedToken = "no_allowed_token";

/// Whether the server or the sender has to correct the error that ended a request.
enum class ErrorKind : uint8_t {
  internal,  // the server: HTTP 500
  request,   // the sender, with another request: HTTP 400
};

/// The options of a request that concern the scheduler and the cache. Except for `constraint` and
/// the adapter, no option changes the tokens of the answer.
/// The beginning of the second text of a request that has one text.
inline constexpr int32_t kNoSecondText = std::numeric_limits<int32_t>::max();

struct RequestOptions {
  int priority = 0;  // lower runs first; a value other than 0 needs SchedulingPolicy::priority
  /// Requests share cached prompt prefixes only with requests of the same salt, so that the time of
  /// an answer tells nothing about the prompts of other users. Any bytes; requests with an empty
  /// salt share with each other.
  std::string cache_salt;

  /// The first token of the second of two texts that a cross-encoder compares; default: there is
  /// one text.
  int32_t second_text_begin = kNoSecondText;

  /// Of an encoder-decoder model: the text of the encoder. The prompt is then that of the decoder.
  /// EngineCore::add_request() makes both of the prompt that it gets.
  std::vector<int32_t> encoder_token_ids;

  /// Limits the tokens of the answer; belongs to this request alone. Null: any answer. The request
  /// ends when the constraint is complete, even if min_tokens or ignore_eos ask for more.
  std::shared_ptr<structured_output::TokenConstraint> constraint;
  /// What `constraint` was made of, for the replay log. Null: not known, so the answer cannot be
  /// replayed.
  std::shared_ptr<const structured_output::ConstraintSource> constraint_source;
  /// The name by which the client knows the answer, for the replay log; empty: it has none.
  std::string client_id;

  /// The adapter that answers; null: the model alone. Requests share cached prompt prefixes only
  /// with requests of the same adapter.
  std::shared_ptr<const lora::LoraAdapter> adapter;
  uint64_t lora_id = 0;   // LoraAdapter::id() of `adapter`; 0: none
  std::string lora_name;  // LoraAdapter::name() of `adapter`; for events only

  /// Keys and values of the beginning of the prompt, computed by another engine of the same model;
  /// null: none. The request gives them back when they are in the cache.
  std::shared_ptr<const kv_cache::KvImage> kv_image;
  int kv_image_tokens = 0;  // KvImage::num_tokens of `kv_image`
  /// Whether the request finds and leaves prefixes in the shared cache. False for keys and values
  /// that nothing vouches for: what they make of the prompt stays with this request.
  bool shares_prefixes = true;
  /// Takes the keys and values of the prompt when they are computed; null: nobody does.
  std::shared_ptr<kv_cache::KvExport> kv_export;

  friend bool operator==(const RequestOptions&, const RequestOptions&) = default;
};
/// The longest cache_salt: long enough for any key or digest, short enough to hash with every
/// prompt.
inline constexpr size_t kMaxCacheSaltBytes = 1024;

}  // namespace reprise::scheduler
