#include "reprise/api/loading/packed_weights.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "reprise/api/loading/weight_file_key.h"
#include "reprise/api/loading/weights_identity.h"
#include "reprise/api/options/cache_folders.h"
#include "reprise/base/error.h"
#include "reprise/compile/cache/cache_key.h"
#include "reprise/models/part_runner.h"
#include "reprise/parallel/communicator.h"

namespace reprise::api {
namespace {

using compile::CacheKey;

/// Which experts a rank has; empty: all.
std::string experts_text(const weights::ModelConfig& config) {
  if (!config.moe || !config.moe->of_rank) return {};
  return fmt::format("{}+{}", config.moe->of_rank->begin, config.moe->of_rank->count);
}

/// A key that all engines with the same file share: the file's name is a hash of it.
CacheKey place_of(const EngineArgs& args, const ResolvedOptions& options) {
  std::error_code error;
  const std::filesystem::path model = std::filesystem::canonical(args.model, error);
  const weights::ModelConfig& config = options.rank_config;
  CacheKey place;
  place.add("model", error ? args.model.string() : model.string())
      .add("load_format", fmt::to_string(static_cast<int>(args.load_format)))
      .add("quantization", args.quantization)
      .add("dtype", dtype_name(options.dtype))
      .add("hf_overrides", args.hf_overrides.dump())
      .add("rank",
           fmt::format("{} of {}",
                       args.ranks == nullptr ? 0 : args.ranks->rank(),
                       args.ranks == nullptr ? 1 : args.ranks->size()))
      .add("parallel",
           fmt::format("{},{}", config.tensor_parallel_size, config.pipeline_parallel_size))
      .add("experts", experts_text(config))
      .add("part", options.draft_head ? "draft head" : "model");
  return place;
}

/// Everything that the weights in a file depend on.
std::string key_of(CacheKey key, const std::filesystem::path& model) {
  key.add("sources", kWeightSourcesHash);
  for (const std::filesystem::path& file : weight_files_of(model)) {
    key.add("file", fmt::format("{}: {}", file.filename().string(), stamp_of(file)));
  }
  return key.text();
}

weights::PackedCopyFile::Options file_options(const EngineArgs& args,
                                              const ResolvedOptions& options) {
  const CacheKey place = place_of(args, options);
  return {.root = packed_weights_folder(args.packed_weights_cache),
          .name = place.hash() + ".weights",
          .key = key_of(place, args.model)};
}

}  // namespace

std::filesystem::path packed_weights_folder(const std::string& value) {
  if (value.empty()) {
    throw InvalidArgument("--packed-weights-cache: needs none, auto or a folder");
  }
  if (value == "none") return {};
  if (value != "auto") return value;
  const std::filesystem::path root = packed_weights_root();
  if (root.empty()) {
    throw InvalidArgument(
        "--packed-weights-cache auto: neither REPRISE_CACHE_ROOT, XDG_CACHE_HOME nor HOME names a "
        "folder; give the folder itself");
  }
  return root;
}

PackedWeights::PackedWeights(const EngineArgs& args,
                             const ResolvedOptions& options,
                             EngineDevice& device,
                             StartupReport& report)
    : report_(&report), run_parts_([&device](int64_t parts, const auto& run_part) {
        models::PartRunner(device.execution->stream()).run(parts, run_part);
      }) {
  if (packed_weights_folder(args.packed_weights_cache).empty()) return;
  const char* why = nullptr;
  if (device.is_gpu()) why = "a GPU cannot read mapped files";
  if (args.load_format == LoadFormat::dummy) why = "made-up weights come from no file";
  if (why == nullptr) {
    file_.emplace(file_options(args, options));
  } else {
    report.warnings.push_back(fmt::format("--packed-weights-cache has no effect: {}", why));
  }
}

void PackedWeights::lend_to(models::Parameters& parameters) {
  if (!file_) return;
  weights::PackedCopyFile::Opened opened = file_->open(run_parts_);
  why_not_mapped_ = opened.reason;
  if (opened.is_broken) {
    report_->warnings.push_back(fmt::format(
        "--packed-weights-cache: {}; the weights are read from the model", opened.reason));
  }
  if (opened.copy != nullptr) parameters.use(std::move(opened.copy));
}

void PackedWeights::keep(const models::Parameters& parameters) {
  if (!file_) return;
  if (parameters.num_read() == 0) {
    report_->packed_weights = fmt::format("mapped {}", file_->path().string());
    return;
  }
  if (why_not_mapped_.empty()) why_not_mapped_ = "the file lacked weights of this model";
  const weights::PackedCopyFile::Saved saved = file_->save(parameters.packed_copy(), run_parts_);
  if (saved.is_saved) {
    report_->packed_weights = fmt::format(
        "wrote {}, {} bytes ({})", file_->path().string(), saved.bytes, why_not_mapped_);
    return;
  }
  report_->packed_weights = "not written";
  report_->warnings.push_back(fmt::format(
      "--packed-weights-cache: not written, so the next start reads the model again: {}",
      saved.reason));
}

}  // namespace reprise::api
