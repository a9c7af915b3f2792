#include "reprise/weights/config/draft_head_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/files/config_reader.h"

namespace reprise::weights {
namespace {

constexpr size_t kMostAuxiliaryLayers = 8;  // published heads have 3
// Source: vLLM 0.32, deepseek_mtp.py, glm4_moe_mtp.py and glm4_moe_lite_mtp.py.
constexpr std::array kWithMtpLayer = {
    Architecture::deepseek_v3, Architecture::glm4_moe, Architecture::glm4_moe_lite};
// Source: vLLM 0.32, qwen3_next_mtp.py and qwen3_5_mtp.py.
constexpr std::array kWithMtpModules = {
    Architecture::qwen3_next, Architecture::qwen3_5, Architecture::qwen3_5_moe};

bool is_one_of(std::span<const Architecture> list, Architecture one) {
  return std::ranges::find(list, one) != list.end();
}

void require_equal(const ConfigReader& reader,
                   std::string_view key,
                   int64_t got,
                   int64_t expected) {
  if (got == expected) return;
  reader.fail(
      key,
      fmt::format(
          "is {}, but the main model has {}; this head was made for another model", got, expected));
}

void refuse_if_true(const ConfigReader& reader, std::string_view key) {
  if (reader.boolean(key).value_or(false)) reader.fail(key, "true is not supported");
}

std::vector<int64_t> auxiliary_layers(const ConfigReader& reader, const ModelConfig& target) {
  const int64_t most = target.num_hidden_layers;
  constexpr std::string_view kKey = "eagle_aux_hidden_state_layer_ids";
  std::vector<int64_t> layers = reader.integers(kKey, 0, most, kMostAuxiliaryLayers);
  if (const auto eagle = reader.object("eagle_config"); eagle && layers.empty()) {
    if (!eagle->boolean("use_aux_hidden_state").value_or(true)) {
      eagle->fail("use_aux_hidden_state", "false is not supported");
    }
    refuse_if_true(*eagle, "norm_before_fc");
    layers = eagle->integers(kKey, 0, most, kMostAuxiliaryLayers);
  }
  if (layers.empty()) {
    if (most < 4) {
      reader.fail(kKey, fmt::format("is missing; the main model has only {} layers", most));
    }
    layers = {2, most / 2, most - 3};
  }
  // vLLM also uses these layers in ascending order, each once.
  std::ranges::sort(layers);
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

}  // namespace

DraftHeadConfig parse_eagle_config(DraftHeadKind kind,
                                   std::string_view json,
                                   std::string_view path,
                                   ModelConfig model,
                                   const ModelConfig& target) {
  const Json object = parse_json_file(json, path, "E_CONFIG");
  const ConfigReader reader(object, path);
  DraftHeadConfig head{.kind = kind, .model = std::move(model)};
  head.target_num_layers = target.num_hidden_layers;
  if (head.model.num_hidden_layers != 1) {
    reader.fail("num_hidden_layers",
                fmt::format("{} is not supported; draft heads have 1 layer here",
                            head.model.num_hidden_layers));
  }
  require_equal(reader, "vocab_size", head.model.vocab_size, target.vocab_size);
  require_equal(reader, "hidden_size", head.model.hidden_size, target.hidden_size);
  const int64_t target_size =
      reader.integer("target_hidden_size", 1, INT32_MAX).value_or(target.hidden_size);
  require_equal(reader, "target_hidden_size", target_size, target.hidden_size);
  // A head reads the target's embedding, or another one of the same size, together with the
  // target's hidden states.
  if (target.embedding_size > 0) {
    reader.fail("hidden_size",
                fmt::format("the target's embedding has {} elements and its hidden states have {}; "
                            "draft heads need as many in both",
                            target.embedding_size,
                            target.hidden_size));
  }
  head.draft_vocab_size = head.model.vocab_size;
  if (kind == DraftHeadKind::eagle) return head;
  head.draft_vocab_size =
      reader.integer("draft_vocab_size", 1, head.model.vocab_size).value_or(head.model.vocab_size);
  for (const char* key : {"norm_before_fc", "fc_norm", "parallel_drafting"}) {
    refuse_if_true(reader, key);
  }
  head.auxiliary_layers = auxiliary_layers(reader, target);
  if (const auto parts = reader.integer("num_aux_hidden_states", 1, kMostAuxiliaryLayers)) {
    if (std::cmp_not_equal(*parts, head.auxiliary_layers.size())) {
      reader.fail(
          "num_aux_hidden_states",
          fmt::format(
              "is {}, but the head reads the layers {}", *parts, head.auxiliary_layers.size()));
    }
  }
  head.norm_before_residual = reader.boolean("norm_before_residual").value_or(false);
  head.norm_output = reader.boolean("norm_output").value_or(false);
  return head;
}

DraftHeadConfig mtp_config(std::string_view json,
                           std::string_view path,
                           const ModelConfig& target) {
  const Json object = parse_json_file(json, path, "E_CONFIG");
  const auto inner = object.find("text_config");
  const bool is_inside = inner != object.end() && inner->is_object();
  const ConfigReader reader(is_inside ? *inner : object, path);
  const bool has_modules = is_one_of(kWithMtpModules, target.architecture);
  if (!has_modules && !is_one_of(kWithMtpLayer, target.architecture)) {
    std::vector<std::string_view> names;
    for (const Architecture one : kWithMtpLayer) names.push_back(architecture_name(one));
    for (const Architecture one : kWithMtpModules) names.push_back(architecture_name(one));
    reader.fail("architectures",
                fmt::format("{} has no MTP head that is supported; those of {} are",
                            architecture_name(target.architecture),
                            fmt::join(names, ", ")));
  }
  const bool is_qwen3_5 = has_modules && target.architecture != Architecture::qwen3_next;
  const std::string_view key = is_qwen3_5 ? "mtp_num_hidden_layers" : "num_nextn_predict_layers";
  // Published configs of Qwen3-Next do not mention their head, so one is assumed.
  const int64_t count =
      reader.integer(key, 0, target.num_hidden_layers).value_or(has_modules ? 1 : 0);
  if (count != 1) {
    reader.fail(key,
                fmt::format("is {}: {}",
                            count,
                            count == 0 ? "this checkpoint has no MTP layer"
                                       : "only one MTP layer is supported"));
  }
  if (is_qwen3_5) refuse_if_true(reader, "mtp_use_dedicated_embeddings");
  DraftHeadConfig head{.kind = has_modules ? DraftHeadKind::qwen_mtp : DraftHeadKind::mtp,
                       .model = target,
                       .norm_output = has_modules};
  head.target_num_layers = target.num_hidden_layers;
  head.draft_vocab_size = target.vocab_size;
  head.model.num_hidden_layers = 1;
  head.model.layer_types = {has_modules ? LayerType::full_attention : target.layer_types.back()};
  head.model.recurrent.reset();
  if (target.moe) head.model.moe_layers = {has_modules || target.moe_layers.back()};
  if (!target.rope_layers.empty()) head.model.rope_layers = {target.rope_layers.back()};
  head.model.tie_word_embeddings = false;
  return head;
}

}  // namespace reprise::weights
