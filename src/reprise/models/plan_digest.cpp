#include "reprise/models/plan_digest.h"

#include <fmt/format.h>

#include <optional>
#include <string>

namespace reprise::models {
namespace {

uint64_t fnv1a(std::string_view text) noexcept {
  uint64_t digest = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    digest = (digest ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return digest;
}

}  // namespace

uint64_t plan_digest(const weights::WeightSource& source, const WeightPlan& plan) {
  const Arrangement& arrangement = plan.arrangement;
  std::string text = fmt::format("{};{};{};{};{};",
                                 plan.type.to_string(),
                                 plan.stacked.to_string(),
                                 arrangement.is_transposed,
                                 arrangement.num_experts,
                                 arrangement.transposes_each);
  for (const std::string& name : plan.names) {
    const std::optional<PanelFormat> format =
        is_packed(plan.family()) ? source.panel_format(name) : std::nullopt;
    text += fmt::format("{};{};{};",
                        name,
                        format ? codec_name(*format) : "",
                        loaded_shape(*source.find(name), arrangement.is_transposed).to_string());
  }
  for (const int64_t row : arrangement.rows) text += fmt::format("{},", row);
  return fnv1a(text);
}

}  // namespace reprise::models
