#include "reprise/engine/output_processor.h"

#include <utility>

#include "reprise/base/assert.h"

namespace reprise::engine {

OutputProcessor::State::State(const tokenizer::Tokenizer& tokenizer,
                              const sampling::SamplingParams& params)
    : detokenizer(tokenizer, params.skip_special_tokens),
      stop_strings(params.stop,
                   params.include_stop_str_in_output ? StopStringMatcher::IncludeStop::yes
                                                     : StopStringMatcher::IncludeStop::no),
      min_tokens(params.min_tokens),
      include_stop_token_text(params.include_stop_str_in_output) {}

void OutputProcessor::add_request(RequestId id, const sampling::SamplingParams& params) {
  states_.emplace(std::piecewise_construct,
                  std::forward_as_tuple(static_cast<uint64_t>(id)),
                  std::forward_as_tuple(*tokenizer_, params));
}

void OutputProcessor::append_token(State& state,
                                   const Request& request,
                                   int32_t token_id,
                                   bool finished_by_token) {
  state.output.token_ids.push_back(token_id);
  // The token that stopped the request is an instruction, not text, unless its text was asked for.
  if (finished_by_token && !state.include_stop_token_text) return;
  const auto check = request.num_output_tokens() < state.min_tokens ? StopStringMatcher::Check::off
                                                                    : StopStringMatcher::Check::on;
  state.delta += state.stop_strings.append(state.detokenizer.push(token_id), check);
}

OutputDelta OutputProcessor::process(const EngineCore::Update& update) {
  const Request& request = *update.request;
  State& state = states_.at(static_cast<uint64_t>(request.id()));
  state.delta.clear();
  if (state.finished) return {.id = request.id()};
  if (update.new_token_id) {
    const bool stopped = update.finished && request.status() == RequestStatus::finished_stopped &&
                         !update.sampled->ends_answer;
    append_token(state, request, *update.new_token_id, stopped);
    if (request.params().logprobs) {
      state.output.logprobs.push_back(
          {.token = update.sampled->logprob, .top = update.sampled->top_logprobs});
    }
  }
  if (state.stop_strings.is_matched()) {
    state.finished = true;
    state.output.finish_reason = "stop";
    state.output.stop_reason = std::string(state.stop_strings.matched());
    if (!update.finished)
      core_->finish_request(request.id(), std::string(state.stop_strings.matched()));
  } else if (update.finished) {
    state.finished = true;
    state.delta +=
        state.stop_strings.append(state.detokenizer.flush(), StopStringMatcher::Check::off);
    state.delta += state.stop_strings.flush();
    state.output.finish_reason = request.finish_reason();
    state.output.stop_reason = request.stop_reason();
    state.output.error = request.error();
  }
  state.output.text += state.delta;
  return {.id = request.id(), .text = state.delta, .finished = state.finished};
}

const CompletionOutput& OutputProcessor::output(RequestId id) const {
  return states_.at(static_cast<uint64_t>(id)).output;
}

CompletionOutput OutputProcessor::take(RequestId id) {
  const auto found = states_.find(static_cast<uint64_t>(id));
  REPRISE_ASSERT(found != states_.end(), "request {} is unknown", static_cast<uint64_t>(id));
  CompletionOutput output = std::move(found->second.output);
  states_.erase(found);
  return output;
}

}  // namespace reprise::engine
