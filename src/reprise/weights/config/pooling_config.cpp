#include "reprise/weights/config/pooling_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/json.h"
#include "reprise/weights/config/decoder_tensors.h"
#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/files/config_reader.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 20;

// "Pooling" of "sentence_transformers.models.Pooling".
std::string kind_of_module(const Json& module, const std::string& path) {
  const auto type = module.is_object() ? module.find("type") : module.end();
  if (!module.is_object() || type == module.end() || !type->is_string()) {
    throw FileError("E_CONFIG", path, "type", "each module must have one");
  }
  const auto& name = type->get_ref<const std::string&>();
  return name.substr(name.rfind('.') + 1);  // all of a name without a dot
}

// The file is a list, which parse_json_file() would refuse.
Json parse_modules(std::string_view text, std::string_view path) {
  Json modules;
  try {
    modules = parse_json(text, "document");
  } catch (const InvalidArgument& error) {
    throw FileError("E_CONFIG", path, "", error.what());
  }
  if (!modules.is_array()) throw FileError("E_CONFIG", path, "", "must be a list of modules");
  return modules;
}

constexpr std::array kModes = {
    std::pair{"cls", PoolingType::cls},
    std::pair{"mean", PoolingType::mean},
    std::pair{"lasttoken", PoolingType::last},
};

// Since version 6, Sentence Transformers writes one name instead of a flag for each kind of
// pooling.
std::optional<PoolingType> read_pooling_name(const ConfigReader& reader) {
  const Json* mode = reader.find("pooling_mode");
  if (mode == nullptr) return std::nullopt;
  for (const auto& [name, type] : kModes) {
    if (*mode == name || *mode == Json::array({name})) return type;
  }
  reader.fail(
      "pooling_mode",
      fmt::format("{} is not supported; supported: cls, mean, lasttoken", visible(mode->dump())));
}

PoolingType read_pooling_type(const ConfigReader& reader, const Json& document) {
  if (const auto named = read_pooling_name(reader)) return *named;
  constexpr std::array kFlags = {
      std::pair{"pooling_mode_cls_token", std::optional(PoolingType::cls)},
      std::pair{"pooling_mode_mean_tokens", std::optional(PoolingType::mean)},
      std::pair{"pooling_mode_lasttoken", std::optional(PoolingType::last)},
      std::pair{"pooling_mode_max_tokens", std::optional<PoolingType>()},
      std::pair{"pooling_mode_mean_sqrt_len_tokens", std::optional<PoolingType>()},
      std::pair{"pooling_mode_weightedmean_tokens", std::optional<PoolingType>()},
  };
  const auto refuse = [&](std::string_view key) {
    reader.fail(key,
                "is not supported; supported: pooling_mode_cls_token, pooling_mode_mean_tokens, "
                "pooling_mode_lasttoken");
  };
  std::optional<PoolingType> found;
  for (const auto& [key, type] : kFlags) {
    if (!reader.boolean(key).value_or(false)) continue;
    if (found) reader.fail(key, "is one of several poolings; only one is supported");
    if (!type) refuse(key);
    found = type;
  }
  for (const auto& member : document.items()) {
    const std::string& key = member.key();
    const bool is_known =
        std::ranges::any_of(kFlags, [&](const auto& flag) { return key == flag.first; });
    if (key.starts_with("pooling_mode_") && member.value() == true && !is_known) refuse(key);
  }
  return found.value_or(PoolingType::mean);  // as Sentence Transformers
}

DenseActivation read_dense_activation(const ConfigReader& reader) {
  constexpr std::string_view kKey = "activation_function";
  const std::string name = reader.string(kKey).value_or("torch.nn.modules.activation.Tanh");
  constexpr std::array kFunctions = {
      std::pair{".Identity", DenseActivation::identity},
      std::pair{".Tanh", DenseActivation::tanh},
      std::pair{".ReLU", DenseActivation::relu},
      std::pair{".GELU", DenseActivation::gelu},
  };
  for (const auto& [ending, function] : kFunctions) {
    if (name.ends_with(ending)) return function;
  }
  reader.fail(kKey,
              fmt::format("'{}' is not supported; supported: Identity, Tanh, ReLU and GELU of "
                          "torch.nn.modules",
                          visible(name)));
}

DenseModule read_dense(const ConfigReader& reader, std::string folder) {
  constexpr int64_t kMostFeatures = int64_t{1} << 17;  // the largest size of a hidden state
  DenseModule dense{.folder = std::move(folder)};
  dense.in_features = reader.required_integer("in_features", 1, kMostFeatures);
  dense.out_features = reader.required_integer("out_features", 1, kMostFeatures);
  dense.has_bias = reader.boolean("bias").value_or(true);
  dense.activation = read_dense_activation(reader);
  if (reader.boolean("use_residual").value_or(false)) {
    reader.fail("use_residual", "only false is supported");
  }
  for (const std::string_view key : {"module_input_name", "module_output_name"}) {
    if (reader.string(key).value_or("sentence_embedding") == "sentence_embedding") continue;
    reader.fail(key, "only sentence_embedding is supported: a projection of the pooled vector");
  }
  return dense;
}

// The modules after the transformer, in their order.
class ModuleReader {
 public:
  ModuleReader(const ModelDirectory& directory, const std::string& path)
      : directory_(directory), path_(path) {}

  void read(const Json& module) {
    const std::string kind = kind_of_module(module, path_);
    if (kind == "Transformer" || kind == "Dropout") return;
    const auto fail = [&](std::string_view message) {
      throw FileError("E_CONFIG", path_, "type", fmt::format("{}: {}", visible(kind), message));
    };
    if (kind != "Pooling" && kind != "Dense" && kind != "Normalize") {
      fail("is not supported; supported: Transformer, Pooling, Dense, Normalize");
    }
    if (normalizes_) fail("is only supported before Normalize");
    if (kind == "Normalize") {
      normalizes_ = true;
      return;
    }
    if ((kind == "Pooling") == config_.has_value()) fail("is only supported once, before Dense");
    const std::string folder = folder_of(module);
    const ModelDirectory files = directory_.folder(folder);
    const std::string path = files.path_of("config.json");
    const Json document =
        parse_json_file(files.read_text("config.json", kMaxFileBytes), path, "E_CONFIG");
    const ConfigReader reader(document, path);
    if (kind == "Pooling") {
      config_ = PoolingConfig{.type = read_pooling_type(reader, document)};
    } else {
      config_->dense.push_back(read_dense(reader, folder));
    }
  }

  [[nodiscard]] std::optional<PoolingConfig> result() && {
    if (config_) config_->normalizes = normalizes_;
    return std::move(config_);
  }

 private:
  [[nodiscard]] std::string folder_of(const Json& module) const {
    std::string folder = ConfigReader(module, path_).string("path").value_or("");
    if (folder.starts_with("./")) folder.erase(0, 2);
    return folder;
  }

  const ModelDirectory& directory_;
  const std::string& path_;  // of modules.json
  std::optional<PoolingConfig> config_;
  bool normalizes_ = false;
};

// The file of the transformer module. Older versions named it after their first class.
void read_transformer_file(const ModelDirectory& directory,
                           PoolingConfig& config,
                           std::vector<std::string>& warnings) {
  constexpr std::string_view kFile = "sentence_bert_config.json";
  if (!directory.contains(kFile)) return;
  const std::string path = directory.path_of(kFile);
  const Json document =
      parse_json_file(directory.read_text(kFile, kMaxFileBytes), path, "E_CONFIG");
  const ConfigReader reader(document, path);
  config.max_text_length = reader.integer("max_seq_length", 1, kMaxPositions).value_or(0);
  if (reader.boolean("do_lower_case").value_or(false)) {
    warnings.push_back(fmt::format(
        "{}: do_lower_case is left to the tokenizer; if it keeps capitals, send lower case", path));
  }
}

// Warns of prompts: texts that users, and by default the library, put before their own texts.
void read_library_file(const ModelDirectory& directory, std::vector<std::string>& warnings) {
  constexpr std::string_view kFile = "config_sentence_transformers.json";
  if (!directory.contains(kFile)) return;
  const std::string path = directory.path_of(kFile);
  const Json document =
      parse_json_file(directory.read_text(kFile, kMaxFileBytes), path, "E_CONFIG");
  const ConfigReader reader(document, path);
  if (const std::string name = reader.string("default_prompt_name").value_or(""); !name.empty()) {
    warnings.push_back(fmt::format(
        "{}: the prompt '{}' (default_prompt_name) is not put before texts; send it with them",
        path,
        visible(name)));
  }
  const std::string similarity = reader.string("similarity_fn_name").value_or("cosine");
  if (similarity != "cosine") {
    warnings.push_back(
        fmt::format("{}: /score and /rerank compare by cosine, not by similarity_fn_name '{}'",
                    path,
                    visible(similarity)));
  }
}

}  // namespace

std::string_view pooling_type_name(PoolingType type) noexcept {
  switch (type) {
    case PoolingType::last:
      return "LAST";
    case PoolingType::cls:
      return "CLS";
    case PoolingType::mean:
      break;
  }
  return "MEAN";
}

std::optional<PoolingConfig> load_pooling_config(const ModelDirectory& directory,
                                                 std::vector<std::string>& warnings) {
  if (!directory.contains("modules.json")) return std::nullopt;
  const std::string path = directory.path_of("modules.json");
  const Json modules = parse_modules(directory.read_text("modules.json", kMaxFileBytes), path);
  const bool pools = std::ranges::any_of(
      modules, [&](const Json& module) { return kind_of_module(module, path) == "Pooling"; });
  // The folder belongs to a model that makes something else from its hidden states.
  if (!pools) return std::nullopt;
  ModuleReader reader(directory, path);
  for (const Json& module : modules) reader.read(module);
  std::optional<PoolingConfig> config = std::move(reader).result();
  read_transformer_file(directory, *config, warnings);
  read_library_file(directory, warnings);
  return config;
}

void require_dense_sizes(const PoolingConfig& config,
                         int64_t hidden_size,
                         const ModelDirectory& directory) {
  int64_t size = hidden_size;
  for (const DenseModule& dense : config.dense) {
    if (dense.in_features != size) {
      throw FileError(
          "E_CONFIG",
          directory.folder(dense.folder).path_of("config.json"),
          "in_features",
          fmt::format(
              "is {}, but the vectors before it have {} elements", dense.in_features, size));
    }
    size = dense.out_features;
  }
}

PoolingConfig default_pooling_config(const ModelConfig& config) {
  const bool is_of_bert = config.is_encoder && decoder_tensors(config).lm_head.empty();
  return {.type = is_of_bert ? PoolingType::cls : PoolingType::last};
}

}  // namespace reprise::weights
