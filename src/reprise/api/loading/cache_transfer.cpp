#include "reprise/api/loading/cache_transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/api/loading/draft_model.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/base/error.h"
#include "reprise/kv_cache/transfer/kv_transfer.h"
#include "reprise/runner/model_runner.h"

namespace reprise::api {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_transfer(std::string_view reason) {
  throw InvalidArgument(fmt::format("--kv-transfer-config: {}", reason));
}

void check_can_transfer(const LoadedEngine& engine) {
  const ResolvedOptions& options = *engine.options;
  if (engine.args.ranks != nullptr) {
    refuse_transfer(
        "each rank has a part of the cache; use --tensor-parallel-size 1 and "
        "--pipeline-parallel-size 1");
  }
  if (engine.args.data_parallel_size > 1) {
    refuse_transfer(
        "only a server with one engine exchanges prompts; start several servers instead of "
        "--data-parallel-size");
  }
  if (options.config.num_recurrent_layers() > 0) {
    refuse_transfer(fmt::format(
        "{} has recurrent layers, whose states stay in this process; leave the option out",
        weights::architecture_name(options.config.architecture)));
  }
  if (options.config.pooling || options.config.is_encoder) {
    refuse_transfer("a pooling model has no tokens to decode; leave the option out");
  }
  if (options.config.encoder) {
    refuse_transfer("the keys and values of an encoder's text stay in this process");
  }
  if (has_draft_model(options)) {
    refuse_transfer(
        "the cache of a draft model is not exchanged; use --speculative-config with ngram or "
        "suffix");
  }
}

/// Names and sizes of the files with weights. Two models of one shape differ in them, or in
/// config.json, unless their files were made to be alike.
std::string describe_weights(const EngineArgs& args) {
  if (args.load_format == LoadFormat::dummy) return fmt::format("random weights of {}", args.seed);
  std::vector<std::string> files;
  const auto add = [&files](const fs::path& file) {
    files.push_back(fmt::format("{} {}", file.filename().string(), fs::file_size(file)));
  };
  if (!fs::is_directory(args.model)) {
    add(args.model);
  } else {
    for (const fs::directory_entry& entry : fs::directory_iterator(args.model)) {
      const fs::path& file = entry.path();
      if (file.extension() == ".safetensors" || file.filename() == "config.json") add(file);
    }
  }
  std::ranges::sort(files);
  return fmt::format("{}", fmt::join(files, ", "));
}

}  // namespace

void open_kv_transfer(LoadedEngine& engine) {
  const kv_cache::KvTransferConfig& config = engine.args.kv_transfer;
  if (!config.is_on()) return;
  check_can_transfer(engine);
  const kv_cache::KvCacheLayout& layout = engine.runner->kv_cache().layout();
  const std::string model =
      fmt::format("{}; {}; quantization {}; {}",
                  weights::architecture_name(engine.options->config.architecture),
                  describe_weights(engine.args),
                  engine.args.quantization,
                  kv_cache::describe_cache(layout));
  engine.kv_transfer = std::make_unique<kv_cache::KvTransfer>(config, layout, model);
  std::vector<std::string>& warnings = engine.report.warnings;
  if (config.produces() && !engine.kv_transfer->is_loopback()) {
    warnings.push_back(
        fmt::format("--kv-transfer-config: {}:{} is open to other machines, and what goes through "
                    "it is not encrypted; use it in a network of your own",
                    config.kv_ip,
                    engine.kv_transfer->port()));
  }
  if (!config.trusts_peers()) {
    warnings.emplace_back(
        "--kv-transfer-config: there is no secret, so prompts that are fetched serve one request "
        "each and stay out of the prefix cache; give both sides one secret_file in "
        "kv_connector_extra_config, or REPRISE_KV_TRANSFER_SECRET");
  }
}

}  // namespace reprise::api
