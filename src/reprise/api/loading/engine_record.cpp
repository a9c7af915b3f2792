#include "reprise/api/loading/engine_record.h"

#include <dlfcn.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "reprise/api/loading/engine_device.h"
#include "reprise/api/loading/loaded_engine.h"
#include "reprise/api/loading/weight_file_key.h"
#include "reprise/api/options/product_report.h"
#include "reprise/api/options/resolved_options.h"
#include "reprise/base/error.h"
#include "reprise/base/json_values.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/weights/files/input_file.h"

namespace reprise::api {
namespace {

namespace fs = std::filesystem;

/// Calls visit(name, member) for each option that is written as it is.
template <typename Args, typename Visit>
void each_option(Args& args, const Visit& visit) {
  visit("tokenizer", args.tokenizer);
  visit("runner", args.runner);
  visit("seed", args.seed);
  visit("hf_overrides", args.hf_overrides);
  visit("generation_config", args.generation_config);
  visit("override_generation_config", args.override_generation_config);
  visit("quantization", args.quantization);
  visit("device", args.device);
  visit("dtype", args.dtype);
  visit("kv_cache_dtype", args.kv_cache_dtype);
  visit("kv_cache_memory_bytes", args.kv_cache_memory_bytes);
  visit("num_gpu_blocks_override", args.num_gpu_blocks_override);
  visit("block_size", args.block_size);
  visit("allow_long_max_model_len", args.allow_long_max_model_len);
  visit("max_num_seqs", args.max_num_seqs);
  visit("max_num_batched_tokens", args.max_num_batched_tokens);
  visit("enable_chunked_prefill", args.enable_chunked_prefill);
  visit("long_prefill_token_threshold", args.long_prefill_token_threshold);
  visit("enable_prefix_caching", args.enable_prefix_caching);
  visit("mamba_cache_mode", args.mamba_cache_mode);
  visit("async_scheduling", args.async_scheduling);
  visit("max_logprobs", args.max_logprobs);
  visit("enable_lora", args.enable_lora);
  visit("max_loras", args.max_loras);
  visit("max_lora_rank", args.max_lora_rank);
  visit("attention_backend", args.attention_backend);
  visit("flash_attn_version", args.flash_attn_version);
  visit("flashinfer_prefill", args.flashinfer_prefill);
  visit("cpu_isa", args.cpu_isa);
  visit("batch_invariant", args.batch_invariant);
  visit("tune", args.tune);
  visit("tensor_parallel_size", args.tensor_parallel_size);
  visit("pipeline_parallel_size", args.pipeline_parallel_size);
  visit("enable_expert_parallel", args.enable_expert_parallel);
  visit("speculative_config", args.speculative_config);
  visit("enforce_eager", args.enforce_eager);
  visit("compilation_config", args.compilation_config);
  visit("extension_files", args.extension_files);
}

std::string digest_of_file(const fs::path& path) {
  constexpr size_t kChunkBytes = size_t{1} << 20;
  try {
    const weights::InputFile file = weights::InputFile::open(path);
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                         &XXH3_freeState);
    XXH3_64bits_reset(state.get());
    std::vector<std::byte> chunk(kChunkBytes);
    for (uint64_t at = 0; at < file.size_bytes(); at += kChunkBytes) {
      const auto bytes =
          static_cast<size_t>(std::min<uint64_t>(kChunkBytes, file.size_bytes() - at));
      file.read_at(at, std::span(chunk).first(bytes), "content");
      XXH3_64bits_update(state.get(), chunk.data(), bytes);
    }
    return fmt::format("{:016x}", XXH3_64bits_digest(state.get()));
  } catch (const FileError& error) {
    return error.what();
  }
}

/// The file that this code is in: the program, or the module of the Python package.
fs::path file_of_this_code() {
  Dl_info info{};
  const auto* here = reinterpret_cast<const void*>(&file_of_this_code);
  const fs::path path = ::dladdr(here, &info) != 0 ? info.dli_fname : "";
  return path.is_absolute() ? path : "/proc/self/exe";
}

/// Of the measured choices of kernels. Empty: the built-in rules choose all of them.
std::string digest_of(const ProductReport* products) {
  if (products == nullptr || products->table.num_changed() == 0) return {};
  const kernels::ProductTable& table = products->table;
  kernels::ProductTable choices;
  for (const auto& [shape, rows] : table.products()) {
    for (const auto& [count, measured] : rows) {
      const kernels::MeasuredRows without_times{
          .choice = measured.choice, .microseconds = 1, .built_in_microseconds = 1};
      choices.set(shape, count, without_times);
    }
  }
  const std::string text = kernels::print(choices);
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

bool is_cpu(const Json& bits) { return bits.value("device", "") == "cpu"; }

/// The texts that stand for the members of "bits" in messages.
struct BitsFact {
  const char* name;
  const char* words;
};
constexpr auto kBitsFacts = std::to_array<BitsFact>({
    {"device", "device"},
    {"cpu_isa", "instruction set"},
    {"dtype", "dtype"},
    {"quantization", "quantization"},
    {"kv_cache_dtype", "dtype of the KV cache"},
    {"attention_backend", "attention backend"},
    {"tensor_parallel_size", "number of ranks that share a layer"},
    {"enable_expert_parallel", "division of experts"},
    {"batch_invariant", "value of --batch-invariant"},
    {"products", "choice of kernels for matrix products"},
    {"hf_overrides", "hf_overrides"},
    {"dummy_seed", "seed of made-up weights"},
    {"extension_files", "extensions"},
});

Json bits_of(const LoadedEngine& engine) {
  const EngineArgs& args = engine.args;
  const StartupReport& report = engine.report;
  Json bits = {{"device", engine.device->is_gpu() ? report.device : "cpu"},
               {"cpu_isa", report.cpu_isa},
               {"dtype", report.dtype},
               {"quantization", args.quantization},
               {"kv_cache_dtype", report.kv_cache_dtype},
               {"tensor_parallel_size", args.tensor_parallel_size},
               {"enable_expert_parallel", args.enable_expert_parallel},
               {"batch_invariant", !depends_on_batches(args, *engine.device, *engine.parameters)},
               {"hf_overrides", args.hf_overrides},
               {"products", digest_of(report.products.get())}};
  bits["attention_backend"] = report.attention == nullptr ? "" : report.attention->name;
  if (args.load_format == LoadFormat::dummy) bits["dummy_seed"] = args.seed;
  write_json(bits["extension_files"], args.extension_files);
  return bits;
}

void compare_files(const Json& logged, const Json& replayed, std::vector<std::string>& causes) {
  std::set<std::string> names;
  for (const Json* files : {&logged, &replayed}) {
    for (const auto& [name, digest] : files->items()) names.insert(name);
  }
  const auto add = [&](const std::string& name) {
    const bool was = logged.contains(name);
    const bool is = replayed.contains(name);
    if (was && is && logged.at(name) == replayed.at(name)) return;
    const bool has_weights = name.ends_with(".safetensors") || name.ends_with(".gguf");
    causes.push_back(fmt::format("other {}: {}{}",
                                 has_weights ? "weights" : "file of the model",
                                 name,
                                 !was  ? " was not there"
                                 : !is ? " is missing"
                                       : ""));
  };
  const auto is_weights = [](const std::string& name) { return !name.ends_with(".json"); };
  for (const std::string& name : names)
    if (is_weights(name)) add(name);
  for (const std::string& name : names)
    if (!is_weights(name)) add(name);
}

/// The text of a JSON value, without the quotes of a string.
std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

Json args_to_json(const LoadedEngine& engine) {
  const EngineArgs& args = engine.args;
  Json json = {{"model", fs::absolute(args.model).string()},
               {"load_format", args.load_format == LoadFormat::dummy ? "dummy" : "auto"},
               {"max_model_len", engine.report.max_model_len},
               {"optimization_level", static_cast<int>(args.optimization_level)}};
  each_option(args,
              [&json](const char* name, const auto& value) { write_json(json[name], value); });
  return json;
}

EngineArgs args_from_json(const Json& json) {
  EngineArgs args;
  args.model = json.at("model").get<std::string>();
  if (json.at("load_format") == "dummy") args.load_format = LoadFormat::dummy;
  args.max_model_len = json.at("max_model_len").get<int32_t>();
  args.optimization_level =
      static_cast<config::OptimizationLevel>(json.at("optimization_level").get<int>());
  each_option(args, [&json](const char* name, auto& value) { read_json(json.at(name), value); });
  return args;
}

Json engine_record(const LoadedEngine& engine) {
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  return {{"at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", now)},
          {"version", engine.args.program_version},
          {"bits", bits_of(engine)},
          {"options", args_to_json(engine)}};
}

void add_file_digests(const fs::path& model, Json& record) {
  Json files = Json::object();
  for (const fs::path& file : weight_files_of(model))
    files[file.filename().string()] = digest_of_file(file);
  record["files"] = std::move(files);
  record["build"] = digest_of_file(file_of_this_code());
}

EngineArgs args_of_record(const Json& record) {
  EngineArgs args = args_from_json(record.at("options"));
  const Json& bits = record.at("bits");
  const std::optional<kernels::Isa> isa =
      kernels::parse_isa(is_cpu(bits) ? bits.at("cpu_isa").get<std::string>() : "");
  const std::vector<kernels::Isa> here = kernels::supported_isas(device::detect_cpu_features());
  if (isa && std::ranges::find(here, *isa) != here.end()) args.cpu_isa = kernels::isa_name(*isa);
  // The default may have been another one when the record was written.
  if (isa && kernels::has_kernels_without_invariance(*isa) && !args.batch_invariant &&
      bits.value("batch_invariant", true)) {
    args.batch_invariant = true;
  }
  return args;
}

std::vector<std::string> likely_causes(const Json& logged, const Json& replayed) {
  std::vector<std::string> causes;
  compare_files(logged.at("files"), replayed.at("files"), causes);
  const Json& was = logged.at("bits");
  const Json& is = replayed.at("bits");
  for (const BitsFact& fact : kBitsFacts) {
    const Json before = was.contains(fact.name) ? was.at(fact.name) : Json();
    const Json now = is.contains(fact.name) ? is.at(fact.name) : Json();
    if (before == now) continue;
    causes.push_back(
        fmt::format("another {}: {}, now {}", fact.words, text_of(before), text_of(now)));
  }
  const bool has_versions = logged.at("version") != "" && replayed.at("version") != "";
  if (has_versions && logged.at("version") != replayed.at("version")) {
    causes.push_back(fmt::format("another version of Reprise: {}, now {}",
                                 text_of(logged.at("version")),
                                 text_of(replayed.at("version"))));
  } else if (logged.at("build") != replayed.at("build")) {
    causes.emplace_back("another build of Reprise");
  }
  if (!was.value("batch_invariant", is_cpu(was))) {
    causes.emplace_back(
        "the results of this engine depend on its batches, and the batches were different");
  }
  if (causes.empty()) {
    causes.emplace_back("no difference of the engines is known; please report this");
  }
  return causes;
}

}  // namespace reprise::api
