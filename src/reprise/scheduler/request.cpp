#include "reprise/scheduler/request.h"

#include <utility>

#include "reprise/base/assert.h"

namespace reprise::scheduler {

std::string_view to_string(RequestStatus status) {
  switch (status) {
    case RequestStatus::waiting:
      return "WAITING";
    case RequestStatus::running:
      return "RUNNING";
    case RequestStatus::preempted:
      return "PREEMPTED";
    case RequestStatus::finished_stopped:
      return "FINISHED_STOPPED";
    case RequestStatus::finished_length:
      return "FINISHED_LENGTH_CAPPED";
    case RequestStatus::finished_aborted:
      return "FINISHED_ABORTED";
    case RequestStatus::finished_error:
      return "FINISHED_ERROR";
  }
  return "UNKNOWN";
}

std::string_view finish_reason(RequestStatus status) {
  switch (status) {
    case RequestStatus::finished_stopped:
      return "stop";
    case RequestStatus::finished_length:
      return "length";
    case RequestStatus::finished_aborted:
      return "abort";
    case RequestStatus::finished_error:
      return "error";
    case RequestStatus::waiting:
    case RequestStatus::running:
    case RequestStatus::preempted:
      break;
  }
  return {};
}

Request::Request(RequestId id,
                 std::vector<int32_t> prompt_token_ids,
                 sampling::SamplingParams params,
                 uint64_t engine_seed,
                 RequestOptions options)
    : id_(id),
      params_(std::move(params)),
      sampling_seed_(params_.seed ? static_cast<uint64_t>(*params_.seed)
                                  : sampling::derive_seed(engine_seed, static_cast<uint64_t>(id))),
      options_(std::move(options)),
      num_prompt_tokens_(static_cast<int>(prompt_token_ids.size())) {
  state_.token_ids = std::move(prompt_token_ids);
  state_.num_prefill_tokens = num_prompt_tokens_;
}

void RequestState::add_placeholders(std::span<const int32_t> contents) {
  token_ids.insert(token_ids.end(), contents.begin(), contents.end());
  num_placeholders += static_cast<int>(contents.size());
}

void RequestState::drop_placeholders(int count) {
  REPRISE_ASSERT(
      count >= 0 && count <= num_placeholders, "{} of {} placeholders", count, num_placeholders);
  token_ids.resize(token_ids.size() - static_cast<size_t>(count));
  num_placeholders -= count;
}

sampling::SamplingInput Request::sampling_input(std::span<const float> logits,
                                                int num_tokens) const {
  const int num_output_tokens = num_tokens - num_prompt_tokens_;
  std::span<const int32_t> suppressed;
  if (num_output_tokens < params_.min_tokens) suppressed = state_.all_stop_token_ids;
  return {.logits = logits,
          .params = &params_,
          .prompt_token_ids = prompt_token_ids(),
          .output_token_ids = token_ids_with_placeholders().subspan(
              static_cast<size_t>(num_prompt_tokens_), static_cast<size_t>(num_output_tokens)),
          .suppressed_token_ids = suppressed,
          .seed = sampling_seed_};
}

}  // namespace reprise::scheduler
