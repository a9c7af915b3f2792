#include "reprise/replay_log/request_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <string_view>

#include "reprise/base/error.h"
#include "reprise/replay_log/params_json.h"

namespace reprise::replay_log {
namespace {

using structured_output::ConstraintSource;
using structured_output::OutputSpec;
using structured_output::ReasoningDelimiters;

constexpr size_t kDigits = 16;
constexpr auto kSpecKinds = std::to_array<OutputSpec::Kind>({OutputSpec::Kind::json_object,
                                                             OutputSpec::Kind::json_schema,
                                                             OutputSpec::Kind::regex,
                                                             OutputSpec::Kind::choice,
                                                             OutputSpec::Kind::grammar,
                                                             OutputSpec::Kind::structural_tag});

Json constraint_to_json(const ConstraintSource& source) {
  Json json = {{"kind", to_string(source.spec.kind)},
               {"text", source.spec.text},
               {"choices", source.spec.choices},
               {"any_whitespace", source.spec.any_whitespace}};
  if (const auto& reasoning = source.reasoning) {
    json["reasoning"] = {{"start", reasoning->start},
                         {"end", reasoning->end},
                         {"begins_inside", reasoning->begins_inside}};
  }
  return json;
}

ConstraintSource constraint_from_json(const Json& json) {
  ConstraintSource source;
  const auto name = json.at("kind").get<std::string>();
  const auto* kind = std::ranges::find(
      kSpecKinds, name, [](OutputSpec::Kind of) { return std::string(to_string(of)); });
  if (kind == kSpecKinds.end()) {
    throw InvalidArgument(fmt::format("constraint: the kind '{}' is unknown", name));
  }
  source.spec.kind = *kind;
  json.at("text").get_to(source.spec.text);
  json.at("choices").get_to(source.spec.choices);
  json.at("any_whitespace").get_to(source.spec.any_whitespace);
  if (const auto reasoning = json.find("reasoning"); reasoning != json.end()) {
    source.reasoning = {.start = reasoning->at("start").get<int32_t>(),
                        .end = reasoning->at("end").get<int32_t>(),
                        .begins_inside = reasoning->at("begins_inside").get<bool>()};
  }
  return source;
}

std::string digests_text(const std::vector<uint64_t>& digests) {
  std::string text;
  text.reserve(digests.size() * kDigits);
  for (const uint64_t digest : digests) fmt::format_to(std::back_inserter(text), "{:016x}", digest);
  return text;
}

std::vector<uint64_t> read_digests(std::string_view text, size_t count) {
  if (text.size() != count * kDigits) {
    throw InvalidArgument(fmt::format(
        "digests: expected {} digits for {} tokens, got {}", count * kDigits, count, text.size()));
  }
  std::vector<uint64_t> digests;
  digests.reserve(count);
  for (; !text.empty(); text.remove_prefix(kDigits))
    digests.push_back(read_digest(text.substr(0, kDigits)));
  return digests;
}

}  // namespace

std::string digest_text(uint64_t digest) { return fmt::format("{:016x}", digest); }

uint64_t read_digest(std::string_view text) {
  uint64_t digest = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), digest, 16);
  if (text.size() != kDigits || error != std::errc() || end != text.data() + text.size()) {
    throw InvalidArgument(fmt::format("'{}' is not a digest of {} digits", text, kDigits));
  }
  return digest;
}

Json to_json(const RequestRecord& record) {
  Json json = {{"kind", "request"},
               {"engine", record.engine},
               {"id", record.id},
               {"number", record.number},
               {"finish_reason", record.finish_reason},
               {"cached_tokens", record.num_cached_tokens},
               {"preemptions", record.num_preemptions},
               {"params", params_to_json(record.params)}};
  if (const auto& adapter = record.adapter) {
    json["adapter"] = {{"name", adapter->name},
                       {"folder", adapter->folder},
                       {"digest", digest_text(adapter->digest)}};
  }
  if (record.constraint) json["constraint"] = constraint_to_json(*record.constraint);
  if (record.has_unknown_constraint) json["constraint"] = nullptr;
  if (record.second_text_begin) json["second_text_begin"] = *record.second_text_begin;
  if (record.vector_digest) json["vector"] = digest_text(*record.vector_digest);
  json["prompt"] = record.prompt_token_ids;
  json["tokens"] = record.token_ids;
  json["digests"] = digests_text(record.digests);
  return json;
}

RequestRecord read_request_record(const Json& json) {
  RequestRecord record;
  json.at("engine").get_to(record.engine);
  json.at("id").get_to(record.id);
  json.at("number").get_to(record.number);
  json.at("finish_reason").get_to(record.finish_reason);
  json.at("cached_tokens").get_to(record.num_cached_tokens);
  json.at("preemptions").get_to(record.num_preemptions);
  record.params = params_from_json(json.at("params"));
  if (const auto found = json.find("adapter"); found != json.end()) {
    record.adapter = {.name = found->at("name").get<std::string>(),
                      .folder = found->at("folder").get<std::string>(),
                      .digest = read_digest(found->at("digest").get<std::string>())};
  }
  if (const auto found = json.find("constraint"); found != json.end()) {
    record.has_unknown_constraint = found->is_null();
    if (!found->is_null()) record.constraint = constraint_from_json(*found);
  }
  if (const auto found = json.find("second_text_begin"); found != json.end())
    record.second_text_begin = found->get<int32_t>();
  if (const auto found = json.find("vector"); found != json.end())
    record.vector_digest = read_digest(found->get<std::string>());
  json.at("prompt").get_to(record.prompt_token_ids);
  json.at("tokens").get_to(record.token_ids);
  record.digests = read_digests(json.at("digests").get<std::string>(), record.token_ids.size());
  return record;
}

}  // namespace reprise::replay_log
