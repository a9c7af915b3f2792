#include "reprise/engine/request_recorder.h"

#include <string>

#include "reprise/lora/lora_adapter.h"
#include "reprise/sampling/row_digest.h"
#include "reprise/structured_output/constraint_source.h"

namespace reprise::engine {
namespace {

std::vector<int32_t> copy_of(std::span<const int32_t> tokens) {
  return {tokens.begin(), tokens.end()};
}

/// Everything except the answer.
replay_log::RequestRecord describe(const scheduler::Request& request) {
  const scheduler::RequestOptions& options = request.options();
  const auto number = static_cast<uint64_t>(request.id());
  replay_log::RequestRecord record{
      .id = options.client_id.empty() ? std::to_string(number) : options.client_id,
      .number = number,
      // For an encoder-decoder model, the prompt is the text of its encoder.
      .prompt_token_ids =
          copy_of(request.encoder_token_ids().empty() ? request.prompt_token_ids()
                                                      : request.encoder_token_ids()),
      .params = request.params(),
      .num_cached_tokens = request.num_cached_tokens(),
      .num_preemptions = request.num_preemptions()};
  record.params.seed = static_cast<int64_t>(request.sampling_seed());
  if (const lora::LoraAdapter* adapter = request.adapter()) {
    record.adapter = {.name = adapter->name(),
                      .folder = std::filesystem::absolute(adapter->folder()).string(),
                      .digest = adapter->digest()};
  }
  if (options.constraint_source != nullptr) record.constraint = *options.constraint_source;
  record.has_unknown_constraint =
      options.constraint != nullptr && options.constraint_source == nullptr;
  if (options.second_text_begin != scheduler::kNoSecondText)
    record.second_text_begin = options.second_text_begin;
  return record;
}

}  // namespace

void RequestRecorder::record(std::span<const scheduler::RequestUpdate> updates,
                             const OutputDelta& delta) {
  const auto id = static_cast<uint64_t>(delta.id);
  std::vector<uint64_t>& digests = digests_[id];
  // Tokens after a stop string are not part of the answer.
  size_t num_new = delta.token_ids.size();
  for (const scheduler::RequestUpdate& update : updates) {
    if (num_new == 0) break;
    if (!update.new_token_id) continue;
    digests.push_back(update.sampled->row_digest);
    --num_new;
  }
  if (!delta.finished) return;
  const scheduler::Request& request = *updates.front().request;
  replay_log::RequestRecord record = describe(request);
  record.finish_reason = delta.finish_reason;
  record.token_ids = copy_of(request.output_token_ids().first(digests.size()));
  record.digests = std::move(digests);
  if (!delta.pooled.empty()) record.vector_digest = sampling::digest_of_floats(delta.pooled);
  digests_.erase(id);
  on_record_(std::move(record));
}

}  // namespace reprise::engine
