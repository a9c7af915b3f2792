#include "reprise/api/loading/weight_files.h"

#include <utility>

#include "reprise/api/options/load_quantization.h"
#include "reprise/api/options/rank_options.h"
#include "reprise/weights/open_weights.h"

namespace reprise::api {

std::unique_ptr<weights::WeightSource> open_engine_weights(
    const EngineArgs& args,
    ResolvedOptions& options,
    std::vector<std::string>& warnings,
    weights::WatchedWeights::OnRead on_read) {
  const bool is_divided = args.ranks_per_engine() > 1 || args.expert_engines != nullptr;
  const bool is_dummy = args.load_format == LoadFormat::dummy;
  weights::OpenOptions open{
      .model = args.model,
      .dtype = options.dtype,
      .reads_mtp = options.speculative_config &&
                   options.speculative_config->method == speculative::SpeculativeMethod::mtp,
      .quantization = load_quantization(args, options.config),
      .on_read = std::move(on_read)};
  if (is_dummy) {
    open.dummy_seed = args.seed;
  } else {
    open.gguf = open_model_files(args.model, options.files)->gguf();
  }
  if (options.draft_head) open.head = &*options.draft_head;
  if (is_divided) open.rank = rank_of_model(args);
  std::unique_ptr<weights::WeightSource> source =
      weights::open_weights(open, options.config, warnings);
  if (!options.draft_head) {
    options.rank_config.tie_word_embeddings = options.config.tie_word_embeddings;
  }
  return source;
}

}  // namespace reprise::api
