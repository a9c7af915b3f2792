#include "reprise/scheduler/scheduler_output.h"

#include <cstddef>
#include <tuple>

#include "reprise/scheduler/request.h"

namespace reprise::scheduler {
namespace {

auto batch_key(const StepEntry& entry, int decode_query_len) {
  const bool is_uniform_decode = !entry.is_in_prefill && entry.query_len() == decode_query_len;
  return std::tuple(!is_uniform_decode, entry.query_len(), entry.num_computed_tokens == 0);
}

}  // namespace

sampling::SamplingInput StepEntry::sampling_input(std::span<const float> logits) const {
  return request->sampling_input(logits, end() - num_drafts);
}

void sort_batch(std::span<StepEntry> batch, int decode_query_len) {
  // Insertion sort: it is stable, works in place (std::stable_sort allocates), and is linear for
  // the usual batch, whose decodes are in front already.
  for (size_t i = 1; i < batch.size(); ++i) {
    const auto key = batch_key(batch[i], decode_query_len);
    if (!(key < batch_key(batch[i - 1], decode_query_len))) continue;
    const StepEntry entry = batch[i];
    size_t place = i;
    for (; place > 0 && key < batch_key(batch[place - 1], decode_query_len); --place) {
      batch[place] = batch[place - 1];
    }
    batch[place] = entry;
  }
}

}  // namespace reprise::scheduler
