#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/sampling/sampling_params.h"
#include "reprise/structured_output/constraint_source.h"

namespace reprise::replay_log {

/// Everything besides the engine on which the tokens of one answer depend, and the answer itself. A
/// plain value.
struct RequestRecord {
  struct Adapter {
    std::string name;
    std::string folder;
    uint64_t digest = 0;  // LoraAdapter::digest()

    friend bool operator==(const Adapter&, const Adapter&) = default;
  };

  std::string engine;  // of the engine that answered: see LogWriter
  std::string id;      // the name by which the client knows the answer; otherwise the number
  // Position among the requests of the engine, in the order in which they were sent.
  uint64_t number = 0;
  std::vector<int32_t> prompt_token_ids;
  // `seed` is the seed that was used, also if the request gave none.
  sampling::SamplingParams params;
  std::optional<Adapter> adapter;
  std::optional<structured_output::ConstraintSource> constraint;
  // The answer had a constraint whose source the engine did not know.
  bool has_unknown_constraint = false;
  std::optional<int32_t> second_text_begin;  // see scheduler::RequestOptions
  // The history of the request, for people. No token depends on it.
  int32_t num_cached_tokens = 0;
  int32_t num_preemptions = 0;

  std::string finish_reason;  // "stop", "length", "abort", "error"
  std::vector<int32_t> token_ids;
  std::vector<uint64_t> digests;          // SampledToken::row_digest of each token
  std::optional<uint64_t> vector_digest;  // digest of the bits of the vector, for a pooling model

  friend bool operator==(const RequestRecord&, const RequestRecord&) = default;
};

[[nodiscard]] Json to_json(const RequestRecord& record);
/// \throws Json::exception, InvalidArgument if a member is missing, unknown or of a wrong type
[[nodiscard]] RequestRecord read_request_record(const Json& json);

/// 16 hexadecimal digits, and back. \throws InvalidArgument
[[nodiscard]] std::string digest_text(uint64_t digest);
[[nodiscard]] uint64_t read_digest(std::string_view text);

}  // namespace reprise::replay_log
