#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "reprise/api/async_engine.h"
#include "reprise/base/json.h"
#include "reprise/sampling/sampling_params.h"

namespace reprise::server {

/// What one request may ask for at most.
inline constexpr int kMaxChoices = 256;   // prompts times n
inline constexpr int kMaxMembers = 1024;  // of the body
inline constexpr int kMaxMessages = 4096;
inline constexpr int kMaxLogitBiases = 1024;
inline constexpr int kMaxTokenIdList = 1024;  // stop_token_ids

/// Text, or ids that are used as they are.
using Prompt = std::variant<std::string, std::vector<int32_t>>;

/// The body of POST /v1/completions or /v1/chat/completions, checked.
struct GenerationRequest {
  bool is_chat = false;
  std::optional<std::string> model;
  std::vector<Prompt> prompts;    // completions
  Json messages = Json::array();  // chat: for the template, content as text
  sampling::SamplingParams params;
  engine::RequestOptions options;
  int n = 1;
  bool add_special_tokens = true;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;

  [[nodiscard]] int num_choices() const noexcept {
    return n * (is_chat ? 1 : static_cast<int>(prompts.size()));
  }
};

/// The body of POST /tokenize or /detokenize, checked.
struct TokenizeRequest {
  std::optional<std::string> model;
  std::optional<std::string> prompt;  // else messages
  Json messages = Json::array();
  bool add_special_tokens = true;
  bool return_token_strs = false;
};
struct DetokenizeRequest {
  std::optional<std::string> model;
  std::vector<int32_t> tokens;
};

/// All four: `defaults` are what fields that are absent or null mean; fields that the API has and
/// this server lacks are refused by name, fields that nobody knows are ignored.
/// \throws ApiError 400 with the field at fault
[[nodiscard]] GenerationRequest parse_completion_request(std::string_view body,
                                                         const sampling::SamplingParams& defaults);
[[nodiscard]] GenerationRequest parse_chat_request(std::string_view body,
                                                   const sampling::SamplingParams& defaults);
[[nodiscard]] TokenizeRequest parse_tokenize_request(std::string_view body);
[[nodiscard]] DetokenizeRequest parse_detokenize_request(std::string_view body);

/// Ranges of the sampling fields. \throws ApiError 400 with the field at fault
void check_sampling(const GenerationRequest& request, int vocab_size);

}  // namespace reprise::server
