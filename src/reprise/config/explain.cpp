#include "reprise/config/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::config {
namespace {

constexpr std::string_view kForms =
    "decode:R, uniform:RxQ, mixed:T, mixed:T/R or prefill:T, each with optional +cascade, +encoder "
    "or +lora=N";

[[noreturn]] void throw_bad_spec(std::string_view spec) {
  throw InvalidArgument(fmt::format("batch '{}': expected {}", spec, kForms));
}

// The largest count in a batch. No scheduler allows more, and products of two counts stay within 32
// bits.
constexpr int32_t kLargestCount = 1 << 20;

int32_t parse_count(std::string_view spec, std::string_view digits) {
  int32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || value < 0) {
    throw_bad_spec(spec);
  }
  if (value > kLargestCount) {
    throw InvalidArgument(
        fmt::format("batch '{}': expected counts up to {}, got {}", spec, kLargestCount, value));
  }
  return value;
}

std::pair<std::string_view, std::string_view> split_at(std::string_view text, char separator) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

int32_t product(std::string_view spec, int32_t a, int32_t b) {
  const int64_t tokens = int64_t{a} * b;
  if (tokens > INT32_MAX) {
    throw InvalidArgument(fmt::format("batch '{}': {} tokens are too many", spec, tokens));
  }
  return static_cast<int32_t>(tokens);
}

void apply_suffix(std::string_view spec, std::string_view suffix, cudagraph::BatchFacts& facts) {
  if (suffix == "cascade") {
    facts.cascade = true;
  } else if (suffix == "encoder") {
    facts.encoder_outputs = true;
  } else if (suffix.starts_with("lora=")) {
    facts.num_active_loras = parse_count(spec, suffix.substr(5));
  } else {
    throw_bad_spec(spec);
  }
}

// The sizes of the keys for mixed batches, or for uniform batches of one query length.
std::vector<int32_t> sizes_of(const cudagraph::CudagraphDispatcher& dispatcher,
                              std::optional<int32_t> query_len) {
  std::vector<int32_t> sizes;
  for (const cudagraph::CaptureGroup& group : dispatcher.capture_plan()) {
    if (group.uniform != query_len.has_value()) continue;
    for (const cudagraph::BatchDescriptor& d : group.descriptors) {
      if (!query_len || d.num_tokens == int64_t{*d.num_reqs} * *query_len) {
        sizes.push_back(d.num_tokens);
      }
    }
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

// Why the user's options choose this level. When the engine starts, the model and the machine may
// change the level; explain cannot know this.
std::string level_reason(const ResolutionInputs& inputs) {
  if (inputs.enforce_eager) return "enforce_eager is set";
  if (inputs.compilation.mode) return "asked for";
  return fmt::format("not given, -{} chooses it", to_string(inputs.optimization_level));
}

void fill(Explanation& out,
          const ResolutionInputs& inputs,
          std::span<const std::string> batch_specs) {
  ResolvedConfig resolved = resolve(inputs);
  cudagraph::CudagraphDispatcher dispatcher;
  dispatcher.initialize_cudagraph_keys(dispatcher_options(inputs, resolved));
  dispatcher.mark_all_captured();
  out.mixed_sizes = sizes_of(dispatcher, std::nullopt);
  out.decode_sizes = sizes_of(dispatcher, resolved.uniform_decode_query_len);
  for (const cudagraph::DecodeWidth& width : resolved.other_decode_widths) {
    std::vector<int32_t> sizes = sizes_of(dispatcher, width.query_len);
    if (width.query_len == 1) {
      out.draftless_sizes = std::move(sizes);
    } else {
      out.fewer_drafts.push_back({.query_len = width.query_len, .capture_sizes = std::move(sizes)});
    }
  }
  for (const std::string& spec : batch_specs) {
    cudagraph::BatchFacts facts =
        parse_batch_spec(spec, resolved.uniform_decode_query_len, inputs.max_num_seqs);
    facts.uniform = facts.uniform || std::ranges::count(resolved.other_decode_widths,
                                                        facts.query_len,
                                                        &cudagraph::DecodeWidth::query_len) > 0;
    const cudagraph::Decision decision = dispatcher.dispatch(facts);
    out.decisions.push_back({spec, facts, decision, dispatcher.describe(facts, decision)});
  }
  out.level_reason = level_reason(inputs);
  out.resolved = std::move(resolved);
}

Json optional_mode(const std::optional<cudagraph::CudagraphMode>& mode) {
  return mode ? Json(std::string(to_string(*mode))) : Json(nullptr);
}

Json decision_json(const ExplainedBatch& batch) {
  const cudagraph::BatchDescriptor& d = batch.decision.descriptor;
  return {{"batch", batch.batch},
          {"mode", std::string(to_string(batch.decision.mode))},
          {"num_tokens", d.num_tokens},
          {"num_reqs", d.num_reqs ? Json(*d.num_reqs) : Json(nullptr)},
          {"uniform", d.uniform},
          {"num_active_loras", d.num_active_loras},
          {"reason_code", std::string(name(batch.decision.reason))},
          {"reason", batch.reason}};
}

std::string sizes_text(const std::vector<int32_t>& sizes) {
  if (sizes.empty()) return "none";
  return fmt::format("{} ({} sizes)", fmt::join(sizes, " "), sizes.size());
}

bool has_layers(const ResolvedConfig& resolved) {
  return !resolved.attention.empty() && !resolved.attention.front().layers.empty();
}

}  // namespace

cudagraph::BatchFacts parse_batch_spec(std::string_view spec,
                                       int32_t uniform_decode_query_len,
                                       int32_t max_num_seqs) {
  auto [shape, suffixes] = split_at(spec, '+');
  const auto [kind, counts] = split_at(shape, ':');
  cudagraph::BatchFacts facts;
  int32_t query_len = 0;
  if (kind == "decode") {
    facts.num_reqs = parse_count(spec, counts);
    query_len = uniform_decode_query_len;
    facts.num_tokens = product(spec, facts.num_reqs, query_len);
  } else if (kind == "uniform") {
    const auto [reqs, tokens] = split_at(counts, 'x');
    facts.num_reqs = parse_count(spec, reqs);
    query_len = parse_count(spec, tokens);
    facts.num_tokens = product(spec, facts.num_reqs, query_len);
  } else if (kind == "mixed") {
    const auto [tokens, reqs] = split_at(counts, '/');
    facts.num_tokens = parse_count(spec, tokens);
    facts.num_reqs = counts.find('/') != std::string_view::npos
                         ? parse_count(spec, reqs)
                         : std::min(facts.num_tokens, max_num_seqs);
  } else if (kind == "prefill") {
    facts.num_tokens = parse_count(spec, counts);
    facts.num_reqs = 1;
  } else {
    throw_bad_spec(spec);
  }
  const bool any_prefill = kind == "mixed" || kind == "prefill";
  facts.query_len = query_len;
  facts.uniform = cudagraph::is_uniform_decode(query_len,
                                               query_len == 1 ? 1 : uniform_decode_query_len,
                                               facts.num_tokens,
                                               facts.num_reqs,
                                               any_prefill);
  if (shape.size() != spec.size()) {
    do {
      const auto [suffix, rest] = split_at(suffixes, '+');
      apply_suffix(spec, suffix, facts);
      suffixes = rest;
    } while (!suffixes.empty());
  }
  return facts;
}

Explanation explain(const ResolutionInputs& inputs, std::span<const std::string> batch_specs) {
  Explanation out;
  out.requested = inputs.compilation.cudagraph_mode;
  try {
    fill(out, inputs, batch_specs);
  } catch (const InvalidArgument& error) {
    out = {};
    out.requested = inputs.compilation.cudagraph_mode;
    out.error = error.what();
  }
  return out;
}

namespace {

std::string layers_text(const cudagraph::AttentionBackendSupport& group) {
  const bool is_one = group.layers.find_first_of(",-") == std::string::npos;
  return fmt::format("{} {}", is_one ? "layer" : "layers", group.layers);
}

}  // namespace

std::string attention_group_text(const cudagraph::AttentionBackendSupport& group) {
  return fmt::format(
      "{}: {}, support {}", layers_text(group), group.backend, to_string(group.support));
}

std::string weakest_text(const ResolvedConfig& resolved) {
  return fmt::format("the weakest layers decide: {} of {} holds {} in FULL graphs",
                     resolved.weakest_attention.backend,
                     layers_text(resolved.weakest_attention),
                     to_string(resolved.weakest_attention.support));
}

Json to_json(const Explanation& explanation) {
  Json json = Json::object();
  json["requested"] = optional_mode(explanation.requested);
  if (explanation.error) {
    json["error"] = *explanation.error;
    return json;
  }
  const ResolvedConfig& resolved = *explanation.resolved;
  json["resolved"] = std::string(to_string(resolved.mode));
  json["compilation_mode"] = std::string(to_string(resolved.compilation_mode));
  json["level"] = static_cast<int>(resolved.compilation_mode);
  json["level_reason"] = explanation.level_reason;
  json["attention"] = {{"backend", resolved.weakest_attention.backend},
                       {"support", std::string(to_string(resolved.weakest_attention.support))}};
  if (has_layers(resolved)) {
    json["attention"]["layers"] = resolved.weakest_attention.layers;
    json["attention"]["groups"] = Json::array();
    for (const cudagraph::AttentionBackendSupport& group : resolved.attention) {
      json["attention"]["groups"].push_back({{"layers", group.layers},
                                             {"backend", group.backend},
                                             {"support", std::string(to_string(group.support))}});
    }
  }
  if (!explanation.attention_kernels.empty()) {
    json["attention"]["kernels_on_a_gpu"] = explanation.attention_kernels;
  }
  json["reasons"] = Json::array();
  for (const ResolutionReason& reason : resolved.reasons) {
    json["reasons"].push_back({{"rule", reason.rule},
                               {"text", reason.text},
                               {"before", std::string(to_string(reason.before))},
                               {"after", std::string(to_string(reason.after))}});
  }
  json["warnings"] = resolved.warnings;
  json["capture_sizes"] = {{"mixed", explanation.mixed_sizes},
                           {"decode", explanation.decode_sizes}};
  if (!explanation.draftless_sizes.empty()) {
    json["capture_sizes"]["decode_without_drafts"] = explanation.draftless_sizes;
  }
  for (const cudagraph::DecodeWidth& width : explanation.fewer_drafts) {
    json["capture_sizes"]["decode_with_fewer_drafts"][std::to_string(width.query_len - 1)] =
        width.capture_sizes;
  }
  if (explanation.draft_model) {
    json["capture_sizes"]["draft_model"] = {{"mixed", explanation.draft_model->mixed},
                                            {"first", explanation.draft_model->first},
                                            {"others", explanation.draft_model->others}};
  }
  json["decisions"] = Json::array();
  for (const ExplainedBatch& batch : explanation.decisions) {
    json["decisions"].push_back(decision_json(batch));
  }
  return json;
}

std::string to_text(const Explanation& explanation) {
  std::string text = fmt::format(
      "requested  {}\n",
      explanation.requested ? to_string(*explanation.requested) : "(nothing, choose for me)");
  if (explanation.error) return text + fmt::format("error      {}\n", *explanation.error);

  const ResolvedConfig& resolved = *explanation.resolved;
  text += fmt::format("resolved   {}\n", to_string(resolved.mode));
  text += fmt::format("level      {} {}: {}\n",
                      static_cast<int>(resolved.compilation_mode),
                      to_string(resolved.compilation_mode),
                      explanation.level_reason);
  text += fmt::format("attention  {}, support {}\n",
                      resolved.weakest_attention.backend,
                      to_string(resolved.weakest_attention.support));
  if (has_layers(resolved)) {
    for (const cudagraph::AttentionBackendSupport& group : resolved.attention) {
      text += fmt::format("  {}\n", attention_group_text(group));
    }
    if (resolved.attention.size() > 1) text += fmt::format("  {}\n", weakest_text(resolved));
  }
  if (!explanation.attention_kernels.empty()) {
    text += fmt::format("  kernels on a GPU: {}\n", explanation.attention_kernels);
  }
  for (const ResolutionReason& reason : resolved.reasons) {
    text += fmt::format("  {:<4}{}\n", reason.rule, reason.text);
  }
  // A downgrade has a reason and a warning with the same text. Print that text only once.
  for (const std::string& warning : resolved.warnings) {
    const bool told = std::ranges::any_of(
        resolved.reasons, [&](const ResolutionReason& reason) { return reason.text == warning; });
    if (!told) text += fmt::format("  warning: {}\n", warning);
  }
  text += fmt::format("mixed sizes, tokens   {}\n", sizes_text(explanation.mixed_sizes));
  text += fmt::format("decode sizes, tokens  {}\n", sizes_text(explanation.decode_sizes));
  if (!explanation.draftless_sizes.empty()) {
    text += fmt::format("  without drafts      {}\n", sizes_text(explanation.draftless_sizes));
  }
  for (const cudagraph::DecodeWidth& width : explanation.fewer_drafts) {
    text += fmt::format("{:<22}{}\n",
                        fmt::format("  up to {} drafts", width.query_len - 1),
                        sizes_text(width.capture_sizes));
  }
  if (explanation.draft_model) {
    const DraftModelSizes& sizes = *explanation.draft_model;
    text += fmt::format("draft model, prompts  {}\n", sizes_text(sizes.mixed));
    text += fmt::format("  first draft         {}\n", sizes_text(sizes.first));
    text += fmt::format("  further drafts      {}\n", sizes_text(sizes.others));
  }
  for (const ExplainedBatch& batch : explanation.decisions) {
    text += fmt::format("{:<16} {:<9} {}: {}\n",
                        batch.batch,
                        to_string(batch.decision.mode),
                        to_string(batch.decision.descriptor),
                        batch.reason);
  }
  return text;
}

}  // namespace reprise::config
