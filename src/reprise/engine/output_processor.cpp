#include "reprise/engine/output_processor.h"

#include <string>
#include <tuple>
#include <utility>

namespace reprise::engine {

OutputProcessor::State::State(const tokenizer::Tokenizer& tokenizer,
                              const sampling::SamplingParams& params)
    : detokenizer(tokenizer, params.skip_special_tokens),
      stop_strings(params.stop,
                   params.include_stop_str_in_output ? StopStringMatcher::IncludeStop::yes
                                                     : StopStringMatcher::IncludeStop::no),
      min_tokens(params.min_tokens),
      include_stop_token_text(params.include_stop_str_in_output) {}

void OutputProcessor::add_request(scheduler::RequestId id, const sampling::SamplingParams& params) {
  states_.emplace(std::piecewise_construct,
                  std::forward_as_tuple(static_cast<uint64_t>(id)),
                  std::forward_as_tuple(*tokenizer_, params));
}

void OutputProcessor::append_token(State& state,
                                   const scheduler::RequestUpdate& update,
                                   OutputDelta& delta) {
  const scheduler::Request& request = *update.request;
  const int32_t token_id = *update.new_token_id;
  if (state.num_tokens++ == 0) {
    const auto prompt = request.prompt_logprobs();
    delta.prompt_logprobs.assign(prompt.begin(), prompt.end());
  }
  delta.token_ids.push_back(token_id);
  if (request.params().logprobs) {
    delta.logprobs.push_back(
        {.token = update.sampled->logprob, .top = update.sampled->top_logprobs});
  }
  // The token that stopped the request is not part of the text, unless the caller asked for its
  // text.
  const bool is_stop_token = update.finished &&
                             request.status() == scheduler::RequestStatus::finished_stopped &&
                             !update.sampled->ends_answer;
  if (is_stop_token && !state.include_stop_token_text) return;
  const auto check = state.num_tokens < state.min_tokens ? StopStringMatcher::Check::off
                                                         : StopStringMatcher::Check::on;
  delta.text += state.stop_strings.append(state.detokenizer.push(token_id), check);
}

std::optional<OutputDelta> OutputProcessor::process(
    std::span<const scheduler::RequestUpdate> updates) {
  const scheduler::Request& request = *updates.front().request;
  const auto found = states_.find(static_cast<uint64_t>(request.id()));
  if (found == states_.end()) return std::nullopt;
  State& state = found->second;
  OutputDelta delta{.id = request.id()};
  for (const scheduler::RequestUpdate& update : updates) {
    // The answer ends with a stop string, even if the step has computed tokens after it.
    if (state.stop_strings.is_matched()) break;
    if (update.new_token_id) append_token(state, update, delta);
  }
  if (state.stop_strings.is_matched()) {
    delta.finished = true;
    delta.finish_reason = "stop";
    delta.stop_reason = std::string(state.stop_strings.matched());
  } else if (updates.back().finished) {
    delta.finished = true;
    delta.text +=
        state.stop_strings.append(state.detokenizer.flush(), StopStringMatcher::Check::off);
    delta.text += state.stop_strings.flush();
    delta.finish_reason = request.finish_reason();
    delta.stop_reason = request.stop_reason();
    delta.error = request.error();
    delta.error_kind = request.error_kind();
    delta.pooled.assign(request.pooled().begin(), request.pooled().end());
  }
  delta.num_prompt_tokens = request.num_prompt_tokens();
  delta.num_output_tokens = state.num_tokens;
  delta.num_cached_tokens = request.num_cached_tokens();
  delta.num_imported_tokens = request.num_imported_tokens();
  if (delta.finished) states_.erase(found);
  return delta;
}

}  // namespace reprise::engine
