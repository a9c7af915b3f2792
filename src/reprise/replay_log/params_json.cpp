#include "reprise/replay_log/params_json.h"

#include <fmt/format.h>

#include "reprise/base/error.h"
#include "reprise/base/json_values.h"

namespace reprise::replay_log {
namespace {

/// Calls visit(name, member) for each member. The structured binding must name every member, so the
/// code does not compile until a new member is added here.
template <typename Params, typename Visit>
void each_param(Params& params, const Visit& visit) {
  auto& [temperature,
         top_p,
         top_k,
         min_p,
         seed,
         repetition_penalty,
         presence_penalty,
         frequency_penalty,
         max_tokens,
         min_tokens,
         stop,
         stop_token_ids,
         ignore_eos,
         include_stop_str_in_output,
         skip_special_tokens,
         logprobs,
         prompt_logprobs,
         logprob_token_ids,
         logit_bias,
         allowed_token_ids,
         bad_words,
         bad_words_token_ids] = params;
  visit("temperature", temperature);
  visit("top_p", top_p);
  visit("top_k", top_k);
  visit("min_p", min_p);
  visit("seed", seed);
  visit("repetition_penalty", repetition_penalty);
  visit("presence_penalty", presence_penalty);
  visit("frequency_penalty", frequency_penalty);
  visit("max_tokens", max_tokens);
  visit("min_tokens", min_tokens);
  visit("stop", stop);
  visit("stop_token_ids", stop_token_ids);
  visit("ignore_eos", ignore_eos);
  visit("include_stop_str_in_output", include_stop_str_in_output);
  visit("skip_special_tokens", skip_special_tokens);
  visit("logprobs", logprobs);
  visit("prompt_logprobs", prompt_logprobs);
  visit("logprob_token_ids", logprob_token_ids);
  visit("logit_bias", logit_bias);
  visit("allowed_token_ids", allowed_token_ids);
  visit("bad_words", bad_words);
  visit("bad_words_token_ids", bad_words_token_ids);
}

Json all_params(const sampling::SamplingParams& params) {
  Json json = Json::object();
  each_param(params,
             [&json](const char* name, const auto& value) { write_json(json[name], value); });
  return json;
}

}  // namespace

Json params_to_json(const sampling::SamplingParams& params) {
  const Json defaults = all_params({});
  const Json all = all_params(params);
  Json changed = Json::object();
  for (const auto& [name, value] : all.items()) {
    if (value != defaults.at(name)) changed[name] = value;
  }
  return changed;
}

sampling::SamplingParams params_from_json(const Json& json) {
  sampling::SamplingParams params;
  size_t num_read = 0;
  each_param(params, [&](const char* name, auto& value) {
    const auto found = json.find(name);
    if (found == json.end()) return;
    read_json(*found, value);
    ++num_read;
  });
  if (num_read == json.size()) return params;
  const Json known = all_params({});
  for (const auto& [name, value] : json.items()) {
    if (!known.contains(name)) {
      throw InvalidArgument(fmt::format(
          "params: '{}' is unknown; a newer version of Reprise has written this record", name));
    }
  }
  return params;
}

}  // namespace reprise::replay_log
