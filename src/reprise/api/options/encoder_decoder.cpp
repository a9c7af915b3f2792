#include "reprise/api/options/encoder_decoder.h"

#include <fmt/format.h>

#include "reprise/base/error.h"

namespace reprise::api {

void check_encoder_decoder(const EngineArgs& args, const ResolvedOptions& options) {
  if (!options.config.encoder) return;
  const std::string_view name = weights::architecture_name(options.config.architecture);
  const auto refuse = [&](bool is_asked, std::string_view option, std::string_view reason) {
    if (!is_asked) return;
    throw InvalidArgument(fmt::format(
        "{}: {} has an encoder and a decoder, and {}; leave the option out", option, name, reason));
  };
  refuse(options.config.pooling.has_value(), "--runner pooling", "gives no vectors of texts");
  refuse(args.enable_lora, "--enable-lora", "its projections take no adapters");
  refuse(!args.speculative_config.empty(),
         "--speculative-config",
         "no drafter knows the text of the encoder");
  refuse(args.tensor_parallel_size > 1, "--tensor-parallel-size", "runs on one rank only");
  refuse(args.pipeline_parallel_size > 1, "--pipeline-parallel-size", "runs on one rank only");
  refuse(args.data_parallel_size > 1, "--data-parallel-size", "runs in one engine only");
  refuse(options.attention->create == attention::create_planned_backend,
         "--attention-backend",
         "this backend's plans hold one context for each request, not two; use auto");
}

}  // namespace reprise::api
