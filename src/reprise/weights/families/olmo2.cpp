// OLMo 2 and 3: norms after attention and MLP instead of before, and over all heads of q and of k.
// OLMo 3 has windows. EXAONE 4 norms each head, and only layers with a window rotate.
#include <optional>
#include <string>
#include <string_view>

#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"

namespace reprise::weights {
namespace {

void read_any_olmo(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in, {.default_norm_eps = 1e-5});
  read_heads(in);
  in.config.qkv_bias = in.config.o_bias = in.reader.boolean("attention_bias").value_or(false);
  in.config.qk_norm = QkNorm::all_heads;
  read_tied_embeddings(in, false);
}

}  // namespace

void read_olmo2(const FamilyConfig& in) {
  read_any_olmo(in);
  read_rope(in);
}

void read_olmo3(const FamilyConfig& in) {
  read_any_olmo(in);
  use_window_except_every(
      in, in.reader.integer("sliding_window", 1, kMaxPositions).value_or(4096), 4);
  read_layer_types(in);
  read_rope_by_layer_type(in, {}, {});
}

void read_exaone4(const FamilyConfig& in) {
  const ConfigReader& reader = in.reader;
  read_activation(in);
  read_sizes(in, {.default_norm_eps = 1e-5});
  read_heads(in);
  in.config.qk_norm = QkNorm::per_head;
  const auto window = reader.integer("sliding_window", 1, kMaxPositions);
  const bool has_window = window || !reader.has("sliding_window");
  // The text "LLLG" and the number 4 mean the same: the last of four layers sees all tokens.
  constexpr std::string_view kPattern = "sliding_window_pattern";
  const Json* pattern = reader.find(kPattern);
  int64_t period = 4;
  if (pattern != nullptr && pattern->is_string()) {
    const std::string text = reader.string(kPattern).value_or("");
    if (text.empty() || text.find('G') != text.size() - 1 ||
        text.find_first_not_of("LG") != text.npos) {
      reader.fail(kPattern, "must be a number of layers or a text such as LLLG");
    }
    period = static_cast<int64_t>(text.size());
  } else {
    period = reader.integer(kPattern, 1, kMaxPositions).value_or(period);
  }
  use_window_except_every(
      in, has_window ? std::optional<int64_t>(window.value_or(4096)) : std::nullopt, period);
  read_layer_types(in);
  read_rope(in);
  if (has_window) {
    for (const LayerType type : in.config.layer_types) {
      in.config.rope_layers.push_back(type == LayerType::sliding_attention);
    }
  }
  read_tied_embeddings(in, false);
}

}  // namespace reprise::weights
