#include "reprise/server/dev_routes.h"

#include <string>

#include "reprise/base/json.h"
#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

Json server_info(const api::StartupReport& report, const ServerOptions& options) {
  const config::ResolvedConfig& resolved = report.resolved;
  return {{"version", options.version},
          {"vllm_config",
           {{"model_config",
             {{"model", options.model.names[0]},
              {"dtype", report.dtype},
              {"max_model_len", report.max_model_len}}},
            {"cache_config",
             {{"block_size", report.kv_block_size}, {"num_gpu_blocks", report.num_kv_blocks}}},
            {"scheduler_config", {{"max_num_seqs", options.generations.max_num_seqs}}},
            {"device_config", {{"device", report.device}}},
            {"compilation_config",
             {{"mode", config::to_string(resolved.compilation_mode)},
              {"cudagraph_mode", cudagraph::to_string(resolved.mode)},
              {"splitting_ops", resolved.splitting_ops}}}}}};
}

}  // namespace

void add_dev_routes(Router& router, api::AsyncEngine& engine, const ServerOptions& options) {
  router.add({.method = "GET",
              .path = "/server_info",
              .summary = "The options with which the engine was started.",
              .handle = [info = dump(server_info(engine.startup_report(), options))](
                            const HttpRequest&, const ExchangeRef& exchange) {
                exchange->respond({.body = info});
              }});
  router.add({.method = "POST",
              .path = "/reset_prefix_cache",
              .answer_types = {},
              .summary = "Forgets cached prefixes; 409 while requests are answered.",
              .prepare = [&engine](const HttpRequest&) -> Answering {
                if (!engine.reset_prefix_cache()) {
                  throw ApiError(
                      409, "Requests hold blocks of the cache; try again when they have finished.");
                }
                return answer_empty;
              },
              .waits_for_engine = true});
}

}  // namespace reprise::server
